"""Claim: a worker of a template changes neither how its siblings, the template and what forks them are scheduled, nor
whom the kernel ends first; it finds no object of System V or POSIX of theirs, no terminal, no directory to meet in, and
is told of no name in theirs. Whatever it leaves or holds, the others are served."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

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


def planted(_):
    """Where it could leave something for the next one: what was written, and what was found of another's."""
    import os
    import pwd

    home = pwd.getpwuid(os.getuid()).pw_dir
    wrote, found = [], []
    for directory in ("/var/tmp", home, "/", "/usr/local", "/dev/shm", "/opt", "/run", os.environ["HOME"]):
        path = os.path.join(directory, "planted")
        found += [directory] if os.path.exists(path) else []
        try:
            with open(path, "w") as file:
                file.write("here")
            wrote.append(directory)
        except OSError:
            pass
    return [wrote == [os.environ["HOME"]], found]


def test_there_is_no_directory_to_meet_in() -> None:
    for options in ({}, {"run_as": "self"}):
        with Template(Policy(**options)) as template:
            answers = [each.value for each in template.map(planted, range(3), workers=1)]
        assert answers == [[True, []]] * 3, (options, answers)


def watched(_):
    import ctypes
    import errno

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.inotify_init1(0) >= 0:
        return "made"
    return errno.errorcode[ctypes.get_errno()]


def test_nobody_is_told_of_names_in_a_sibling_s_directory(template: Template) -> None:
    assert template.map(watched, [0])[0].value == "ENOSYS"


def deep(levels):
    import os

    for _ in range(levels):
        os.mkdir("d")
        os.chdir("d")
    with open("file", "w") as file:
        file.write("at the bottom")
    os.chmod(".", 0o500)
    return os.getpid()


def twice(number):
    return 2 * number


def test_a_tree_however_deep_ends_nobody() -> None:
    with Template(Policy()) as template:
        assert template.map(deep, [3000])[0].ok
        assert [each.value for each in template.map(twice, range(20))] == [2 * each for each in range(20)]
        assert not template.is_over


def hoarding(_):
    """As many descriptors on their way as the kernel lets it have; how many."""
    import array
    import os
    import socket

    kept, count = [], 0
    try:
        while len(kept) < 100:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            kept += [ours, theirs]
            for _ in range(10):
                ours.setblocking(False)
                ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])
                count += 250
    except OSError:
        pass
    os.write(1, b"held\n")
    import time

    time.sleep(3600)
    return count


def test_descriptors_on_their_way_hold_up_nobody() -> None:
    with Template(Policy()) as template, ThreadPoolExecutor(1) as beside:
        held = beside.submit(template.map, hoarding, [0], timeout=6)
        assert [each.value for each in template.map(twice, range(20), timeout=60)] == [2 * each for each in range(20)]
        assert held.result()[0].ok is False, "control: it was still holding them"
        assert [each.value for each in template.map(twice, range(20), timeout=60)] == [2 * each for each in range(20)]
        assert not template.is_over
