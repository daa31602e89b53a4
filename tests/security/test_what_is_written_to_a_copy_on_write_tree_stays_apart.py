"""Claim: a cage changes nothing of a directory that it has copy-on-write: bytes, modes, times, attributes and names.

Whatever call it makes lands in a layer of its own, in memory or on disk, which no path of the cage leads to, or in a
copy; what is denied stays denied, and a layer in memory is no larger than `cow_mb` (for one on disk: its own claim).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.overlays import takes_layers
from pysandbox import Cage, Policy
from pysandbox.launch.removal import remove_tree
from pysandbox.workspace.apart import KeptApart

from .harness import caged, in_cage, program, uncaged

MUTATIONS = """
    import fcntl, mmap, socket, shutil
    os.chdir(TREE)
    attempt("overwrite", overwrite, "file")
    attempt("append", lambda: open("append", "a").write("more"))
    attempt("truncate", os.truncate, "truncated", 1)
    attempt("create", lambda: open("new", "x").write("new"))
    attempt("unlink", os.unlink, "unlinked")
    attempt("rmtree", shutil.rmtree, "gone")
    attempt("again", os.mkdir, "gone")
    attempt("mkdir", os.mkdir, "made")
    attempt("rename a file", os.rename, "renamed", "other")
    attempt("rename over", os.rename, "over", "over2")
    attempt("rename a directory", os.rename, "moved", "away")
    attempt("exchange", call, "renameat2", -100, "x1", -100, "x2", 2)
    attempt("symlink", os.symlink, "/etc", "link")
    attempt("link", os.link, "linked", "link2")
    attempt("chmod", os.chmod, "chmod", 0o777)
    attempt("fchmod", lambda: os.fchmod(os.open("fchmod", os.O_RDONLY), 0o777))
    attempt("utime", os.utime, "utime", (1, 1))
    attempt("setxattr", os.setxattr, "xattr", "user.mine", b"2")
    attempt("removexattr", os.removexattr, "xattr", "user.old")
    attempt("fifo", os.mkfifo, "fifo")
    attempt("socket", lambda: socket.socket(socket.AF_UNIX).bind("socket"))
    attempt("unnamed", lambda: os.write(os.open(".", os.O_TMPFILE | os.O_RDWR), b"x"))
    def write_mapping():
        with open("mapped", "r+b") as file:
            view = mmap.mmap(file.fileno(), 0); view[0:1] = b"X"; view.flush()
    attempt("mmap", write_mapping)
    def by_proc():
        fd = os.open("procfd", os.O_RDONLY)
        with open(f"/proc/self/fd/{fd}", "w") as file: file.write("X")
    attempt("/proc/self/fd", by_proc)
    attempt("fallocate", lambda: os.posix_fallocate(os.open("falloc", os.O_RDWR), 0, 4096))
    attempt("overlay's own mark", os.setxattr, "keep", "user.overlay.opaque", b"y")
    attempt("a mode without rights", os.chmod, "keep", 0)
    attempt("mode of the tree", os.chmod, ".", 0o711)
"""
FILES = ("file", "append", "truncated", "unlinked", "renamed", "over", "over2", "x1", "x2", "linked", "chmod", "fchmod",
         "utime", "xattr", "mapped", "procfd", "falloc")  # fmt: skip
OURS = {"overlay's own mark": ["ENOTSUP", "EOPNOTSUPP", "EPERM", None]}  # by the kernel's version


@pytest.fixture(params=["memory", "disk", "copy"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if request.param == "disk" and not takes_layers(tmp_path):
        pytest.skip("no layer can lie on this file system")
    yield str(request.param)
    remove_tree(str(tmp_path / "state"))  # the kernel leaves a directory of mode 000 there


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    top.mkdir()
    for name in FILES:
        (top / name).write_text(f"content of {name}\n")
    for name in ("gone/below", "moved/deep/down", "keep"):
        (top / name).mkdir(parents=True)
        (top / name / "file").write_text(name)
    os.setxattr(top / "xattr", "user.old", b"1")
    os.setxattr(top / "keep", "user.overlay.opaque", b"y")  # as out of an archive
    os.link(top / "linked", top / "linked too")
    (top / "secret").write_text("secret")
    os.utime(top / "gone", (10**9, 10**9))
    return top


def picture(top: Path) -> dict[str, object]:
    """All that a copy-on-write tree must not change; reading changes the time of access alone."""
    found: dict[str, object] = {}
    for path in (top, *sorted(top.rglob("*"))):
        facts = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else ""
        marks = {name: os.getxattr(path, name) for name in os.listxattr(path, follow_symlinks=False)}
        found[str(path.relative_to(top))] = (
            facts.st_mode, facts.st_uid, facts.st_gid, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns,
            facts.st_ino, facts.st_nlink, content, tuple(sorted(marks.items())),
        )  # fmt: skip
    return found


def rules(tree: Path, **more: object) -> Policy:
    return Policy(cow=[str(tree)], **more)  # type: ignore[arg-type]


def test_no_call_changes_the_tree(tree: Path, storage: str) -> None:
    before = picture(tree)
    with Cage(rules(tree, storage=storage)) as cage:
        report = in_cage(cage, program(MUTATIONS, TREE=str(tree)))
    assert report.differs(dict.fromkeys(report.attempts, None) | OURS) == {}
    assert picture(tree) == before
    assert cage.workspace.changes()
    cage.workspace.abort()
    assert picture(tree) == before
    control = uncaged(program(MUTATIONS, TREE=str(tree)))
    os.chmod(tree / "keep", 0o700)
    assert control.attempts["unlink"].errno is None and picture(tree) != before, (
        "CONTROL: without a cage all is changed"
    )


def test_a_session_sees_what_it_wrote_and_the_next_one_does_not(tree: Path, storage: str) -> None:
    with Cage(rules(tree, storage=storage)) as cage:
        cage.run(["sh", "-c", f"echo new > {tree}/file"])
        assert cage.run(["cat", f"{tree}/file"]).stdout == "new\n"
    assert Cage(rules(tree, storage=storage)).run(["cat", f"{tree}/file"]).stdout == "content of file\n"


FIND_THE_UPPER = """
    import re
    def seen():
        found = []
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                for place in ("fd", "map_files"):
                    try: names = os.listdir(f"/proc/{pid}/{place}")
                    except OSError: continue
                    for name in names:
                        try: found.append(os.readlink(f"/proc/{pid}/{place}/{name}"))
                        except OSError: pass
        return found
    say("links", value=[each for each in seen() if "upper" in each or "layers" in each])
    say("mounts", value=[line for line in open("/proc/self/mountinfo") if " overlay " in line])
    say("told", value=[line for line in open("/proc/self/mountinfo") if "layers" in line or "/state" in line])
    above = TREE.split("/")[1]
    say("root", value=[name for name in os.listdir("/") if ("upper" in name or "work" in name) and name != above])
    attempt("root of init", os.listdir, "/proc/1/root")
    attempt("descriptors of init", os.listdir, "/proc/1/fd")
    attempt("by handle", call, "open_by_handle_at", -100, b"\\0" * 136, 0)
    attempt("unmount", call, "umount2", TREE, 2)
