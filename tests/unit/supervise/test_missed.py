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
