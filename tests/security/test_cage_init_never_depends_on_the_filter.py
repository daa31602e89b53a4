"""Claim: whatever system calls a policy refuses, cage-init does its duties: orders, the wall time, SIGTERM, reaping,
and the end of everything when the host dies. Each call that it uses is refused once, alone and all together.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import DEVNULL, Cage, Policy, PolicyError
from pysandbox.compile.init_calls import INIT_CALLS, INSTALLS
from pysandbox.compile.profiles import names_of, profile

from .harness import SLOWNESS, alive_with, caged, first_line, host_script, policy, program, token, wait_until
from .test_the_cage_dies_with_its_host import remove_abandoned_scratch

pytestmark = pytest.mark.guest

SOURCE = Path(__file__).with_name("attacks") / "bare" / "still.c"
LISTED = names_of(profile("baseline").allow)
SEED = names_of(profile("seed-187").allow)
NEEDED = (*INIT_CALLS, INSTALLS)
SUPERVISED = {"alone": {}, "supervised": {"notifier": True}}
ENDED = {
    7,
    *(128 + number for number in (signal.SIGILL, signal.SIGTRAP, signal.SIGSYS)),
}  # by signal: no exit is allowed
QUIET: dict[str, Any] = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL}
TRIES = 10  # of a command that a busy machine may keep from ending within its second


def listing(names: Sequence[str]) -> dict[str, Any]:
    return {"syscall_lists": {"allow": list(names), "deny": []}}


ONE_BY_ONE = {f"a list without {call}": listing([name for name in LISTED if name != call]) for call in NEEDED}
HARD: Mapping[str, Mapping[str, Any]] = {
    **({} if SLOWNESS > 1 else ONE_BY_ONE),  # an emulated processor has those in which all are missing
    "a list of execve alone": listing(["execve", "nanosleep"]),
    "the seed's own list": listing(SEED),
    "deny_extra of all": {"deny_syscalls": NEEDED},
    "deny_extra of all, strict": {"deny_syscalls": NEEDED, "strict": True},
    "deny_extra of all, watched": {"deny_syscalls": NEEDED, "monitor": True},
}


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("still") / "still"
    bare = ["-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *bare, "-o", str(program), str(SOURCE)], check=True)
    return program


@pytest.fixture(params=SUPERVISED)
def rules(request: pytest.FixtureRequest, isolation: str, still: Path) -> Policy:
    return policy(isolation, allow=[str(still.parent)], grace_sec=0.1, **SUPERVISED[request.param])


def each(rules: Policy, act: Any) -> dict[str, Any]:
    """What `act` gives for every hard policy; several at once, since most of it is waiting. Landlock mode has no strict
    cages."""

    def one(name: str) -> Any:
        if rules.isolation == "landlock" and "strict" in HARD[name]:
            return act(replace(rules, **{**HARD[name], "strict": False}))
        try:
            return act(replace(rules, **dict(HARD[name])))
        except pysandbox.CageError as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(16) as pool:
        return dict(zip(HARD, pool.map(one, HARD), strict=True))


def test_commands_start_and_are_reaped(rules: Policy, still: Path) -> None:
    def act(rules: Policy) -> object:
        with Cage(rules) as cage:
            codes = {cage.run([str(still)], timeout=20, **QUIET).exit_code for _ in range(2)}
            return codes <= ENDED or codes

    assert each(rules, act) == dict.fromkeys(HARD, True)


def test_the_wall_time_holds(rules: Policy, still: Path) -> None:
    def act(rules: Policy) -> tuple[str, bool]:
        begun = time.monotonic()
        result = pysandbox.run([str(still), "on"], policy=replace(rules, walltime_sec=1), timeout=20, **QUIET)
        return result.reason, time.monotonic() - begun < 5 * SLOWNESS

    assert each(rules, act) == dict.fromkeys(HARD, ("timeout", True))


def test_the_wall_time_holds_for_one_command_of_a_session(rules: Policy, still: Path) -> None:
    def act(rules: Policy) -> tuple[str, bool]:
        with Cage(replace(rules, walltime_sec=1)) as cage:
            timed_out = cage.run([str(still), "on"], timeout=20, **QUIET).reason
            later = (cage.run([str(still)], timeout=20, **QUIET).exit_code in ENDED for _ in range(TRIES))
            return timed_out, any(later)

    assert each(rules, act) == dict.fromkeys(HARD, ("timeout", True))


def test_sigterm_ends_a_command(rules: Policy, still: Path) -> None:
    def act(rules: Policy) -> int:
        with Cage(rules) as cage, cage.spawn([str(still), "on"], **QUIET) as running:
            running.terminate()
            return running.wait(timeout=20)

    assert each(rules, act) == dict.fromkeys(HARD, -signal.SIGTERM)


HOST = """
    import sys
    from pysandbox import DEVNULL, Cage, Policy
    isolation, supervised, still, mark = sys.argv[1:5]
    sets = eval(sys.argv[5])
    kept = []
    for options in sets:
        run_as = "self" if isolation == "landlock" else "nobody"
        cage = Cage(Policy(isolation=isolation, run_as=run_as, allow=[still.rpartition("/")[0]],
                           notifier=True if supervised == "supervised" else None, **options)).__enter__()
        kept.append((cage, cage.spawn([still, mark], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)))
    print(*(cage.init_pid for cage, _ in kept), flush=True)
    kept[0][1].wait()
