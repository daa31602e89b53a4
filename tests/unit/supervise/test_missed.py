"""What a missed path comes to: a refusal of the cage's, with its key and its line, or nobody's."""

from __future__ import annotations

from dataclasses import replace
from errno import EACCES, ENOENT, EROFS

import pytest

from pysandbox.compile.plan import Attr, LandlockPlan, LandlockRule, MountKind, MountStep, NotifyPlan, Plan
from pysandbox.supervise.missed import Missed, OnHost, judged

READ_ONLY, WRITABLE = (Attr.RDONLY, Attr.NOSUID), (Attr.NOSUID,)


def bound(path: str, attrs: tuple[Attr, ...]) -> tuple[MountStep, MountStep]:
    return (MountStep(MountKind.BIND, path, path, ino=1), MountStep(MountKind.PROTECT, path, attrs=attrs))


MOUNTS = (
    *bound("/usr", READ_ONLY), *bound("/work", WRITABLE), MountStep(MountKind.PROTECT, "/work/.git/hooks",
    attrs=READ_ONLY), MountStep(MountKind.DENY_DIR, "/work/keys"), MountStep(MountKind.MASK_DIR, "/work/shown-empty"),
    MountStep(MountKind.DENY_FILE, "/work/key"), MountStep(MountKind.MASK_FILE, "/work/empty"),
)  # fmt: skip
NOTIFY = NotifyPlan(calls=(), actions=(), endpoints=(), no_external_reach=True, abstract=True, refuse_control=False,
                    lenient=False, programs=None)  # fmt: skip
PLAN = Plan(
    isolation="full", notes=(), namespaces=("USER",), inside_uid=0, inside_gid=0, hostname_prefix="", env=(), cwd="/",
    staging="", mounts=MOUNTS, landlock=None, seccomp=b"", seccomp_late=b"", notify=NOTIFY, loopback=True, limits=(),
    walltime=None, grace=1, output_cap=1,
)  # fmt: skip
MINE = OnHost(there=True, above=True, writable=True, real="/home/u/file")
NOTHING = OnHost(there=False, above=False, writable=False, real="/home/u/file")


def test_what_is_on_the_host_and_not_in_the_view_is_told_with_its_line() -> None:
    found = judged(Missed("/home/u/file", "READ", ENOENT), MINE, PLAN)
    assert found is not None and found[0] == "filesystem.allow" and "/home/u/file" in found[1]


@pytest.mark.parametrize("wanted", ["LOOK", "READ", "WRITE", "CREATE", "MAKE", "CHANGE", "REMOVE", "RUN"])
def test_what_the_host_lacks_too_is_nobody_s_refusal(wanted: str) -> None:
    assert judged(Missed("/home/u/file", wanted, ENOENT), NOTHING, PLAN) is None


def test_a_new_file_is_refused_where_its_directory_is_not_in_the_view() -> None:
    above = OnHost(there=False, above=True, writable=True, real="/data/new")
    found = judged(Missed("/data/new", "CREATE", ENOENT), above, PLAN)
    assert found is not None and found[0] == "filesystem.allow_write" and found[1].endswith('["/data"]')


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/usr/x", "filesystem.allow_write"),
        ("/work/.git/hooks", "filesystem.unguarded"),
        ("/work/shown-empty/x", "filesystem.mask"),
    ],
)
def test_a_read_only_place_names_what_made_it_so(path: str, rule: str) -> None:
    found = judged(Missed(path, "WRITE", EROFS), MINE._replace(real=path), PLAN)
    assert found is not None and found[0] == rule


def test_no_line_is_given_for_what_the_user_may_not_write_himself() -> None:
    found = judged(Missed("/usr/x", "WRITE", EROFS), MINE._replace(real="/usr/x", writable=False), PLAN)
    assert found == ("filesystem.allow_write", "")


def test_no_access_is_the_cage_s_doing_only_below_a_cover() -> None:
    covered, other = MINE._replace(real="/work/keys/a"), MINE._replace(real="/work/other")
    assert judged(Missed("/work/keys/a", "READ", EACCES), covered, PLAN) == ("filesystem.deny", "")
    assert judged(Missed("/work/other", "READ", EACCES), other, PLAN) is None


