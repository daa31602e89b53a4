"""Claim: what the kernel allows a user in all - processes, locked memory, inotify instances - is not all taken by one
cage: the user's own programs, his next cage among them, still get theirs.
"""

from __future__ import annotations

import json
import os

import pytest

from .harness import caged, first_line, host_script, policy, program

pytestmark = pytest.mark.skipif(os.getuid() == 0, reason="none of this is counted for root")

PROCESSES = """
    def take():
        if not os.fork():
            signal.pause()
"""
LOCKED = """
    SHM_LOCK = 11
    def take():
        segment = call("shmget", 0, 65536, 0o1600)
        call("shmat", segment, 0, 0)
        call("shmctl", segment, 0, None)  # IPC_RMID: gone with this process
        call("shmctl", segment, SHM_LOCK, None)
"""
INSTANCES = """
    def take():
        call("inotify_init1", 0)
"""
# Takes until it is refused, says with what, and keeps it; who wants one more, the user, ends at once.
HOLD = """
    if os.getsid(0) != os.getpid():
        os.setsid()
    def take_all():
        for _ in range(MOST):
            take()
    attempt("all", take_all)
    sys.stdout.flush()
    if MOST > 1:
        sys.stdin.read(1)
    os.killpg(0, signal.SIGKILL)
"""
# Beside a hog, caged or not: what one more of the user's own gets, and whether his next cage starts.
HOST = """
    import json, os, resource, subprocess, sys, time
    from pysandbox import PIPE, Cage, Policy, Runtime

    def mine():
        found = 0
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat("/proc/" + entry).st_uid == os.getuid():
                    found += len(os.listdir("/proc/" + entry + "/task"))
            except OSError:
                pass
        return found

    isolation, hog, own = json.loads(sys.argv[1])
    runtime = Runtime(warm=0)
    Cage(Policy(), runtime=runtime).run(["/bin/true"])
    before = mine()
    for name, most in (("NPROC", 2 * before + 120), ("MEMLOCK", 1 << 20)):
        number = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(number)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(number, (most, hard))

    def beside(said):
        try:
            one = subprocess.run(own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
        except OSError as error:
            one = json.dumps({"errno": str(error)})
        return [json.loads(said)["errno"], json.loads(one)["errno"]]

    with subprocess.Popen(hog, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as uncaged:
        control = beside(uncaged.stdout.readline())
        uncaged.stdin.close()
    deadline = time.monotonic() + 30
    while mine() > before + 50 and time.monotonic() < deadline:
        time.sleep(0.01)  # those whom it has forked are not ours to wait for
    with Cage(Policy(isolation=isolation, run_as="self"), runtime=runtime) as cage:
        with cage.spawn(hog, stdin=PIPE, stdout=PIPE) as taker:
            attack = beside(taker.stdout.readline())
            with Cage(Policy(), runtime=runtime) as another:
                ran = another.run(["/bin/echo", "ran"]).stdout
            taker.kill()
    print(json.dumps([control, attack, ran]), flush=True)
"""
CASES = {
    ("full", "processes"): (PROCESSES, "EAGAIN"),
    ("landlock", "processes"): (PROCESSES, "EAGAIN"),
    ("full", "locked"): (LOCKED, "ENOMEM"),
}


@pytest.mark.parametrize(("isolation", "case"), CASES)
def test_the_user_still_gets_some_while_a_cage_holds_all_it_can(isolation: str, case: str) -> None:
    take, refusal = CASES[isolation, case]
    hog, own = program(take, HOLD, MOST=100_000), program(take, HOLD, MOST=1)
    with host_script(HOST, json.dumps([isolation, hog, own])) as host:
        control, attack, ran = json.loads(first_line(host, 60))
        host.wait()
    assert control[0] == refusal and control[1] is not None, "the control: without a cage nobody else has any"
    assert (attack, ran) == ([refusal, None], "ran\n")


def test_without_a_namespace_to_count_them_there_are_no_inotify_instances() -> None:
    assert caged(program(INSTANCES, HOLD, MOST=1), policy("landlock"))["all"].errno == "ENOSYS"
    named = policy("landlock", allow_syscalls=["inotify_add_watch"])
    assert caged(program(INSTANCES, HOLD, MOST=1), named)["all"].errno is None, "the control: named, it is of use"
