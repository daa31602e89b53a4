"""A command that failed in a cage without a network is told when it had looked for a host: nobody watches, the kernel
counts what it had no route for."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox import PIPE, Cage, Policy
from pysandbox.cli.no_network import NO_ROUTE

PYTHON = "/usr/bin/python3"
Lines = Callable[..., list[str]]
LIMIT = 60  # seconds after which a test is stuck
UNKNOWN = "import socket; socket.getaddrinfo('origin.example', 443)"
CALLED = "import socket; socket.create_connection(('203.0.113.9', 443))"
SENT = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('203.0.113.9', 53))"
CALLED6 = "import socket; socket.create_connection(('2001:db8::9', 443))"
SENT6 = "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::9', 53))"
AT_HOME = """
import socket
socket.getaddrinfo('localhost', 80), socket.getaddrinfo(socket.gethostname(), 80)
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 8125))
socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('::1', 8125))
assert socket.socket(socket.AF_INET6).connect_ex(('::1', 80))
socket.create_connection(('127.0.0.1', 80))
"""


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    project = tmp_path / "project"
    project.mkdir()
    environment = os.environ | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}

    def said(*arguments: str) -> list[str]:
        ran = subprocess.run(
            ["pysandbox", "run", *arguments], cwd=project, env=environment, capture_output=True, text=True,
            timeout=LIMIT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return [line for line in ran.stderr.splitlines() if line.startswith("pysandbox:")]

    return said


@pytest.mark.parametrize("program", [UNKNOWN, CALLED, SENT, CALLED6, SENT6])
def test_who_looked_for_a_host_is_told(lines: Lines, program: str) -> None:
    for _ in range(3):  # from the second time on from a kept plan, where there is one
        assert lines("--", PYTHON, "-c", program) == [f"pysandbox: {NO_ROUTE}"]


def test_who_looked_for_none_is_not(lines: Lines) -> None:
    """Names of one's own, and ports of one's own at which nobody listens."""
    for _ in range(3):
        assert lines("--", PYTHON, "-c", AT_HOME) == []
        assert lines("--", PYTHON, "-c", "raise SystemExit(3)") == []


def test_who_succeeded_all_the_same_is_not(lines: Lines) -> None:
    for _ in range(3):
        assert lines("--", PYTHON, "-c", f"try:\n  {UNKNOWN}\nexcept OSError: pass") == []


@pytest.mark.parametrize("options", [["--isolation", "landlock"], ["--host", "other.example"], ["--egress", "none"]])
def test_where_there_is_a_way_or_was_to_be_none_it_is_not(lines: Lines, options: list[str]) -> None:
    """Control: the first test of this file."""
    for _ in range(2):
        assert not any(NO_ROUTE in line for line in lines(*options, "--", PYTHON, "-c", UNKNOWN))


def test_the_switch_that_the_line_names_tells_the_host(lines: Lines) -> None:
    (line,) = lines("--why", "--", PYTHON, "-c", UNKNOWN)
    assert "origin.example" in line and "--host origin.example" in line


def test_a_name_is_unknown_and_not_out_of_reach() -> None:
    """What would mean "try again" is tried again for minutes."""
    program = f"import socket\ntry: {UNKNOWN}\nexcept OSError as error: print(error.errno == socket.EAI_NONAME)"
    with Cage(Policy()) as cage:
        assert cage.run([PYTHON, "-c", program]).stdout == "True\n"


@pytest.mark.guest
def test_each_command_of_a_cage_is_told_its_own() -> None:
    with Cage(Policy()) as cage:
        sought = [
            cage.run([PYTHON, "-c", each]).no_route
            for each in (UNKNOWN, "raise SystemExit(1)", CALLED, AT_HOME, CALLED6, AT_HOME, "pass")
        ]
    assert sought == [True, False, True, False, True, False, False]


def test_no_command_is_told_another_s() -> None:
    """What one looked for that succeeded, or that runs meanwhile, is not told of one that fails then."""
    swallowed = f"try: {UNKNOWN}\nexcept OSError: pass"
    with Cage(Policy()) as cage:
        assert cage.run([PYTHON, "-c", swallowed]).ok
        assert not cage.run([PYTHON, "-c", "raise SystemExit(3)"]).no_route
        with cage.spawn([PYTHON, "-c", f"{swallowed}\nprint(flush=True); input()"], stdin=PIPE, stdout=PIPE) as other:
            other.stdout.readline()
            assert not cage.run([PYTHON, "-c", "raise SystemExit(3)"]).no_route
            other.stdin.close()
        assert cage.run([PYTHON, "-c", UNKNOWN]).returncode and cage.run([PYTHON, "-c", UNKNOWN]).no_route, (
            "the control"
        )


@pytest.mark.parametrize(("program", "told"), [(UNKNOWN, True), (CALLED6, True), (AT_HOME, False)])
def test_the_document_says_it(tmp_path: Path, program: str, told: bool) -> None:
    ran = subprocess.run(["pysandbox", "run", "--json", "--", PYTHON, "-c", program], cwd=tmp_path, capture_output=True,
                         timeout=LIMIT, stdin=subprocess.DEVNULL)  # fmt: skip
    assert json.loads(ran.stdout)["exit_code"] == 1 and json.loads(ran.stdout)["no_route"] is told


def test_the_result_says_it_in_words() -> None:
    with Cage(Policy()) as cage:
        failed, other = cage.run([PYTHON, "-c", UNKNOWN]), cage.run(["false"])
    assert "a host was looked for" in str(failed) and "a host" not in str(other)
