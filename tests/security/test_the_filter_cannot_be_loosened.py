"""Claim: a caged process may add filters, which only tighten; it can neither undo the filter nor get a listener of
its own.
"""

from __future__ import annotations

import pytest

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

PRELIMINARIES = """
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    ALLOW, REFUSE_GETPPID = 0x7FFF0000, 0x00050000 | 5
    def filter_of(*instructions):
        packed = b"".join(code.to_bytes(2, sys.byteorder) + bytes(jumps) + k.to_bytes(4, sys.byteorder)
                          for code, jumps, k in instructions)
        code = ctypes.create_string_buffer(packed, len(packed))
        return Program(len(instructions), ctypes.addressof(code)), code

    everything, kept = filter_of((6, (0, 0), ALLOW))
    load_number, is_getppid = (0x20, (0, 0), 0), (0x15, (0, 1), NR["getppid"])
    getppid, kept_too = filter_of(load_number, is_getppid, (6, (0, 0), REFUSE_GETPPID), (6, (0, 0), ALLOW))
"""

ATTACK = """
    attempt("allow everything", call, "prctl", 22, 2, ctypes.byref(everything), 0, 0)
    attempt("mount", call, "mount", "none", "/tmp", "tmpfs", 0, 0)
    attempt("unshare", call, "unshare", 0x10000000)
    attempt("tighten", call, "prctl", 22, 2, ctypes.byref(getppid), 0, 0)
    attempt("getppid", call, "getppid")
    attempt("strict off", call, "prctl", 22, 0, 0, 0, 0)
    for flags in (8, 8 | 1 << 4, 8 | 1 << 5, 8 | 1 << 40):
        attempt(f"listener {flags:#x}", call, "seccomp", 1, flags, ctypes.byref(everything))
    attempt("by seccomp", call, "seccomp", 1, 0, ctypes.byref(everything))
"""

LISTENER = """
    call("prctl", 38, 1, 0, 0, 0)
    attempt("listener", call, "seccomp", 1, 8, ctypes.byref(everything))
"""

LISTENERS = tuple(f"listener {flags:#x}" for flags in (8, 8 | 1 << 4, 8 | 1 << 5, 8 | 1 << 40))


def test_an_added_filter_only_tightens(isolation: str) -> None:
    report = caged(program(PRELIMINARIES, ATTACK), policy(isolation))

    refused = dict.fromkeys((*LISTENERS, "mount", "unshare"), "EPERM")
    tightened = {
        "allow everything": None,
        "tighten": None,
        "getppid": "EIO",
        "strict off": "EINVAL",
        "by seccomp": None,
    }
    assert report.differs({**refused, **tightened}) == {}


@pytest.mark.parametrize("profile", ["default", "relaxed"])
def test_a_listener_is_refused_where_a_list_of_denials_rules(profile: str) -> None:
    """A listener of their own would outrank the supervisor's: the newest filter wins among equal verdicts."""
    report = caged(program(PRELIMINARIES, ATTACK), policy(seccomp=profile))

    assert {name: report[name].errno for name in LISTENERS} == dict.fromkeys(LISTENERS, "EPERM")


def test_uncaged_a_listener_is_given() -> None:
    assert uncaged(program(PRELIMINARIES, LISTENER))["listener"].errno is None
