"""caged=False runs the command as it is: the host's files, environment and processes, and every object says so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import pysandbox
from pysandbox import PIPE, Cage, CageTimeout, Policy

UNCAGED = Policy(caged=False)


def test_it_inherits_what_a_cage_would_hide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSB_INHERITED", "yes")
    (tmp_path / "file").write_text("of the host\n")
    show = ["/bin/sh", "-c", f"cat {tmp_path}/file; echo $PSB_INHERITED; readlink /proc/self/ns/pid; id -u"]

    result = pysandbox.run(show, policy=UNCAGED)

    assert result.stdout == f"of the host\nyes\n{os.readlink('/proc/self/ns/pid')}\n{os.geteuid()}\n"


def test_everything_says_that_it_is_not_caged() -> None:
    with Cage(UNCAGED) as cage, cage.spawn(["/bin/true"]) as process:
        result = cage.run(["/bin/true"])

        assert (cage.caged, cage.init_pid, process.caged, result.caged) == (False, None, False, False)
        assert process.wait(timeout=10) == 0


def test_a_caged_run_is_not_flagged() -> None:
    result = pysandbox.run(["/bin/true"])

    assert result.caged is True


def test_the_api_is_the_same() -> None:
    assert pysandbox.run(["/bin/cat"], policy=UNCAGED, input="in").stdout == "in"
    assert pysandbox.run(["/bin/sh", "-c", "kill -TERM $$"], policy=UNCAGED).signal == signal.SIGTERM
    with pytest.raises(CageTimeout) as caught:
        pysandbox.run(["/bin/sh", "-c", "echo first; sleep 600"], policy=UNCAGED, timeout=0.5)
    assert caught.value.result.stdout == "first\n"
    with pytest.raises(pysandbox.StartError) as missing:
        pysandbox.run(["/no/such/program"], policy=UNCAGED)
    assert missing.value.errno == 2


def test_its_process_takes_signals_and_pipes() -> None:
    with Cage(UNCAGED).spawn(["/bin/cat"], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"x\n"
        process.terminate()

        assert process.wait(timeout=10) == -signal.SIGTERM


def test_descriptors_of_the_host_are_not_inherited_here_either() -> None:
    read_end, write_end = os.pipe()
    try:
        os.set_inheritable(write_end, True)
        leak = ["/bin/bash", "-c", f"echo leak >&{write_end}"]
        inherited, passed = (
            pysandbox.run(leak, policy=UNCAGED),
            pysandbox.run(leak, policy=UNCAGED, pass_fds=(write_end,)),
        )
    finally:
        os.close(read_end)
        os.close(write_end)

    assert (inherited.ok, passed.ok) == (False, True)


def test_closing_ends_its_commands() -> None:
    with Cage(Policy(caged=False, grace_sec=0)) as cage:
        running = cage.spawn(["/bin/sleep", "600"])

    assert running.wait(timeout=10) < 0
    running.close()