@pytest.mark.parametrize(
    ("path", "wanted", "refused"),
    [
        ("/usr/a", "READ", False),
        ("/usr/a", "WRITE", True),
        ("/home/u/file", "READ", True),
        ("/work/a", "REMOVE", False),
        ("/usr/a", "REMOVE", True),
    ],
)
def test_without_namespaces_the_rules_of_landlock_say_it(path: str, wanted: str, refused: bool) -> None:
    handled = ("READ_FILE", "WRITE_FILE", "REMOVE_FILE", "EXECUTE")
    rules = (LandlockRule("/usr", ("READ_FILE", "EXECUTE")), LandlockRule("/work", handled))
    on_host = replace(PLAN, isolation="landlock", mounts=(), notify=replace(NOTIFY, on_host=True),
                      landlock=LandlockPlan(handled, (), (), rules))  # fmt: skip
    found = judged(Missed(path, wanted, EACCES), MINE._replace(real=path), on_host)
    assert (found is not None) == refused


ALLOW, ALLOW_WRITE = "filesystem.allow", "filesystem.allow_write"
ABOVE = OnHost(there=False, above=True, writable=True, real="/data/new")
FILE = MINE._replace(real="/data/file")


def line(key: str, path: str) -> str:
    """The last line of a fix, which names what it opens."""
    return f'{key} = ["{path}"]'


@pytest.mark.parametrize(
    ("wanted", "host", "rule", "named"),
    [
        # wanted, what the host has there, the key, and the path that its line names
        ("LOOK", FILE, ALLOW, "/data/file"),
        ("READ", FILE, ALLOW, "/data/file"),
        ("RUN", FILE, ALLOW, "/data/file"),
        ("WRITE", FILE, ALLOW_WRITE, "/data/file"),
        ("CHANGE", FILE, ALLOW_WRITE, "/data/file"),
        ("CREATE", FILE, ALLOW_WRITE, "/data/file"),
        ("MAKE", FILE, ALLOW_WRITE, "/data/file"),
        ("REMOVE", FILE, ALLOW_WRITE, "/data"),
        ("CREATE", ABOVE, ALLOW_WRITE, "/data"),
        ("MAKE", ABOVE, ALLOW_WRITE, "/data"),
    ],
)
def test_what_the_view_lacks_is_told_with_the_line_that_opens_it_and_no_more(
    wanted: str, host: OnHost, rule: str, named: str
) -> None:
    found = judged(Missed(host.real, wanted, ENOENT), host, PLAN)
    assert found is not None and found[0] == rule and found[1].endswith(line(rule.partition(".")[2], named))


@pytest.mark.parametrize("wanted", ["LOOK", "READ", "WRITE", "CHANGE", "REMOVE", "RUN"])
def test_a_directory_alone_makes_no_refusal_of_what_is_no_new_file(wanted: str) -> None:
    assert judged(Missed("/data/new", wanted, ENOENT), ABOVE, PLAN) is None


@pytest.mark.parametrize("path", ["/etc/host.conf", "/etc/ld.so.preload", "/etc/python3.11/sitecustomize.py"])
def test_what_every_program_looks_for_and_none_needs_is_not_told(path: str) -> None:
    assert judged(Missed(path, "READ", ENOENT), MINE._replace(real=path), PLAN) is None


@pytest.mark.parametrize(
    ("path", "real", "number", "rule"),
    [
        # by the name that the cage has for it, or by where that leads
        ("/work/key", "/work/key", EACCES, "filesystem.deny"),
        ("/work/keys/a", "/elsewhere", EACCES, "filesystem.deny"),
        ("/way", "/work/keys/a", EACCES, "filesystem.deny"),
        ("/work/empty", "/work/empty", EROFS, "filesystem.mask"),
        ("/work/shown-empty/a", "/elsewhere", EROFS, "filesystem.mask"),
        ("/way", "/work/shown-empty/a", EROFS, "filesystem.mask"),
    ],
)
def test_a_cover_is_told_by_its_key_and_with_no_line(path: str, real: str, number: int, rule: str) -> None:
    assert judged(Missed(path, "WRITE", number), MINE._replace(real=real), PLAN) == (rule, "")