"""


def test_no_path_of_the_cage_leads_to_the_layer(tree: Path, storage: str) -> None:
    report = caged(program(FIND_THE_UPPER, TREE=str(tree)), rules(tree, storage=storage))
    values = {name: each.value for name, each in report.attempts.items()}
    assert values["links"] == [] and values["root"] == []
    refused = ("root of init", "descriptors of init", "by handle", "unmount")
    assert [name for name in refused if report.attempts[name].errno is None] == []
    if storage == "copy":  # bound as any directory is, so mountinfo tells where it lies
        assert values["mounts"] == []
        return
    assert values["told"] == [], "no path of the host is told"
    (mount,) = values["mounts"]
    options = mount.rpartition(" ")[2].strip()
    layers = [each.partition("=") for each in options.split(",") if "dir=" in each and "redirect" not in each]
    assert {name for name, _, _ in layers} == {"lowerdir", "upperdir", "workdir"}
    assert all(place.startswith("/proc/self/fd/") for _, _, place in layers), "no path of the host is told"


DENIED = """
    os.chdir(TREE)
    attempt("read", lambda: open("secret").read())
    attempt("unlink", os.unlink, "secret")
    attempt("rename away", os.rename, "secret", "away")
    attempt("rename over", os.rename, "file", "secret")
    attempt("chmod", os.chmod, "secret", 0o600)
    attempt("rename the directory around one", os.rename, "keep", "kept")
    attempt("read below it", lambda: open("kept/file").read())
    attempt("read where it was", lambda: open("keep/file").read())
"""


def test_what_is_denied_in_it_stays_denied(tree: Path, storage: str) -> None:
    control = caged(program(DENIED, TREE=str(tree)), rules(tree, storage=storage))
    assert control.attempts["read"].errno is None and control.attempts["rename the directory around one"].errno is None
    shut = rules(tree, storage=storage, deny=[str(tree / "secret"), str(tree / "keep/file")])
    report = caged(program(DENIED, TREE=str(tree)), shut)
    worked = [name for name, each in report.attempts.items() if each.errno is None]
    assert worked == []


QUOTA = """
    os.chdir(TREE)
    def fill():
        with open("big", "wb", buffering=0) as file:
            for _ in range(64): file.write(b"x" * 65536)
    def many():
        for number in range(10000): os.close(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY))
    def directories():
        for number in range(10000): os.mkdir(f"d{number}")
    def unlinked():
        held = []
        for number in range(64):
            fd = os.open(f"u{number}", os.O_CREAT | os.O_RDWR); os.unlink(f"u{number}"); held.append(fd)
            for _ in range(16): os.write(fd, b"x" * 65536)
    def unnamed():
        held = [os.open(".", os.O_TMPFILE | os.O_RDWR) for _ in range(8)]
        for fd in held:
            for _ in range(16): os.write(fd, b"x" * 65536)
    def attributes():
        for number in range(4000): os.setxattr("file", f"user.n{number}", b"x" * 60000)
    def copy_up():
        os.utime("large")
    for each in (fill, unlinked, unnamed, copy_up):
        attempt(each.__name__, each)
        for name in os.listdir("."):
            if name in ("big",): os.unlink(name)
    attempt("attributes", attributes)
    attempt("many", many)
    for name in os.listdir("."):
        if name[0] == "f" and name[1:].isdigit(): os.unlink(name)
    attempt("directories", directories)
"""


def test_the_layer_holds_no_more_than_was_granted(tree: Path) -> None:
    (tree / "large").write_bytes(os.urandom(3 << 20))
    policy = rules(tree, cow_mb=2)
    with Cage(policy) as cage:
        report = in_cage(cage, program(QUOTA, TREE=str(tree)))
        kept = cage._live.services.find(KeptApart)  # type: ignore[union-attr]
        assert kept is not None
        quota = kept.uppers[0].quota()
    assert {name: each.errno for name, each in report.attempts.items()} == dict.fromkeys(report.attempts, "ENOSPC")
    assert (quota.limit_bytes, quota.limit_inodes) == (2 << 20, 4096) and quota.used_bytes <= 2 << 20
