"""Claim: whoever asks why (`why`) gets a trace and nothing else: every call of the cage is answered with the errno that
it has without, of files that the host has and of files that it lacks, of calls that the filter refuses, and of paths
that cannot be read. What the host has is in the host's record alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import pysandbox

from .harness import OWN_PROC, Report, in_cage, policy, program

CALLS = {
    "mount": ("mount", (0, 0, 0, 0, 0)), "unshare": ("unshare", (0x10000000,)), "ptrace": ("ptrace", (0, 0, 0, 0)),
    "packet": ("socket", (17, 3, 0)), "set-uid": ("fchmod", (0, 0o4755)), "kcmp": ("kcmp", (0, 0, 0, 0, 0)),
    "clone3": ("clone3", (0, 0)), "io_uring": ("io_uring_setup", (1, 0)), "getpriority": ("getpriority", (0, 0)),
}  # fmt: skip
ATTACK = """
    import os

    def opened(path, flags):
        os.close(os.open(path, flags, 0o600))

    for path in (THERE, MISSING, LINK, f"{THERE}/below", f"{MISSING}/below", "/usr/bin/env", f"{DENIED}/a", "/", ""):
        for name, flags in {"read": 0, "write": 1, "create": 0o101, "exclusive": 0o301, "directory": 0o200000}.items():
            attempt(f"{name} {path}", opened, path, flags)
        for ask in (os.stat, os.lstat, os.readlink, os.unlink, os.rmdir, os.mkdir, os.listdir):
            attempt(f"{ask.__name__} {path}", ask, path)
        attempt(f"access {path}", lambda: os.access(path, 4))
        attempt(f"chmod {path}", os.chmod, path, 0o600)
        attempt(f"truncate {path}", os.truncate, path, 0)
        attempt(f"utime {path}", os.utime, path)
        attempt(f"rename {path}", os.rename, path, path + ".new")
        attempt(f"link {path}", os.link, path, path + ".new")
        attempt(f"symlink {path}", os.symlink, "x", path + "/x")
        if path != "/usr/bin/env":
            attempt(f"execute {path}", os.execv, path, ["x"])
    for name, (number, arguments) in CALLS.items():
        attempt(name, call, number, *arguments)
    attempt("bad address", call, "openat", -100, 1, 0, 0)
    attempt("bad directory", call, "openat", 99, b"x", 0, 0)
    attempt("too long", os.stat, "/" + "x" * 5000)
    attempt("a loop", os.stat, "/proc/self/cwd/loop")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Work that is granted, and beside it what is not."""
    for name in ("work", "work/denied", "secrets"):
        (tmp_path / name).mkdir()
    for name in ("work/denied/a", "secrets/there"):
        (tmp_path / name).write_text("x")
    (tmp_path / "work/link").symlink_to(tmp_path / "secrets/there")
    (tmp_path / "work/loop").symlink_to("loop")
    return tmp_path


def attacked(home: Path, isolation: str, *, why: bool) -> Report:
    denied = [f"{home}/work/denied"] if isolation == "full" else []
    chosen = policy(isolation, why=why, workdir="read", deny=denied, deny_syscalls=["getpriority"],
                    allow=OWN_PROC[isolation])  # fmt: skip
    attack = program(ATTACK, CALLS=CALLS, THERE=f"{home}/secrets/there", MISSING=f"{home}/secrets/not-there",
                     LINK=f"{home}/work/link", DENIED=f"{home}/work/denied")  # fmt: skip
    with pysandbox.Cage(chosen, cwd=f"{home}/work") as cage:
        return in_cage(cage, attack)


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_every_answer_is_the_same_and_the_trace_is_there(home: Path, isolation: str) -> None:
    silent, told = attacked(home, isolation, why=False), attacked(home, isolation, why=True)
    assert len(silent.attempts) > 150
    differs = {name: (each.errno, told[name].errno) for name, each in silent.attempts.items()
               if told[name].errno != each.errno}  # fmt: skip
    assert differs == {}
    assert silent.result is not None and silent.result.denials == ()
    assert told.result is not None
    named = {each.target for each in told.result.denials}
    assert {f"{home}/secrets/there", "getpriority", "mount", "unshare"} <= named
    assert not any("not-there" in each.target and each.errno == 2 and each.rule == "filesystem.allow"
                   for each in told.result.denials)  # fmt: skip


def test_the_cage_cannot_tell_what_the_host_has(home: Path) -> None:
    report = attacked(home, "full", why=True)
    for ask in ("read", "stat", "lstat", "access", "unlink", "execute", "chmod", "create"):
        assert report[f"{ask} {home}/secrets/there"].errno == report[f"{ask} {home}/secrets/not-there"].errno