@pytest.mark.parametrize("number", [1, 20, 40])
def test_any_other_error_is_the_kernel_s_own(number: int) -> None:
    assert judged(Missed("/work/keys/a", "READ", number), MINE._replace(real="/work/keys/a"), PLAN) is None


def test_a_cover_of_what_the_host_lacks_is_nobody_s_refusal() -> None:
    assert judged(Missed("/work/keys/a", "READ", EACCES), NOTHING._replace(real="/work/keys/a"), PLAN) is None


@pytest.mark.parametrize("path", ["/usr/.git/config", "/work/plain", "/work/not.git/config"])
def test_a_guard_is_named_only_inside_of_a_writable_grant_and_at_its_word(path: str) -> None:
    found = judged(Missed(path, "WRITE", EROFS), MINE._replace(real=path), PLAN)
    assert found is not None and found[0] == ALLOW_WRITE and found[1].endswith(line("allow_write", path))


def test_a_guarded_word_is_in_the_line() -> None:
    path = "/work/.git/hooks/pre-commit"
    found = judged(Missed(path, "WRITE", EROFS), MINE._replace(real=path), PLAN)
    assert found is not None and found[0] == "filesystem.unguarded" and found[1].endswith('[".git"]')


HANDLED = ("READ_FILE", "WRITE_FILE", "EXECUTE", "MAKE_REG", "REMOVE_FILE", "READ_DIR", "REMOVE_DIR")
HERE, NEW = MINE._replace(real="/a/b/c"), ABOVE._replace(real="/a/b/c")


@pytest.mark.parametrize(
    ("wanted", "directory", "host", "of_itself", "of_its_directory", "rule"),
    [
        # what is granted below the file, and below the directory that it is in; None: nothing is asked there
        ("READ", False, HERE, "READ_FILE", None, ALLOW),
        ("RUN", False, HERE, "EXECUTE", None, ALLOW),
        ("WRITE", False, HERE, "WRITE_FILE", None, ALLOW_WRITE),
        ("CREATE", False, HERE, "WRITE_FILE", None, ALLOW_WRITE),
        ("CREATE", False, NEW, None, "MAKE_REG", ALLOW_WRITE),
        ("MAKE", False, NEW, None, "MAKE_REG", ALLOW_WRITE),
        ("REMOVE", False, HERE, None, "REMOVE_FILE", ALLOW_WRITE),
        ("READ", True, HERE, "READ_DIR", None, ALLOW),
        ("REMOVE", True, HERE, None, "REMOVE_DIR", ALLOW_WRITE),
    ],
)
def test_each_right_that_landlock_asks_for_is_asked_where_it_asks(
    wanted: str, directory: bool, host: OnHost, of_itself: str | None, of_its_directory: str | None, rule: str
) -> None:
    """With that right alone it is no refusal of ours; with all others it is."""

    def came_to(rights: tuple[str, ...], path: str) -> tuple[str, str] | None:
        landlock = LandlockPlan(HANDLED, (), (), (LandlockRule(path, rights),))
        plan = replace(PLAN, isolation="landlock", mounts=(), notify=replace(NOTIFY, on_host=True), landlock=landlock)
        return judged(Missed(host.real, wanted, EACCES, directory), host, plan)

    right, path = (of_itself, host.real) if of_itself else (of_its_directory, "/a/b")
    assert right is not None and came_to((right,), path) is None
    refused = came_to(tuple(each for each in HANDLED if each != right), "/a/b")
    assert refused is not None and refused[0] == rule


def test_a_plan_without_any_decision_is_judged_by_its_mounts() -> None:
    assert judged(Missed("/work/keys/a", "READ", EACCES), MINE._replace(real="/work/keys/a"),
                  replace(PLAN, notify=None)) == ("filesystem.deny", "")  # fmt: skip
