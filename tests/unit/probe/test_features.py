"""The table of features and its readers, on pretended hosts."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pysandbox.probe.facts import HostFacts
from pysandbox.probe.features import FEATURES, Feature, Host, feature, mac_system, minimum_met, read_all, too_old

# What the default cage is refused without, as `compile.degrade` has it.
MINIMUM = {
    "kernel", "user_namespaces", "pid_namespaces", "mount_namespaces", "seccomp_filter", "network_namespaces",
    "proc_mountable", "mount_setattr",
}  # fmt: skip


def host(root: Path | str = "/absent-root", *, refused: str = "", release: str = "6.18.1", abi: int = 7) -> Host:
    """A host on which everything works but the probe `refused`."""
    return Host(
        root=str(root),
        release=release,
        probe=lambda name: errno.EPERM if name == refused else 0,
        redirect=lambda: errno.EPROTONOSUPPORT if refused == "redirect" else 0,
        landlock_abi=lambda: abi,
        landlock_errata=lambda: None,
    )


def put(root: Path, path: str, text: str) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_every_fact_about_the_host_is_a_row() -> None:
    flags = {name for name, field in HostFacts.__dataclass_fields__.items() if field.type == "bool"}
    assert flags <= {row.name for row in FEATURES}


def test_no_two_rows_share_a_name() -> None:
    assert len({row.name for row in FEATURES}) == len(FEATURES)


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row.name)
def test_a_row_explains_itself_in_whole_sentences(row: Feature) -> None:
    assert row.without.endswith(".")
    assert row.fix.endswith(".")
    assert row.without[0].isupper()
    assert row.fix[0].isupper()


def test_the_minimum_is_namespaces_seccomp_and_a_kernel_that_has_them() -> None:
    assert {row.name for row in FEATURES if row.required} == MINIMUM


@pytest.mark.parametrize("probe", ["USER_NS", "PID_NS", "MOUNT_NS", "SECCOMP_FILTER", "NET_NS", "PROC"])
def test_a_host_without_one_required_feature_is_below_the_minimum(probe: str) -> None:
    assert minimum_met(read_all(host()))
    assert not minimum_met(read_all(host(refused=probe)))


def test_a_kernel_without_nf_tables_says_so_and_still_meets_the_minimum() -> None:
    readings = {row.name: reading for row, reading in read_all(host(refused="redirect"))}
    assert (readings["nf_tables"].ok, readings["nf_tables"].detail.split()[0]) == (False, "EPROTONOSUPPORT")
    assert minimum_met(read_all(host(refused="redirect")))


def test_a_host_without_an_optional_feature_still_meets_the_minimum() -> None:
    assert minimum_met(read_all(host(refused="IPC_NS", abi=0)))


@pytest.mark.parametrize(("release", "met"), [("5.5.19", False), ("5.6.0", True), ("5.10.0-28-amd64", True)])
def test_the_oldest_kernel_is_5_6(release: str, met: bool) -> None:
    assert minimum_met(read_all(host(release=release))) is met


def test_a_refused_probe_names_its_errno() -> None:
    reading = feature("network_namespaces").reader(host(refused="NET_NS"))
    assert not reading.ok
    assert "EPERM" in reading.detail


@pytest.mark.parametrize(
    ("abi", "rows"),
    [
        (0, []),
        (1, ["landlock"]),
        (3, ["landlock"]),
        (4, ["landlock", "landlock_net"]),
        (6, ["landlock", "landlock_net", "landlock_scope"]),
    ],
)
def test_each_landlock_row_needs_its_abi(abi: int, rows: list[str]) -> None:
    readings = read_all(host(abi=abi))
    assert [row.name for row, reading in readings if row.name.startswith("landlock") and reading.ok] == rows


@pytest.mark.parametrize(
    ("row", "path", "value", "ok"),
    [
        ("userns_count", "/proc/sys/user/max_user_namespaces", "0", False),
        ("userns_count", "/proc/sys/user/max_user_namespaces", "96365", True),
        ("userns_unprivileged", "/proc/sys/kernel/unprivileged_userns_clone", "0", False),
        ("userns_unprivileged", "/proc/sys/kernel/unprivileged_userns_clone", "1", True),
        ("userns_apparmor", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", False),
        ("userns_apparmor", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0", True),
    ],
)
def test_a_setting_that_forbids_user_namespaces_is_found(
    tmp_path: Path, row: str, path: str, value: str, ok: bool
) -> None:
    put(tmp_path, path, f"{value}\n")
    reading = feature(row).reader(host(tmp_path, refused="USER_NS"))
    assert reading.ok is ok
    assert path.rpartition("/")[2] in reading.detail


def test_a_restriction_that_spares_this_program_is_none(tmp_path: Path) -> None:
    put(tmp_path, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n")
    assert not feature("userns_apparmor").reader(host(tmp_path, refused="USER_NS")).ok
    reading = feature("userns_apparmor").reader(host(tmp_path))
    assert (reading.ok, "not for this program" in reading.detail) == (True, True)


def test_a_kernel_is_too_old_for_what_it_lacks_and_not_for_what_is_forbidden() -> None:
    old = too_old(read_all(host(release="5.10.0", refused="NET_NS", abi=0)), "5.10.0")
    assert [row.name for row in old] == ["landlock", "landlock_net", "landlock_scope"]


def test_a_setting_that_this_kernel_does_not_have_restricts_nothing(tmp_path: Path) -> None:
    assert feature("userns_apparmor").reader(host(tmp_path)).ok


def delegated_to_us(root: Path, controllers: str = "cpu memory pids") -> Path:
    """A part of the tree that was handed to this process, which lives in a leaf of it."""
    put(root, "/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    put(root, "/proc/self/cgroup", "0::/mine/leaf\n")
    for path in ("mine", "mine/leaf"):
        group = f"/sys/fs/cgroup/{path}"
        for name in ("type", "procs", "subtree_control", "controllers"):
            put(root, f"{group}/cgroup.{name}", f"{controllers}\n" if name == "controllers" else "")
    put(root, "/sys/fs/cgroup/mine/leaf/cgroup.procs", "1\n")
    return root / "sys/fs/cgroup/mine"


@pytest.mark.parametrize("name", ["memory", "pids", "cpu"])
def test_a_controller_of_a_group_of_our_own_is_delegated(name: str, tmp_path: Path) -> None:
    delegated_to_us(tmp_path)
    assert feature(f"cgroup_{name}").reader(host(tmp_path)).ok


def test_a_group_without_a_controller_names_it(tmp_path: Path) -> None:
    delegated_to_us(tmp_path, "cpu memory")
    reading = feature("cgroup_pids").reader(host(tmp_path))
    assert (reading.ok, "pids" in reading.detail) == (False, True)


def test_a_group_that_cannot_be_written_is_not_delegated(tmp_path: Path) -> None:
    group = delegated_to_us(tmp_path)
    for path in (group, group / "leaf"):
        (path / "cgroup.subtree_control").unlink()  # root may write anything that is there
    assert not feature("cgroup_memory").reader(host(tmp_path)).ok


def test_a_caller_outside_of_cgroup_v2_has_nothing_delegated(tmp_path: Path) -> None:
    delegated_to_us(tmp_path)
    put(tmp_path, "/proc/self/cgroup", "4:memory:/x\n")
    assert not feature("cgroup_memory").reader(host(tmp_path)).ok


def test_the_cgroup_v2_tree_is_known_by_its_mount(tmp_path: Path) -> None:
    assert not feature("cgroup_v2").reader(host(tmp_path)).ok
    delegated_to_us(tmp_path)
    assert feature("cgroup_v2").reader(host(tmp_path)).ok


@pytest.mark.parametrize(
    ("path", "text", "system"),
    [
        ("/sys/module/apparmor/parameters/enabled", "Y\n", "AppArmor"),
        ("/sys/module/apparmor/parameters/enabled", "N\n", "none"),
        ("/sys/fs/selinux/enforce", "0", "SELinux"),
        ("/etc/hostname", "x", "none"),
    ],
)
def test_the_mac_system_is_told_by_its_files(tmp_path: Path, path: str, text: str, system: str) -> None:
    put(tmp_path, path, text)
    assert mac_system(host(tmp_path)) == system


def test_a_row_that_is_not_one_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        feature("telepathy")
