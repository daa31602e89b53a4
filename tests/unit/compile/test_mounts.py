"""The mount plan, read through a model of what mounts do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden.pretend import MODERN, PROJECT, SYSTEM, grants, look, paths_of, plan_of
from pysandbox.compile.plan import SCRATCH, Attr, MountKind, Plan
from pysandbox.errors import UnsupportedError
from pysandbox.policy.model import Grant, Policy
from unit.compile.mount_model import Mounts, below

# Directories and files that nest in every way a grant and a denial can; all exist in the tree of this test.
NAMES = ("/d", "/d/a", "/d/a/x", "/d/a/x/1", "/d/a/y", "/d/b", "/d/b/x", "/d/bb", "/tmp/t", "/tmp/t/a")
FOREST = "\n".join((*(f"{name}/" for name in NAMES), "/mnt/", "/tmp/", "/home/ann/", "/home/ann/project/"))
some_paths = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)


def expected(path: str, policy: Policy) -> str:
    """Deny wins, then mask, then the nearest grant, where writing wins over reading."""
    for word, listed in (("denied", policy.deny), ("masked", policy.mask)):
        if any(below(path, grant.path) for grant in listed):
            return word
    depth = {True: 0, False: 0}
    for writable, listed in ((True, policy.allow_write), (False, policy.allow)):
        depth[writable] = max((len(grant.path) for grant in listed if below(path, grant.path)), default=0)
    if not any(depth.values()):
        return "unseen"
    return "write" if depth[True] >= depth[False] else "read"


@settings(max_examples=60, deadline=None)
@given(read=some_paths, write=some_paths, deny=some_paths, mask=some_paths)
def test_every_path_is_shown_as_the_policy_says(
    read: Sequence[str], write: Sequence[str], deny: Sequence[str], mask: Sequence[str]
) -> None:
    policy = Policy(allow=grants(*read), allow_write=grants(*write), deny=grants(*deny), mask=grants(*mask))
    mounts = Mounts(plan_of(policy, tree=FOREST).mounts)
    for path in NAMES:
        wanted, found = expected(path, policy), mounts.shows(path)
        # Nothing need lie over what is not visible, and an outer cover hides an inner one.
        if wanted in ("denied", "masked"):
            assert found in ("denied", "masked", "unseen"), path
            assert wanted != "denied" or found != "masked" or any(below(path, each) for each in mask), path
        else:
            assert found == wanted, path


@settings(max_examples=30, deadline=None)
@given(write=some_paths, deny=some_paths)
def test_no_directory_above_a_denial_can_be_renamed_away(write: Sequence[str], deny: Sequence[str]) -> None:
    mounts = Mounts(plan_of(Policy(allow_write=grants(*write), deny=grants(*deny)), tree=FOREST).mounts)
    for path in (each for each in deny if mounts.is_mount_point(each)):
        while mounts.shows(path := path.rpartition("/")[0]) == "write":
            assert mounts.is_mount_point(path)


@pytest.fixture
def carved() -> Plan:
    return plan_of(Policy(
        allow=(*SYSTEM, *grants("/data", "/home/ann/project/src")),
        allow_write=grants(PROJECT, "/data/set"),
        deny=grants("/home/ann/project/src/deep/er/key", "/home/ann/way/set/private"),
        mask=grants("/home/ann/project/.env"),
    ))  # fmt: skip


def test_no_bind_from_the_host_honours_setuid_or_devices(carved: Plan) -> None:
    for mount in Mounts(carved.mounts).table:
        if mount.kind is MountKind.BIND and not mount.target.startswith("/dev/"):
            assert {Attr.NOSUID, Attr.NODEV} <= mount.attrs, mount


def test_devices_are_bound_where_nodev_does_not_reach(carved: Plan) -> None:
    mounts = Mounts(carved.mounts)
    devices = [mount for mount in mounts.table if mount.source.startswith("/dev/")]
    assert {mount.target.removeprefix("/dev/") for mount in devices} == {"null", "zero", "random", "urandom", "tty"}
    assert not any(Attr.NODEV in mount.attrs for mount in devices)


def test_a_denial_reached_through_a_link_lies_on_the_real_path(carved: Plan) -> None:
    assert "/data/set/private" in paths_of(carved, "DENY_DIR")


def test_denials_come_last_and_masks_before_them(carved: Plan) -> None:
    kinds = [step.kind.value for step in carved.mounts]
    assert kinds[-2:] == ["DENY_DIR", "DENY_FILE"]
    assert kinds[-3] == "MASK_FILE"
    assert kinds.index("PROC") > max(index for index, kind in enumerate(kinds) if kind in ("TMPFS", "DEVPTS"))


def test_a_denial_is_never_optional(carved: Plan) -> None:
    assert not any(step.optional for step in carved.mounts if step.kind.value.startswith(("DENY", "PROTECT")))


def test_targets_inside_a_bind_are_marked(carved: Plan) -> None:
    bound: list[str] = []
    for step in carved.mounts:
        if step.kind.value.startswith(("BIND", "MASK", "DENY")):
            inside = any(below(step.target, each) and step.target != each for each in (*bound, "/proc"))
            assert step.inside_bind == inside, step
            bound.append(step.target)


def test_every_granted_source_carries_its_inode(carved: Plan) -> None:
    looked = look(Policy(allow=SYSTEM, allow_write=grants(PROJECT, "/data/set")))
    facts = {fact.real: fact for fact in looked.facts.values()}
    checked = [step for step in carved.mounts if step.kind is MountKind.BIND and step.source in facts and step.ino]
    assert {"/usr", PROJECT, "/data/set"} <= {step.source for step in checked}
    assert all((step.dev, step.ino) == (facts[step.source].dev, facts[step.source].ino) for step in checked)


def test_a_link_is_made_once_and_never_inside_a_bind() -> None:
    plan = plan_of(Policy(allow=(*SYSTEM, *grants("/home/ann/way/set", "/home/ann/way/set/private", "/usr/lib64"))))
    links = paths_of(plan, "SYMLINK")
    assert links.count("/home/ann/way") == 1
    inside = plan_of(Policy(allow=grants("/home/ann/way/set", "/home/ann")))
    assert "/home/ann/way" not in paths_of(inside, "SYMLINK")


def test_a_grant_below_tmp_lies_on_the_cages_own_tmp() -> None:
    plan = plan_of(Policy(allow=grants("/tmp/work", "/tmp/shortcut/a")))
    order = [step.target for step in plan.mounts]
    assert order.index("/tmp") < order.index("/tmp/work")
    assert order.index("/tmp") < order.index("/tmp/shortcut")


def test_a_wider_grant_makes_a_narrower_one_unneeded() -> None:
    write = grants(PROJECT, f"{PROJECT}/out")
    plan = plan_of(Policy(allow=grants("/usr", "/usr/bin", "/usr/lib64"), allow_write=write))
    assert [path for path in paths_of(plan, "BIND") if path.startswith(("/usr", f"{PROJECT}/out"))] == ["/usr"]


def test_nothing_is_laid_inside_a_denial() -> None:
    plan = plan_of(Policy(allow=grants("/d"), deny=grants("/d/a"), mask=grants("/d/a/x"), allow_write=grants("/d/a/y")),
                   tree=FOREST)  # fmt: skip
    assert [step.target for step in plan.mounts if below(step.target, "/d")] == ["/d", "/d/a"]


def test_granted_twice_a_path_is_writable_and_explicit_if_either_grant_says_so() -> None:
    written = plan_of(Policy(allow_write=grants(PROJECT), workdir="read"))
    assert Mounts(written.mounts).shows(PROJECT) == "write"
    twice = plan_of(Policy(allow=(Grant("/data/set"), Grant("/home/ann/way/set", optional=True))))
    assert not any(step.optional for step in twice.mounts if step.target == "/data/set")


def test_a_prefix_ends_on_a_component() -> None:
    plan = plan_of(Policy(allow=grants("/d/b", "/d/bb")), tree=FOREST)
    assert {"/d/b", "/d/bb"} <= set(paths_of(plan, "BIND"))


def test_the_files_of_names_are_generated_only_without_a_network() -> None:
    generated = plan_of(Policy(allow=SYSTEM))
    assert paths_of(generated, "FILE") == ["/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/hosts"]
    assert "/etc/hosts" not in paths_of(generated, "BIND")
    direct = plan_of(Policy(allow=SYSTEM, egress="direct", unsafe_direct=True))
    assert paths_of(direct, "FILE") == []
    assert "/etc/hosts" in paths_of(direct, "BIND")


@pytest.mark.parametrize("change", [{"allow": grants("/etc")}, {"deny": grants("/etc/hosts")}], ids=("bound", "denied"))
def test_the_hosts_file_is_not_generated_into_a_bind_or_against_a_denial(change: dict[str, tuple[Grant, ...]]) -> None:
    plan = plan_of(Policy(**{"allow": (Grant("/etc/hosts", optional=True),), **change}))  # type: ignore[arg-type]
    assert "/etc/hosts" not in paths_of(plan, "FILE")


def test_the_session_scratch_is_a_directory_of_the_launcher() -> None:
    shared = plan_of(Policy(state="scratch"))
    assert next(step.source for step in shared.mounts if step.target == "/scratch") == SCRATCH
    assert "/scratch" in paths_of(plan_of(Policy()), "DIR")


def test_home_is_an_empty_directory_for_self_and_absent_for_nobody() -> None:
    assert "/home/ann" in paths_of(plan_of(Policy(run_as="self")), "DIR")
    assert not any(step.target == "/home/ann" for step in plan_of(Policy()).mounts)


def test_a_home_below_tmp_is_made_on_the_cage_s_own_tmp() -> None:
    plan = plan_of(Policy(run_as="self"), home="/tmp/work/home")
    order = [step.target for step in plan.mounts]
    assert order.index("/tmp") < order.index("/tmp/work/home")
    assert ("HOME", "/tmp/work/home") in plan.env
    assert "/tmp/work/home" not in [step.target for step in plan_of(Policy(), home="/tmp/work/home").mounts]


def test_a_granted_home_is_not_replaced_by_an_empty_one() -> None:
    plan = plan_of(Policy(run_as="self", allow=grants("/home/ann")))
    assert "/home/ann" not in paths_of(plan, "DIR")
    assert "/home/ann" in paths_of(plan, "BIND")


def test_the_staging_directory_holds_and_hides_no_source() -> None:
    assert plan_of(Policy()).staging == "/mnt"
    tree = "/mnt/\n/opt/tool/\n/run/\n/home/ann/project/"
    assert plan_of(Policy(allow=grants("/mnt", "/opt/tool")), tree=tree).staging == "/run"


def test_the_staging_directory_does_not_lie_inside_a_source() -> None:
    with pytest.raises(UnsupportedError, match="assemble"):
        plan_of(Policy(allow=grants("/var")), tree="/var/tmp/\n/home/ann/project/")


def test_no_free_staging_directory_is_an_error_with_a_fix() -> None:
    with pytest.raises(UnsupportedError, match="create an empty /mnt"):
        plan_of(Policy(allow=grants("/mnt")), tree="/mnt/\n/home/ann/project/")


def test_root_s_cages_have_read_only_nodes_and_a_poorer_proc() -> None:
    """Who owns the nodes and the files of /proc could change them; nobody else pays for the mounts."""
    root, user = (plan_of(Policy(), host=replace(MODERN, uid=uid)) for uid in (0, 1000))
    of_root, of_user = (
        [step for step in plan.mounts if step.kind is MountKind.BIND and step.target.startswith("/dev/")]
        for plan in (root, user)
    )
    assert all(Attr.RDONLY in step.attrs for step in of_root) and len(of_root) == len(of_user) > 4
    assert not any(step.attrs for step in of_user)
    more = {step.target for step in root.mounts} - {step.target for step in user.mounts}
    assert {"/proc/irq", "/proc/bus", "/proc/fs", "/proc/driver", "/proc/vmallocinfo", "/proc/kpageflags"} <= more
