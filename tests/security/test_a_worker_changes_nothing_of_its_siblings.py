"""Claim: a worker of a template changes neither how its siblings, the template and what forks them are scheduled, nor
whom the kernel ends first; it finds no object of System V or POSIX of theirs, and no terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pysandbox import CageExecutor, Policy, Template

pytestmark = pytest.mark.landlock(6)


@pytest.fixture
def template() -> Iterator[Template]:
    with Template(Policy(), init="ctypes", parked=3) as made:
        yield made


def state(_):
    """What a sibling could have changed: the next to be called has waited while it ran."""
    import os

    names = ("oom_score_adj", "timerslack_ns", "coredump_filter", "comm")
    files = []
    for name in names:
        with open(f"/proc/self/{name}") as file:
            files.append(file.read())
    return [os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0), files]


def reaching(whom):
    """What worked: on itself, and then on every other process that it sees."""
    import ctypes
    import os

    idle, prio_process, ioprio_process, user = os.SCHED_IDLE, os.PRIO_PROCESS, 1, os.PRIO_USER
    ioprio_set = {"x86_64": 251, "aarch64": 30}[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    attempts = {
        "nice": lambda pid: os.setpriority(prio_process, pid, 19),
        "nice of a group": lambda pid: os.setpriority(os.PRIO_PGRP, pid, 19),
        "affinity": lambda pid: os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))}),
        "scheduler": lambda pid: os.sched_setscheduler(pid, idle, os.sched_param(0)),
        "ioprio": lambda pid: None if libc.syscall(ioprio_set, ioprio_process, pid, 3 << 13) == 0 else 1 / 0,
    }
    if whom == "others":
        attempts["nice of all"] = lambda _: os.setpriority(user, os.getuid(), 19)
        for name in ("oom_score_adj", "autogroup", "timerslack_ns", "coredump_filter", "comm", "sched", "clear_refs"):
            attempts[name] = lambda pid, name=name: os.open(f"/proc/{pid}/{name}", os.O_WRONLY)
    worked = []
    for pid in [0] if whom == "itself" else pids:
        for name, attempt in attempts.items():
            try:
                attempt(pid)
                worked.append(f"{name} of {pid}")
            except (OSError, ZeroDivisionError):
                pass
    return [len(pids), worked]


def test_how_others_are_scheduled_is_out_of_reach(template: Template) -> None:
    itself = template.map(reaching, ["itself"])[0]
    assert len(itself.value[1]) == 5, "control: what is refused of others is possible on itself"
    before = template.map(state, [0])[0].value
    seen, worked = template.map(reaching, ["others"])[0].value
    assert seen >= 5, "init, the template, what forks, and two that wait are seen"
    assert worked == []
    after = [each.value for each in template.map(state, range(8), workers=1)]
    assert after == [before] * 8, "evidence: neither who waited meanwhile nor who was forked later is another"


def objects(_):
    import ctypes
    import errno
    import os

    calls = {"x86_64": (29, 64, 68), "aarch64": (194, 190, 186)}[os.uname().machine]  # shmget, semget, msgget
    arguments = ((0x1234, 4096, 0o1600), (0x1234, 1, 0o1600), (0x1234, 0o1600, 0))
    libc, found = ctypes.CDLL(None, use_errno=True), []
    for number, given in zip(calls, arguments, strict=True):
        libc.syscall(number, *given)
        found.append(errno.errorcode.get(ctypes.get_errno(), "made"))
    return found


def terminal(_):
    import os

    try:
        os.openpty()
    except PermissionError:
        return "refused"
    return "made"


def test_nothing_is_found_by_name(template: Template) -> None:
    assert template.map(objects, [0])[0].value == ["ENOSYS"] * 3


def test_there_is_no_terminal_of_a_sibling(template: Template) -> None:
    with CageExecutor(Policy(), max_workers=1) as executor:
        assert executor.submit(terminal, 0).result() == "made", "control: a cage has terminals"
    assert template.map(terminal, [0])[0].value == "refused"
