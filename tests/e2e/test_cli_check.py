"""`pysandbox check` on this very host, as a program would call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

MODULE = [sys.executable, "-m", "pysandbox"]


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MODULE, *arguments], capture_output=True, text=True, timeout=60)


def test_the_table_and_the_document_agree_on_the_exit_code() -> None:
    table, document = check("check"), check("check", "--json")
    assert table.returncode == document.returncode == (0 if json.loads(document.stdout)["minimum_met"] else 1)
    assert table.stderr == document.stderr == ""


def test_the_document_tells_what_this_kernel_is() -> None:
    document = json.loads(check("check", "--json").stdout)
    assert (document["kernel"], document["machine"]) == (os.uname().release, os.uname().machine)


def test_a_pipe_sees_no_colour() -> None:
    assert "\x1b" not in check("check").stdout


def test_the_version_is_one_line() -> None:
    done = check("--version")
    assert (done.returncode, len(done.stdout.split())) == (0, 2)


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*MODULE, "check", "--json"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
