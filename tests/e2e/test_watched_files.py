"""watch=("file",): programs open what they would, and never what is another's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from _support.cage import cage_python
from pysandbox import Cage, Policy
from pysandbox.policy.model import Grant

SCRIPT = """
def opened(path, flags=os.O_RDONLY, mode=0o777, dir_fd=None):
    os.close(os.open(path, flags, mode, dir_fd=dir_fd))
os.chdir("/tmp")
os.umask(0o027)
os.mkdir("d"); os.mkfifo("fifo"); os.symlink("new", "link")
result = {
    "create": attempt(opened, "new", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666),
    "mode": oct(os.stat("new").st_mode & 0o7777),
    "again": attempt(opened, "new", os.O_CREAT | os.O_EXCL | os.O_WRONLY),
    "link": attempt(opened, "link"), "nofollow": attempt(opened, "link", os.O_NOFOLLOW),
    "path of link": attempt(opened, "link", os.O_PATH | os.O_NOFOLLOW),
    "directory": attempt(opened, "d", os.O_DIRECTORY),
    "dirfd": attempt(opened, "new", dir_fd=os.open(".", os.O_PATH)),
    "no directory": attempt(opened, "new", os.O_DIRECTORY),
    "unnamed": attempt(opened, "d", os.O_TMPFILE | os.O_RDWR),
    "fifo": attempt(opened, "fifo", os.O_RDONLY), "tty": attempt(opened, "/dev/tty"),
    "null": attempt(opened, "/dev/null"),
    "absent": attempt(opened, "/nowhere"), "self": attempt(opened, "/proc/self/status"),
    "mounts": attempt(opened, "/proc/mounts"), "fds": attempt(os.listdir, "/dev/fd"),
    "init memory": attempt(opened, "/proc/1/mem"), "own memory": attempt(opened, "/proc/self/mem"),
    "stdin": attempt(opened, "/dev/stdin"), "blocking": os.get_blocking(os.open("new", os.O_RDONLY)),
}
report(result)
"""
WORK = ("create", "link", "path of link", "directory", "dirfd", "unnamed", "null", "self", "mounts", "fds", "stdin")
EXPECTED = {
    **dict.fromkeys(WORK, "ok"),
    "mode": "0o640", "again": "EEXIST", "nofollow": "ELOOP", "no directory": "ENOTDIR", "fifo": "EACCES",
    "tty": "ENXIO", "absent": "ENOENT", "init memory": "EACCES", "own memory": "EACCES", "blocking": True,
}  # fmt: skip


def test_programs_open_what_they_would() -> None:
    seen: set[str] = set()

    def policy(event: object, context: object) -> None:
        seen.add(getattr(event, "path", ""))

    assert cage_python(Cage(Policy(), policy_fn=policy, watch=["file"]), SCRIPT) == EXPECTED
    assert {"/tmp/new", "/tmp/link", "/nowhere", "/dev/null"} <= seen


def test_a_refused_path_is_not_opened_however_often_it_changes(tmp_path: Path) -> None:
    """Another thread flips the bytes of the path while it is judged."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")

    def policy(event: object, context: object) -> bool:
        return getattr(event, "path", "") == str(tmp_path / "b")

    source = """
import ctypes, threading
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(os.fsencode(sys.argv[1]) + b"/a")
over = False
def flip():
    while not over:
        path[len(path) - 2] = b"b"; path[len(path) - 2] = b"a"
thread = threading.Thread(target=flip); thread.start()
read = {"a": 0, "b": 0, "refused": 0}
for _ in range(2000):
    fd = libc.open(path, 0)
    if fd < 0: read["refused"] += 1
    else: read[os.read(fd, 1).decode()] += 1; os.close(fd)
over = True; thread.join(); report(read)
"""
    cage = Cage(Policy(allow=(Grant(str(tmp_path)),)), policy_fn=policy, watch=["file"])
    read = cage_python(cage, source, str(tmp_path), timeout=120)
    assert read["b"] == 0 and read["a"] + read["refused"] == 2000


@pytest.mark.root
def test_a_root_host_lends_nobody_its_capabilities(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    os.chown(secret, 12345, 12345)
    secret.chmod(0o600)
    source = "report(attempt(open, sys.argv[1]))"
    plain = Policy(allow=(Grant(str(tmp_path)),))
    assert cage_python(Cage(plain), source, str(secret)) == "EACCES"
    assert cage_python(Cage(plain, watch=["file"]), source, str(secret)) == "EACCES"
