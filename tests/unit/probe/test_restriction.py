"""Which cause is named for a refusal, on pretended hosts."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pysandbox.errors import UnsupportedError
from pysandbox.probe import kernel, restriction
from pysandbox.probe.restriction import explained, find_restriction

SYSCTL = "proc/sys/kernel/apparmor_restrict_unprivileged_userns"


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("path", "refusing", "harmless", "named", "fix"),
    [
        (
            "proc/sys/user/max_mnt_namespaces",
            "0\n",
            "9000\n",
            "0: nobody may create mount",
            "sysctl",
        ),
        (SYSCTL, "1\n", "0\n", "apparmor_restrict_unprivileged_userns = 1", "pysandbox setup"),
        ("proc/sys/kernel/unprivileged_userns_clone", "0\n", "1\n", "unprivileged_userns_clone = 0", "sysctl -w"),
        ("proc/sys/user/max_user_namespaces", "0\n", "9000\n", "max_user_namespaces = 0", "sysctl -w"),
        ("sys/fs/selinux/enforce", "1", "0", "SELinux is enforcing", "pysandbox setup"),
        ("proc/self/attr/current", "snap.x (enforce)\n", "unconfined\n", "AppArmor profile snap.x", "userns"),
        ("proc/self/attr/current", "x (enforce)\0", "pysandbox (unconfined)\n", "AppArmor profile x;", "userns"),
        (
            "proc/self/status",
            f"Uid:\t0\t0\t0\t0\nCapEff:\t{0:016x}\nSeccomp:\t2\n",
            f"Uid:\t0\t0\t0\t0\nCapEff:\t{1 << 31:016x}\n",
            "CAP_SETFCAP",
            "--cap-add=SETFCAP",
        ),
        ("proc/self/status", "Name:\tpy\nSeccomp:\t2\n", "Name:\tpy\nSeccomp:\t0\n", "container", "seccomp=unconfined"),
    ],
)
def test_the_setting_that_refuses_is_named_with_its_fix(
    tmp_path: Path, path: str, refusing: str, harmless: str, named: str, fix: str
) -> None:
    put(tmp_path, path, harmless)
    assert find_restriction(str(tmp_path), uid=1000) is None
    put(tmp_path, path, refusing)
    found = find_restriction(str(tmp_path), uid=1000)
    assert found is not None
    assert named in found
    assert fix in found


def test_root_is_not_held_by_what_holds_the_unprivileged(tmp_path: Path) -> None:
    put(tmp_path, SYSCTL, "1\n")
    assert find_restriction(str(tmp_path), uid=1000) is not None
    assert find_restriction(str(tmp_path), uid=0) is None


def test_a_selinux_context_is_not_taken_for_an_apparmor_profile(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/attr/current", "unconfined_u:unconfined_r:unconfined_t:s0 (enforce)\0")
    assert find_restriction(str(tmp_path), uid=1000) is None


def test_a_host_that_restricts_nothing_has_no_cause(tmp_path: Path) -> None:
    assert find_restriction(str(tmp_path), uid=1000) is None


def test_a_refused_policy_names_the_cause_and_keeps_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = UnsupportedError("no user namespaces", feature="user_namespaces", fix="or use landlock")
    monkeypatch.setattr(restriction, "find_restriction", lambda: "x = 1; as root: pysandbox setup")
    assert str(explained(refused)) == "no user namespaces; x = 1; as root: pysandbox setup; or use landlock"
    monkeypatch.setattr(restriction, "find_restriction", lambda: None)
    assert explained(refused) is refused


def test_a_refusal_of_something_else_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = UnsupportedError("no Landlock", feature="landlock", fix="boot another kernel")
    monkeypatch.setattr(restriction, "find_restriction", lambda: "x = 1")
    assert explained(refused) is refused


@pytest.mark.parametrize(
    ("feature", "refused", "said"),
    [
        (
            "mount_setattr",
            {"MOUNT_NS": errno.ENOSPC},
            ["forbids mount", "(ENOSPC); the limit"],
        ),
        (
            "proc_mountable",
            {"TMPFS": errno.EPERM, "PROC": errno.EPERM},
            ["to mount anything", "pysandbox setup"],
        ),
        ("proc_mountable", {"PID_NS": errno.ENOSPC}, ["forbids process namespaces"]),
        ("mount_setattr", {"MOUNT_SETATTR": errno.ENOSYS}, ["refuses mount_setattr", "(ENOSYS)"]),
        ("network_namespaces", {"NET_NS": errno.EPERM}, ["forbids network namespaces", "troubleshooting"]),
    ],
)
def test_where_mounts_are_blocked_the_part_that_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, feature: str, refused: dict[str, int], said: list[str]
) -> None:
    monkeypatch.setattr(restriction, "find_restriction", lambda: None)
    monkeypatch.setattr(kernel, "probe", lambda name: refused.get(name, 0))
    told = str(explained(UnsupportedError("a guess", feature=feature, fix="use Linux 5.12 or newer")))
    assert [text for text in said if text not in told] == []
    assert "5.12" not in told
    assert "a guess" not in told


def test_a_masked_proc_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = UnsupportedError("parts of /proc are hidden", feature="proc_mountable", fix="unmask it")
    monkeypatch.setattr(kernel, "probe", lambda name: errno.EPERM if name == "PROC" else 0)
    assert explained(refused) is refused


def test_in_another_cage_no_isolation_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a setting of the host is found as well: it is not what stands in the way."""
    refused = UnsupportedError("no user namespaces", feature="user_namespaces", fix='or set isolation = "landlock"')
    monkeypatch.setattr(restriction, "find_restriction", lambda: "x = 1")
    monkeypatch.setattr(kernel, "is_openat2_filtered", lambda: True)
    told = str(explained(refused))
    assert "inside of one" in told and "landlock" not in told and "x = 1" not in told
