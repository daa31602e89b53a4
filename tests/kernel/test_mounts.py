"""csrc/setup/mounts.c: each kind of step does what it says, and a hostile tree cannot lead one astray.

How each of them fails is in test_steps.py.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pysandbox.compile.plan import Attr, MountKind, MountStep
from pysandbox.errors import StartError

from .plans import ROOT, bare, opened, plan, refusal, seen, step

pytestmark = pytest.mark.guest

ALL = (Attr.RDONLY, Attr.NOSUID, Attr.NODEV, Attr.NOEXEC)
RO = (Attr.RDONLY,)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of the host: two files, one of them in a directory."""
    (tmp_path / "file").write_text("of the host")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "below").write_text("of the host, below")
    return tmp_path


def test_directories_and_files_have_the_modes_of_the_plan_whatever_the_umask() -> None:
    before = os.umask(0o077)
    try:
        made = step("DIR", "/a/b", mode=0o1777), step("FILE", "/c/d", data="text", mode=0o666)
        with opened(bare(ROOT, *made)) as init:
            modes = [stat.S_IMODE(os.stat(init.root + path).st_mode) for path in ("/a", "/a/b", "/c", "/c/d")]
            assert modes == [0o755, 0o1777, 0o755, 0o666]
            assert Path(init.root, "c/d").read_text() == "text"
    finally:
        os.umask(before)


LONGEST = 4095 - len("/mnt")  # what is left of PATH_MAX, with its NUL, behind the place where the cage is made


