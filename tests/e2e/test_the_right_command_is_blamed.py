"""A Result holds what its own command was refused, whoever else runs in the cage, and says which process that was."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from pysandbox import PIPE, AsyncCage, Cage, Policy
from pysandbox.denial import Denial
from pysandbox.result import Result

PYTHON = ("/usr/bin/python3", "-c")
NAME = "import socket, sys, time\ntry: socket.gethostbyname(sys.argv[1])\nexcept OSError: pass\ntime.sleep(0.5)"
PROXY = (
    "import sys, time, urllib.request\ntry: urllib.request.urlopen(f'http://{sys.argv[1]}/', timeout=9)\n"
    "except OSError: pass\ntime.sleep(0.5)"
)
ADDRESS = (
    "import socket, sys, time\ntry: socket.create_connection((sys.argv[1], 9), timeout=9)\nexcept OSError: pass\n"
    "time.sleep(0.5)"
)
EXEC = "import os, sys, time\ntry: os.execv(sys.argv[1], ['x'])\nexcept OSError: pass\ntime.sleep(0.5)"
SYSCALL = "import ctypes, sys, time\nctypes.CDLL(None).getpriority(0, 0)\ntime.sleep(0.5)"
NAMES = Policy(hosts=["pypi.org"])
LISTS = Policy(isolation="landlock", run_as="self", allow_ips=["192.0.2.7:443/tcp"])
PROGRAMS = Policy(allow_execve=["/usr/bin/*", "/bin/*"], deny=["/usr/bin/true"], allow_write=[])
WATCHED = Policy(monitor=True, deny_syscalls=["getpriority"])

ASKS = {
    "a name": (NAMES, NAME, "evil.example", "dns", "evil.example"),
    "a name, by proxy": (NAMES, PROXY, "evil.example", "tcp", "evil.example:80"),
    "an address, in C": (LISTS, ADDRESS, "127.0.0.1", "network", "127.0.0.1:9/tcp"),
    "a program": (Policy(allow_execve=["/usr/bin/*"]), EXEC, "/usr/sbin/nologin", "exec", "/usr/sbin/nologin"),
    "a system call": (WATCHED, SYSCALL, "", "syscall", "getpriority"),
}  # fmt: skip


def brief(result: Result) -> list[tuple[str, str]]:
    return [(each.kind, each.target) for each in result.denials]


def at_once(cage: Cage, *commands: Sequence[str]) -> list[Result]:
    found: dict[int, Result] = {}

    def run(number: int, command: Sequence[str]) -> None:
        found[number] = cage.run(command)

    threads = [threading.Thread(target=run, args=each) for each in enumerate(commands)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(commands))]


@pytest.mark.parametrize("what", ASKS)
def test_of_two_in_turn_the_one_that_asked(what: str) -> None:
    policy, code, argument, kind, target = ASKS[what]
    with Cage(policy) as cage:
        guilty, innocent = cage.run([*PYTHON, code, argument]), cage.run([*PYTHON, "pass"])
        whole = cage.denials
    assert brief(guilty) == [(kind, target)] and innocent.denials == ()
    (denial,) = guilty.denials
    assert denial.command == 1 and denial.pid and denial.argv[:2] == PYTHON
    assert [(each.target, each.command) for each in whole] == [(target, 1)]


@pytest.mark.parametrize("what", ASKS)
def test_of_several_at_once_those_that_asked_and_each_by_itself(what: str) -> None:
    policy, code, argument, kind, target = ASKS[what]
    ask, rest = [*PYTHON, code, argument], [*PYTHON, "import time; time.sleep(0.6)"]
    with Cage(policy) as cage:
        cage.run([*PYTHON, "pass"])
        first, innocent, second = at_once(cage, ask, rest, ask)
        after = cage.run([*PYTHON, "pass"])
        whole = cage.denials
    assert brief(first) == brief(second) == [(kind, target)]
    assert innocent.denials == after.denials == ()
    (mine,), (other) = first.denials, second.denials[0]
    assert mine.pid and other.pid and mine.pid != other.pid and mine.command != other.command
    assert sum(each.count for each in whole) == mine.count + other.count


def test_a_connection_that_the_kernel_refuses_is_one_command_s_where_no_other_ran() -> None:
    """Nothing is left of the socket to be asked for: of two at once it is nobody's, and the cage's all the same."""
    ask, rest = [*PYTHON, ADDRESS, "203.0.113.9"], [*PYTHON, "import time; time.sleep(0.6)"]
    with Cage(NAMES) as cage:
        alone = cage.run(ask)
        innocent, guilty = at_once(cage, rest, ask)
        whole = [(each.target, each.command, each.pid) for each in cage.denials]
    assert [(each.target, each.command, each.pid) for each in alone.denials] == [("203.0.113.9:9", 1, None)]
    assert innocent.denials == guilty.denials == ()
    assert whole == [("203.0.113.9:9", 1, None), ("203.0.113.9:9", None, None)]


def test_what_a_command_starts_is_its_own_also_in_a_session_of_its_own_and_in_the_background() -> None:
    ask = [*PYTHON, NAME, "evil.example"]
    below = ["/usr/bin/env", "sh", "-c", 'setsid -w "$@" & "$@" & wait', "sh", *ask]
    with Cage(NAMES) as cage, cage.spawn(["sleep", "60"]) as other:
        result = cage.run(below)
        other.kill()
        other.wait()
        assert brief(result) == [("dns", "evil.example")] and result.denials[0].count >= 2
        assert other.result().denials == ()


def test_of_a_spawned_command_and_of_asynchronous_ones() -> None:
    ask, rest = [*PYTHON, NAME, "evil.example"], [*PYTHON, "import time; time.sleep(0.6)"]

    async def several() -> list[Result]:
        async with AsyncCage(NAMES) as cage:
            return await asyncio.gather(cage.run(ask), cage.run(rest))

    guilty, innocent = asyncio.run(several())
    assert brief(guilty) == [("dns", "evil.example")] and innocent.denials == ()
    with Cage(NAMES) as cage, cage.spawn(rest) as one, cage.spawn(ask, stdout=PIPE) as other:
        other.communicate()
        one.wait()
        assert one.result().denials == () and brief(other.result()) == [("dns", "evil.example")]


def test_of_a_detached_one_and_of_the_command_line(tmp_path: Path) -> None:
    ask = [*PYTHON, NAME, "evil.example"]
    detached = Cage(NAMES).detach(ask)
    (denial,) = detached.result().denials
    detached.close()
    assert isinstance(denial, Denial) and (denial.target, denial.command) == ("evil.example", 1) and denial.pid
    done = subprocess.run(
        [sys.executable, "-m", "pysandbox", "run", "--json", "--host", "pypi.org", "--", *ask],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    (told,) = json.loads(done.stdout)["denials"]
    assert (told["target"], told["command"], told["flag"]) == ("evil.example", 1, "--host evil.example")
    assert told["argv"][:2] == list(PYTHON) and told["pid"]
