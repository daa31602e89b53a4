"""`cage.files` reads and writes as the cage itself would: its own view, its own rights, nothing of the host's
beyond them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from pysandbox import Cage, Policy

pytestmark = pytest.mark.guest


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("secret")
    return path


def test_what_is_written_is_read_by_a_command_and_back() -> None:
    every = bytes(range(256)) * 4096
    with Cage() as cage:
        cage.files.write("/tmp/file", every)

        assert cage.run(["/bin/cat", "/tmp/file"], text=False).stdout == every
        assert cage.files.read("/tmp/file") == every
        assert cage.files.list("/tmp") == ["file"]
        assert cage.files.exists("/tmp/file") and not cage.files.exists("/tmp/gone")


def test_the_tmp_of_the_cage_is_not_the_host_s(tmp_path: Path) -> None:
    with Cage() as cage:
        cage.files.write("/tmp/psb-of-the-cage", b"x")

    assert not os.path.exists("/tmp/psb-of-the-cage")


def test_a_granted_directory_is_the_host_s(project: Path) -> None:
    (project / "in").write_text("from the host")
    with Cage(Policy(workdir="write"), cwd=str(project)) as cage:
        assert cage.files.read(f"{project}/in") == b"from the host"
        cage.files.write(f"{project}/out", b"from the cage")

    assert (project / "out").read_bytes() == b"from the cage"


def test_a_path_outside_the_view_is_not_there(secret: Path) -> None:
    with Cage() as cage:
        assert not cage.files.exists(str(secret))
        with pytest.raises(FileNotFoundError) as caught:
            cage.files.read(str(secret))
        with pytest.raises(OSError):
            cage.files.list(str(secret.parent))

    assert caught.value.filename == str(secret)


def test_a_link_that_the_cage_plants_does_not_lead_the_host_out(project: Path, secret: Path) -> None:
    with Cage(Policy(workdir="write"), cwd=str(project)) as cage:
        cage.run(["/bin/ln", "-s", str(secret), f"{project}/way"], check=True)
        cage.run(["/bin/ln", "-s", str(secret.parent), f"{project}/road"], check=True)

        paths = (f"{project}/way", f"{project}/road/secret", f"{project}/../secret")
        for path in paths:
            with pytest.raises(OSError):
                cage.files.read(path)
        for path in paths:
            with suppress(OSError):  # or it lands on the cage's own tmpfs
                cage.files.write(path, b"overwritten")

    assert secret.read_text() == "secret"


def test_a_read_only_grant_cannot_be_written_through_the_api(project: Path) -> None:
    with Cage(Policy(workdir="read"), cwd=str(project)) as cage, pytest.raises(OSError) as caught:
        cage.files.write(f"{project}/out", b"x")

    assert caught.value.errno in (30, 13)  # EROFS by the mount, EACCES by Landlock
    assert list(project.iterdir()) == []


@pytest.mark.landlock(3)
def test_the_cage_s_own_root_is_written_no_more_than_by_its_commands() -> None:
    """Nothing of the policy opens that tmpfs, be it by a new name, an existing one, a link, or from a directory."""
    tried = ("/etc/x", "/x", "/usr/x", "/tmp/way", "/tmp/road/x", "/etc/hosts", "/dev/x")
    with Cage() as cage:
        cage.run(["/bin/ln", "-s", "/etc/x", "/tmp/way"], check=True)
        cage.run(["/bin/ln", "-s", "/etc", "/tmp/road"], check=True)
        before = cage.files.read("/etc/hosts")
        for path in tried:
            with pytest.raises(OSError) as caught:
                cage.files.write(path, b"planted")
            assert caught.value.errno in (13, 17, 30), path  # EACCES; EEXIST of a link; EROFS of a mount
            assert not cage.run(["/bin/sh", "-c", f"echo planted > {path}"]).ok, path
        assert cage.files.read("/etc/hosts") == before
        assert not cage.files.exists("/etc/x") and not cage.files.exists("/x")
        with pytest.raises(PermissionError, match=r"no command of this cage may write it: '/x'"):
            cage.files.write("/x", b"planted")
        cage.files.write("/tmp/kept", b"long before")
        cage.files.write("/tmp/kept", b"short")
        assert cage.files.read("/tmp/kept") == b"short"


def test_a_fifo_or_an_endless_file_does_not_hold_the_host() -> None:
    with Cage() as cage:
        cage.run(["/usr/bin/mkfifo", "/tmp/fifo"], check=True)

        with pytest.raises(OSError):
            cage.files.read("/tmp/fifo")
        with pytest.raises(OSError):
            cage.files.read("/dev/zero")


def test_names_with_odd_characters_survive() -> None:
    with Cage() as cage:
        for name in ("with space", "new\nline", "grüße", "-n", "a'b\"c"):
            cage.files.write(f"/tmp/{name}", b"x")

        assert sorted(cage.files.list("/tmp")) == sorted(["with space", "new\nline", "grüße", "-n", "a'b\"c"])


def test_errors_have_the_kernel_s_errno() -> None:
    with Cage() as cage:
        with pytest.raises(IsADirectoryError):
            cage.files.read("/tmp")
        with pytest.raises(NotADirectoryError):
            cage.files.list("/etc/hosts")
        with pytest.raises(FileNotFoundError):
            cage.files.write("/tmp/gone/file", b"x")


@pytest.mark.landlock(6)
def test_the_scratch_of_landlock_mode_is_written_and_read() -> None:
    with Cage(Policy(isolation="landlock", run_as="self")) as cage:
        place = cage.run(["/bin/sh", "-c", "printf %s $TMPDIR"]).stdout

        cage.files.write(f"{place}/note", b"for the command")

        assert cage.run(["/bin/cat", f"{place}/note"]).stdout == "for the command"
        with pytest.raises(PermissionError):
            cage.files.read("/etc/machine-id")


def test_names_are_made_and_changed_as_a_command_would(project: Path) -> None:
    with Cage(Policy(workdir="write"), cwd=str(project)) as cage:
        files = cage.files
        files.mkdir("a/b/c", parents=True)
        files.mkdir("a/b", exist_ok=True)
        files.mkdir(str(project), parents=True, exist_ok=True)
        files.write_text("a/b/note", "é\n")
        assert cage.run(["cat", "a/b/note"]).stdout == files.read_text("./a/../a/b/note") == "é\n"
        files.rename("a/b/note", "a/moved")
        files.rename("a/b/c", "d")
        assert (files.list("a"), files.list(project / "d")) == (["b", "moved"], [])
        assert files.stat("a/moved").st_size == 3
        cage.run(["ln", "-s", "a/moved", "way"], check=True)
        assert (files.stat("way").st_size, files.stat("way", follow_symlinks=False).st_size) == (3, 7)
        files.remove("way")
        files.remove("a/moved")
        files.rmdir("d")
        assert sorted(each.name for each in project.rglob("*")) == ["a", "b"]


def test_what_a_change_of_a_name_fails_with_is_the_kernel_s(project: Path) -> None:
    (project / "file").touch()
    (project / "full" / "x").mkdir(parents=True)
    with Cage(Policy(workdir="write"), cwd=str(project)) as cage:
        files = cage.files
        for kind, call in (
            (FileExistsError, lambda: files.mkdir("full")),
            (FileExistsError, lambda: files.mkdir("file", exist_ok=True)),
            (FileNotFoundError, lambda: files.mkdir("gone/x")),
            (NotADirectoryError, lambda: files.mkdir("file/x", parents=True)),
            (FileNotFoundError, lambda: files.remove("gone")),
            (IsADirectoryError, lambda: files.remove("full")),
            (NotADirectoryError, lambda: files.rmdir("file")),
            (OSError, lambda: files.rmdir("full")),
            (FileNotFoundError, lambda: files.rename("gone", "new")),
            (OSError, lambda: files.rmdir("full/..")),
            (OSError, lambda: files.remove(".")),
            (FileNotFoundError, lambda: files.read("")),
            (ValueError, lambda: files.read("file\0x")),
        ):
            with pytest.raises(kind) as caught:
                call()
            if isinstance(caught.value, OSError) and caught.value.filename:
                assert str(caught.value.filename).startswith(str(project))
    assert sorted(each.name for each in project.rglob("*")) == ["file", "full", "x"]


@pytest.mark.landlock(3)
def test_no_name_is_changed_where_no_command_may(project: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "file").touch()
    with Cage(Policy(workdir="write", allow=[str(shown)]), cwd=str(project)) as cage:
        files = cage.files
        files.write("mine", b"")
        for call in (
            lambda: files.mkdir("/x"), lambda: files.mkdir("/etc/x"), lambda: files.mkdir(shown / "x"),
            lambda: files.remove(shown / "file"), lambda: files.rename(shown / "file", "taken"),
            lambda: files.rename("mine", shown / "put"), lambda: files.rename("mine", shown / "file"),
            lambda: files.remove("/etc/hosts"), lambda: files.rmdir("/tmp"), lambda: files.rename("mine", "/tmp/x"),
            lambda: files.rmdir(project), lambda: files.rename(project, "/tmp/p"),
        ):  # fmt: skip
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno in (13, 16, 18, 30)  # EACCES, EBUSY, EXDEV, EROFS
    assert [each.name for each in shown.iterdir()] == ["file"] and (project / "mine").exists()


@pytest.mark.landlock(6)
def test_the_scratch_of_landlock_mode_has_its_names_changed(project: Path) -> None:
    policy = Policy(isolation="landlock", run_as="self", workdir="write")
    with Cage(policy, cwd=str(project)) as cage:
        place = cage.run(["/bin/sh", "-c", "printf %s $TMPDIR"]).stdout
        for base in (place, "."):
            cage.files.mkdir(f"{base}/a/b", parents=True)
            cage.files.write_text(f"{base}/a/b/x", "x")
            cage.files.rename(f"{base}/a/b/x", f"{base}/y")
            assert cage.run(["cat", f"{base}/y"]).stdout == "x" and cage.files.stat(f"{base}/y").st_size == 1
            cage.files.remove(f"{base}/y")
            cage.files.rmdir(f"{base}/a/b")
        for path in ("/tmp/psb-x", str(project.parent / "x")):
            with pytest.raises(PermissionError):
                cage.files.mkdir(path)
