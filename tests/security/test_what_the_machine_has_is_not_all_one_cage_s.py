"""Claim: what the kernel has once for the whole machine - requests of asynchronous I/O, pseudo-terminals - is not all
taken by one cage.
"""

from __future__ import annotations

import pytest

from pysandbox import PIPE, Cage

from .harness import caged, policy, program, uncaged

PTYS = 256

ASK = """
    context = ctypes.c_ulong(0)
    attempt("aio", call, "io_setup", 1, ctypes.byref(context))
"""
TAKE = """
    taken = 0
    def take_all():
        global taken
        for taken in range(MOST):
            os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        taken = MOST
    attempt("all", take_all)
    say("taken", taken)
    sys.stdout.flush()
    sys.stdin.read(1)
"""


@pytest.mark.filterwarnings("ignore:.*root's id:pysandbox.errors.WeakerWarning")  # said where root runs this
@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_asynchronous_requests_are_for_those_whom_a_policy_gives_them(isolation: str) -> None:
    """One call could take all that fs.aio-max-nr has for the machine."""
    assert uncaged(program(ASK))["aio"].errno is None, "the control"
    assert caged(program(ASK), policy(isolation))["aio"].errno == "ENOSYS"
    assert caged(program(ASK), policy(isolation, monitor=True))["aio"].errno == "ENOSYS"
    assert caged(program(ASK), policy(isolation, allow_syscalls=["io_setup"]))["aio"].errno is None


def test_terminals_are_left_for_other_cages() -> None:
    hog = program(TAKE, MOST=PTYS + 1)
    with Cage(policy(open_files=1024)) as cage, cage.spawn(hog, stdin=PIPE, stdout=PIPE) as taker:
        assert taker.stdout is not None
        said = taker.stdout.readline() + taker.stdout.readline()
        assert b'"ENOSPC"' in said and f'"value": {PTYS}'.encode() in said, said
        few = caged(program(TAKE, MOST=8), policy())
        taker.kill()
    assert few["all"].errno is None, "another cage still has terminals"
    assert uncaged(program(TAKE, MOST=PTYS + 1))["all"].errno is None, "the control: nothing else bounds them"