def as_long_as(length: int) -> list[str]:
    """The parts of an absolute path of so many characters."""
    parts = ["d" * 200] * (length // 201)
    rest = length - 201 * len(parts)
    return [*parts, "e" * (rest - 1)] if rest > 1 else [*parts[:-1], "e" * (200 + rest)]


def test_a_target_is_as_long_as_a_path_can_be_and_never_cut() -> None:
    parts = as_long_as(LONGEST)
    with opened(bare(ROOT, step("DIR", "/" + "/".join(parts)))) as init:
        at = os.open(init.root, os.O_PATH)
        for part in parts:
            at, above = os.open(part, os.O_PATH, dir_fd=at), at
            os.close(above)
        os.close(at)
    path = "/" + "/".join(as_long_as(LONGEST + 1))
    with pytest.raises(StartError) as caught, opened(bare(ROOT, step("DIR", path))):
        pass
    assert refusal(caught.value)[:2] == ("target", "ENAMETOOLONG")


def test_what_is_there_already_stays() -> None:
    made = (step("DIR", "/a", mode=0o700), step("SYMLINK", "/b/link", source="/a"))
    with opened(bare(ROOT, *made, step("DIR", "/a", mode=0o777), step("SYMLINK", "/b/link", source="/c"))) as init:
        assert stat.S_IMODE(os.stat(init.root + "/a").st_mode) == 0o700
        assert os.readlink(init.root + "/b/link") == "/a"


def test_a_bound_directory_is_the_host_s_own(tree: Path) -> None:
    with opened(plan(step("BIND", "/deep/in", source=str(tree), **seen(tree)))) as init:
        assert init.sh("cat /deep/in/folder/below; echo new > /deep/in/made").result == (0, "of the host, below")
    assert (tree / "made").read_text() == "new\n"


def test_a_file_is_bound_onto_a_file(tree: Path) -> None:
    with opened(plan(step("BIND", "/deep/in", source=str(tree / "file"), **seen(tree / "file")))) as init:
        assert init.sh("cat /deep/in").result == (0, "of the host")


def test_a_bind_brings_what_is_mounted_below_and_its_attributes_reach_all_of_it() -> None:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = {line.split()[4] for line in file}
    below = {f"/in{point[4:]}" for point in points if point.startswith("/dev/")}
    assert below, "this host has nothing mounted below /dev"
    with opened(plan(step("BIND", "/in", source="/dev", attrs=ALL))) as init:
        mounted = {point: options for point, (_, options) in init.mounts().items() if point.startswith("/in")}
    assert below < set(mounted)
    for point, options in mounted.items():
        assert {"ro", "nosuid", "nodev", "noexec"} <= options, point


def test_a_read_only_bind_refuses_writers_and_leaves_its_neighbours_alone(tree: Path) -> None:
    binds = [step("BIND", f"/{name}", source=str(tree), attrs=attrs) for name, attrs in (("ro", RO), ("rw", ()))]
    with opened(plan(*binds)) as init:
        assert init.attempt("open('/ro/file', 'w')") == "EROFS"
        assert init.attempt("open('/rw/file', 'w').write('caged')") == "5"
    assert (tree / "file").read_text() == "caged"


def test_a_pinned_directory_cannot_be_renamed_away_and_is_what_it_was(tree: Path) -> None:
    with opened(plan(step("BIND", "/in", source=str(tree)), step("PIN", "/in/folder", inside_bind=True))) as init:
        assert init.attempt("os.rename('/in/folder', '/in/other')") == "EBUSY"
        assert init.sh("cat /in/folder/below; echo new > /in/folder/made").result == (0, "of the host, below")
    assert (tree / "folder" / "made").read_text() == "new\n"
    (tree / "folder").rename(tree / "other")  # CONTROL


def test_a_pin_is_never_led_elsewhere_by_a_directory_that_became_a_symlink(tree: Path) -> None:
    (tree / "there").symlink_to("/usr")
    with (
        pytest.raises(StartError) as caught,
        opened(plan(step("BIND", "/in", source=str(tree)), step("PIN", "/in/there", inside_bind=True))),
    ):
        pass
    assert refusal(caught.value) == ("target", "ELOOP", "/in/there")


@pytest.mark.parametrize("source", ["/usr", "/dev", "/dev/nul", "/dev/null/", "/dev/full"])
def test_a_source_that_was_not_looked_at_is_refused_unless_it_is_a_constant(source: str) -> None:
    with pytest.raises(ValueError, match="looked at"):
        MountStep(MountKind.BIND, "/in", source)
    with pytest.raises(StartError) as caught, opened(plan(unlooked(source))):
        pass
    assert refusal(caught.value) == ("source_changed", "ESTALE", source)
    with opened(plan(unlooked("/dev/zero"))):  # CONTROL
        pass


def unlooked(source: str) -> MountStep:
    """What Python refuses to write down, as C would get it."""
    written = MountStep(MountKind.BIND, "/in", "/dev/zero")
    object.__setattr__(written, "source", source)
    return written


def test_a_tmpfs_has_the_size_and_the_mode_of_its_options() -> None:
    with opened(plan(step("TMPFS", "/small", data="size=64k,mode=1777", attrs=(Attr.NOEXEC,)))) as init:
        assert stat.S_IMODE(os.stat(init.root + "/small").st_mode) == 0o1777
        assert init.attempt("open('/small/big', 'wb').write(bytes(1 << 17))") == "ENOSPC"
        assert init.sh("cp /bin/true /small/p; /small/p").code == 126
        assert init.mounts()["/small"] == ("tmpfs", frozenset({"rw", "noexec", "relatime"}))


def test_proc_shows_the_cage_and_nobody_else() -> None:
    with opened(plan()) as init:
        assert init.attempt("*(name for name in os.listdir('/proc') if name.isdigit())") == "1 2"


def test_pseudo_terminals_are_the_cage_s_own() -> None:
    devpts = step("DEVPTS", "/dev/pts", data="newinstance,mode=600,ptmxmode=666")
    with opened(plan(devpts, step("SYMLINK", "/dev/ptmx", source="pts/ptmx"))) as init:
        assert init.attempt("[os.ttyname(fd) for fd in os.openpty()[1:]]") == "['/dev/pts/0']"


def test_message_queues_are_mounted() -> None:
    with opened(plan(step("MQUEUE", "/dev/mqueue"))) as init:
        assert init.attempt("os.mknod('/dev/mqueue/mine')") == "None"
        assert init.mounts()["/dev/mqueue"][0] == "mqueue"
    assert not os.path.exists("/dev/mqueue/mine")


def test_a_masked_file_reads_as_empty_and_swallows_what_is_written(tree: Path) -> None:
    mask = step("MASK_FILE", "/in/file", inside_bind=True)
    with opened(plan(step("BIND", "/in", source=str(tree)), mask)) as init:
        assert init.sh("echo lost > /in/file && cat /in/file").result == (0, "")
    assert (tree / "file").read_text() == "of the host"


def test_a_masked_directory_is_empty_and_stays_so(tree: Path) -> None:
    mask = step("MASK_DIR", "/in/folder", inside_bind=True)
    with opened(plan(step("BIND", "/in", source=str(tree)), mask)) as init:
        assert init.attempt("os.listdir('/in/folder')") == "[]"
        assert init.attempt("open('/in/folder/below')") == "ENOENT"
        assert init.attempt("open('/in/folder/new', 'w')") == "ENOENT"


@pytest.mark.parametrize("uid", [0, 1000])
def test_what_is_denied_cannot_be_opened_nor_be_made_openable(tree: Path, uid: int) -> None:
    denials = step("DENY_FILE", "/in/file", inside_bind=True), step("DENY_DIR", "/in/folder", inside_bind=True)
    with opened(plan(step("BIND", "/in", source=str(tree)), *denials, inside_uid=uid)) as init:
        for tried in ("open('/in/file')", "os.listdir('/in/folder')", "open('/in/folder/below')"):
            assert init.attempt(tried) == "EACCES", tried
        for tried in ("os.chmod('/in/file', 0o777)", "os.chmod('/in/folder', 0o777)"):
            assert init.attempt(tried) == "EROFS", tried
        for tried in ("os.unlink('/in/file')", "os.rmdir('/in/folder')", "os.rename('/in/folder', '/in/f')"):
            assert init.attempt(tried) == "EBUSY", tried
    assert (tree / "folder" / "below").exists()


@pytest.mark.parametrize("kind", ["MASK_DIR", "DENY_DIR", "MASK_FILE", "DENY_FILE"])
def test_a_cover_makes_its_target_on_the_cage_s_own_root_and_leaves_no_name_of_its_own(kind: str) -> None:
    with opened(plan(step(kind, "/covered/here"))) as init:
        assert os.listdir(init.root + "/covered") == ["here"]
        assert not [name for name in os.listdir(init.root) if name.startswith(".")]


def test_two_covers_do_not_share_what_they_show() -> None:
    with opened(plan(step("MASK_DIR", "/masked"), step("DENY_DIR", "/denied"), step("MASK_DIR", "/also"))) as init:
        assert init.attempt("os.listdir('/masked') + os.listdir('/also')") == "[]"
        assert init.attempt("os.listdir('/denied')") == "EACCES"


def test_protection_reaches_everything_mounted_so_far_and_the_root_can_be_taken_out_of_it() -> None:
    before = plan(step("TMPFS", "/sealed", data="mode=1777")).mounts
    after = step("PROTECT", "/", attrs=RO), step("UNPROTECT_ROOT", "/"), step("TMPFS", "/later", data="mode=1777")
    with opened(bare(*before, *after)) as init:
        assert init.attempt("open('/sealed/x', 'w')") == "EROFS"
        assert init.attempt("open('/tmp/x', 'w').close()") == "None"
        assert init.attempt("open('/later/x', 'w').close()") == "None"
        assert {"ro"} <= init.mounts()["/usr"][1]


def test_an_optional_step_about_what_is_not_there_is_skipped_and_the_next_is_made() -> None:
    hopeless = (
        step("BIND", "/a", source="/nowhere", optional=True),
        step("BIND", "/usr/nowhere", source="/nowhere", inside_bind=True, optional=True),
        step("MASK_FILE", "/usr/nowhere", inside_bind=True, optional=True),
        step("MASK_FILE", "/usr/nowhere/deeper", inside_bind=True, optional=True),
        step("MASK_FILE", "/usr/bin/env/below", inside_bind=True, optional=True),
    )
    with opened(plan(*hopeless, step("DIR", "/made"))) as init:
        assert os.path.isdir(init.root + "/made")
        assert not os.path.exists(init.root + "/a")
        assert init.run("/bin/true").code == 0


def test_an_optional_step_that_fails_otherwise_is_an_error(tree: Path) -> None:
    for name, failing in {
        "a mask over what is there": step("MASK_DIR", "/in/file", inside_bind=True, optional=True),
        "a grant inside another": step("BIND", "/in/folder", source=str(tree / "folder"), inside_bind=True,
                                       optional=True, **seen(tree)),
        "a grant inside another, out of reach": step("BIND", "/in/folder", source="/root/any", inside_bind=True,
                                                     optional=True, **seen(tree)),
        "a file system": step("TMPFS", "/t", data="colour=red", optional=True),
        "a link in the way": step("MASK_FILE", "/in/link/file", inside_bind=True, optional=True),
    }.items():  # fmt: skip
        (tree / "link").unlink(missing_ok=True)
        (tree / "link").symlink_to("folder")
        with pytest.raises(StartError), opened(plan(step("BIND", "/in", source=str(tree)), failing)):
            raise AssertionError(name)


def test_nothing_is_ever_made_in_a_tree_of_the_host(tree: Path) -> None:
    masks = [step(kind, f"/in/{kind}", inside_bind=True, optional=True) for kind in ("MASK_DIR", "DENY_FILE", "TMPFS")]
    with opened(plan(step("BIND", "/in", source=str(tree)), *masks)):
        assert sorted(os.listdir(tree)) == ["file", "folder"]


def test_a_mask_is_not_led_out_of_its_tree_by_a_directory_that_became_a_symlink(tree: Path) -> None:
    (tree / "there").symlink_to("/usr")
    mask = step("MASK_DIR", "/in/there/bin", inside_bind=True)
    with pytest.raises(StartError) as caught, opened(plan(step("BIND", "/in", source=str(tree)), mask)):
        pass
    assert refusal(caught.value) == ("target", "ELOOP", "/in/there/bin")