"""


@pytest.mark.parametrize("supervised", SUPERVISED)
def test_everything_ends_with_the_host(isolation: str, supervised: str, still: Path) -> None:
    mark = token()
    sets = [{"syscall_lists": {"allow": list(HARD[name]["syscall_lists"]["allow"]), "deny": []}}
            for name in HARD if "syscall_lists" in HARD[name]]  # fmt: skip
    with host_script(HOST, isolation, supervised, str(still), mark, repr(sets)) as host:
        inits = [int(pid) for pid in first_line(host).split()]
        assert len(inits) == len(sets), "the control: every cage runs"
        assert len([pid for pid in alive_with(mark) if pid != host.pid]) >= len(sets)

        host.kill()
        host.wait()

        gone = wait_until(lambda: not alive_with(mark) and not any(map(runs, inits)), within=20 * SLOWNESS)
        assert gone, [pid for pid in inits if runs(pid)]
    if isolation == "landlock":
        remove_abandoned_scratch()


def runs(pid: int) -> bool:
    """One that is dead, and that the machine's first process has not reaped yet, is gone."""
    try:
        _, name, state = Path(f"/proc/{pid}/stat").read_text().replace(")", "(").split("(", 2)
    except OSError:
        return False
    return name == "cage-init" and state.split()[0] not in ("Z", "X")


def test_the_wall_time_does_not_wait_for_a_callback(still: Path) -> None:
    """cage-init looks a session's processes up in /proc: an openat, which the callback decides for every command."""

    def never(event: Any) -> bool:
        time.sleep(3)
        return True

    rules = policy(allow=[str(still.parent)], walltime_sec=1, grace_sec=0.1)
    with Cage(rules, policy_fn=never, watch=["file"]) as cage:
        begun = time.monotonic()
        assert cage.run([str(still), "on"], **QUIET).reason == "timeout"
        assert time.monotonic() - begun < 2 * SLOWNESS


@pytest.mark.parametrize("options", [listing(["read", "write"]), {"deny_syscalls": ("execve",)}], ids=["list", "deny"])
def test_a_filter_without_execve_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="'execve' is refused"):
        pysandbox.run(["/bin/true"], policy=policy(**options))


def test_what_is_left_open_for_cage_init_is_closed_to_the_command(isolation: str) -> None:
    """The control: the same program makes the call where the list has it."""
    lists = {"with": LISTED, "without": [name for name in LISTED if name != "getpid"]}
    report = {name: caged(program('attempt("getpid", call, "getpid")'), policy(isolation, **listing(names)))
              for name, names in lists.items()}  # fmt: skip
    assert {name: each["getpid"].errno for name, each in report.items()} == {"with": None, "without": "EPERM"}
