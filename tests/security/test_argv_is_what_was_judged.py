"""Claim: a program whose arguments a callback forbids never runs, whoever changes them after they were read.

Each attack execs `good`, which is allowed, again and again, while somebody else makes `evil` of it. Without a callback
`evil` runs now and then; with one it never does: the call is refused, or what has become of it is killed before its
first instruction. PSB_TRIES says how often each attack is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox import Cage
from pysandbox.supervise.context import Context
from pysandbox.supervise.policy_fn import CallEvent

from .harness import in_cage, policy, program, read_report, uncaged

TRIES = int(os.environ.get("PSB_TRIES", "2000"))
IN_A_ROUND = 1_000
CONTROL_TRIES = 1_000
MOST_TRIES, ROUNDS = 120_000, 12  # a race is won by chance
WRITERS = ("thread", "parent", "peer", "orphan", "shared", "file", "tid")
CHANGED = "changed while it was decided"


def forbid_evil(event: CallEvent, context: Context) -> bool:
    return "evil" in event.argv


@pytest.fixture(scope="module", autouse=True)
def supervisor() -> None:
    """It is made once and stays: no test leaves it behind."""
    with Cage(policy(), policy_fn=forbid_evil, watch=("exec",)) as cage:
        cage.run(["/bin/true"], check=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_forbidden_argument_never_runs(writer: str, attack_bin: Path, tmp_path: Path) -> None:
    race = [str(attack_bin / "argv_race"), writer]
    control = first_round(
        lambda: uncaged([*race, str(CONTROL_TRIES), str(tmp_path)])[writer].value,
        shows=lambda said: bool(said["evil"]),
    )
    assert control["evil"] > 0

    with Cage(policy(allow=[str(attack_bin)]), policy_fn=forbid_evil, watch=("exec",)) as cage:
        tries = good = killed = 0
        while tries < TRIES or (not (good and killed) and tries < MOST_TRIES):
            said = one_round(cage, [*race, str(IN_A_ROUND), "/tmp"])
            tries, good, killed = tries + IN_A_ROUND, good + said["good"], killed + said["killed"]
        on_record = sum(each.count for each in cage.denials if each.rule == CHANGED)
    assert good > 0 and killed > 0 and on_record >= killed


def one_round(cage: Cage, argv: list[str]) -> dict[str, int]:
    """What a round of tries came to: never `evil`. Who was killed is gone, and so may be whose command it was of: the
    record is the cage's."""
    result = cage.run(argv, timeout=300)
    said: dict[str, int] = read_report(result.exit_code, str(result.stdout), str(result.stderr), result)[argv[1]].value
    assert said["evil"] == said["other"] == 0
    assert said["good"] + said["refused"] + said["killed"] == IN_A_ROUND
    return said


def first_round(play: Callable[[], dict[str, int]], shows: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """The first round in which the race was won by somebody: on a slow machine it takes more than one."""
    for _ in range(ROUNDS - 1):
        said = play()
        if shows(said):
            return said
    return play()


@pytest.mark.parametrize("writer", ("parent", "shared"))
def test_it_holds_without_namespaces(writer: str, attack_bin: Path) -> None:
    race = str(attack_bin / "argv_race")
    rules = policy("landlock", allow=[str(attack_bin)])

    with Cage(rules, policy_fn=forbid_evil, watch=("exec",)) as cage:
        result = cage.run([race, writer, "500", "/tmp"], timeout=100)
    said = read_report(result.exit_code, str(result.stdout), str(result.stderr), result)[writer].value

    assert said["evil"] == said["other"] == 0 and said["good"] > 0 and said["refused"] + said["killed"] > 0


WRITE = """
    buffer = ctypes.create_string_buffer(b"good")
    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
    piece = Piece(ctypes.addressof(buffer), 4)
    child = os.fork()
    if not child:
        signal.pause()
    def through_proc():
        with open(f"/proc/{child}/mem", "r+b", buffering=0) as memory:
            memory.seek(ctypes.addressof(buffer))
            memory.write(b"evil")
    attempt("/proc/PID/mem", through_proc)
    attempt("process_vm_writev", call, "process_vm_writev", child, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0)
    attempt("ptrace", call, "ptrace", 16, child, 0, 0)
    os.kill(child, 9)
"""
ROUTES = ("/proc/PID/mem", "process_vm_writev", "ptrace")


def test_another_process_s_memory_is_not_written_while_execs_are_watched() -> None:
    control = uncaged(program(WRITE))
    assert control.differs(dict.fromkeys(ROUTES)) == {}

    rules = policy(seccomp="relaxed")
    with Cage(rules, policy_fn=forbid_evil, watch=("exec",)) as cage:
        report = in_cage(cage, program(WRITE))

    assert {name: report[name].errno for name in ROUTES[1:]} == dict.fromkeys(ROUTES[1:], "EPERM")
    assert report[ROUTES[0]].errno in ("EACCES", "EPERM")
