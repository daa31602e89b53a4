"""What a process means by a path, and by a number that the kernel reads as an int."""

from __future__ import annotations

import os
from errno import ENOENT
from pathlib import Path

import pytest

from pysandbox.handlers.call import Call
from pysandbox.supervise import files
from pysandbox.supervise.files import AT_FDCWD, absolute, complete, register_int, writes
from pysandbox.supervise.rights import TMPFILE


class Written:
    """A caller whose memory has one path."""

    def __init__(self, path: bytes) -> None:
        self._path = path

    def read_text(self, address: int, room: int) -> bytes:
        assert (address, room) == (0x1000, files.LONGEST_PATH)
        return self._path


@pytest.mark.parametrize(
    ("register", "number"),
    [(0, 0), (5, 5), (2**31 - 1, 2**31 - 1), (2**31, -(2**31)), (2**32 - 100, -100), (2**64 - 100, -100), (2**32, 0)],
)
def test_a_register_is_read_as_the_kernel_reads_an_int(register: int, number: int) -> None:
    assert register_int(register) == number


@pytest.mark.parametrize(
    ("flags", "changes"),
    [(os.O_RDONLY, False), (os.O_WRONLY, True), (os.O_RDWR, True), (os.O_CREAT, True), (os.O_TRUNC, True),
     (os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW, False)],
)  # fmt: skip
def test_whatever_could_change_a_file_is_a_write(flags: int, changes: bool) -> None:
    assert writes(flags) is changes


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is thread 9 of process 7 in its cage."""
    monkeypatch.setattr(files, "inner", lambda tid, name: "7" if name == "self" else "7/task/9")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/a/b", "/a/b"),
        ("//a//b/./c/", "/a/b/c"),
        ("/a/../b", "/a/../b"),  # a might be a link
        ("/proc/self/fd/3", "/proc/7/fd/3"),
        ("/proc/self", "/proc/7"),
        ("/proc/selfish", "/proc/selfish"),
        ("/proc/thread-self/maps", "/proc/7/task/9/maps"),
        ("/proc/mounts", "/proc/7/mounts"),
        ("/proc/net/tcp", "/proc/7/net/tcp"),
        ("/proc/network", "/proc/network"),
        ("/dev/fd/3", "/proc/7/fd/3"),
        ("/dev/fd", "/proc/7/fd"),
        ("/dev/fdx", "/dev/fdx"),
    ],
)
def test_a_path_is_the_caller_s_and_never_ours(numbered: None, path: str, meant: str) -> None:
    assert absolute(os.getpid(), AT_FDCWD, path) == meant


def test_a_relative_path_begins_where_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    other.mkdir()
    monkeypatch.chdir(here)
    fd = os.open(other, os.O_RDONLY)
    try:
        assert absolute(os.getpid(), AT_FDCWD, "x") == f"{here}/x"
        assert absolute(os.getpid(), fd, "x") == f"{other}/x"
        assert absolute(os.getpid(), fd, "/x") == "/x"
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("syscall", "args", "flags", "mode"),
    [
        ("open", [0x1000, os.O_RDONLY, 0o4777], os.O_RDONLY, 0),
        ("open", [0x1000, os.O_WRONLY | os.O_CREAT, 0o4666], os.O_WRONLY | os.O_CREAT, 0o666),
        ("creat", [0x1000, 0o600], files.CREAT_FLAGS, 0o600),
        ("openat", [AT_FDCWD & 0xFFFFFFFF, 0x1000, os.O_RDWR, 0o666], os.O_RDWR, 0),
        ("openat", [AT_FDCWD & 0xFFFFFFFF, 0x1000, TMPFILE | os.O_RDWR, 0o1640], TMPFILE | os.O_RDWR, 0o1640),
    ],
)
def test_flags_and_mode_are_those_of_the_call(syscall: str, args: list[int], flags: int, mode: int) -> None:
    found = complete(Call("OPEN", syscall, os.getpid()), args, Written(b"/a/b"))  # type: ignore[arg-type]
    assert (found.path, found.flags, found.mode) == ("/a/b", flags, mode)


def test_a_last_slash_asks_for_a_directory() -> None:
    found = complete(Call("OPEN", "open", os.getpid()), [0x1000, 0, 0], Written(b"/a/b/"))  # type: ignore[arg-type]
    assert (found.path, found.flags) == ("/a/b", os.O_DIRECTORY)


def test_no_path_is_no_file() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        complete(Call("OPEN", "open", os.getpid()), [0x1000, 0, 0], Written(b""))  # type: ignore[arg-type]
    assert caught.value.errno == ENOENT
