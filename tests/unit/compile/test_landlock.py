"""The second wall: rights per ABI, and rules that follow the view."""

from __future__ import annotations

from dataclasses import replace

import pytest

from golden.pretend import MODERN, PROJECT, grants, plan_of
from pysandbox.compile.landlock import FS_RIGHTS, NET_RIGHTS, SCOPES
from pysandbox.compile.plan import LandlockPlan
from pysandbox.policy.model import Policy


def wall(policy: Policy, abi: int = 7) -> LandlockPlan:
    plan = plan_of(policy, replace(MODERN, landlock_abi=abi)).landlock
    assert plan is not None
    return plan


def rights(plan: LandlockPlan, path: str) -> set[str]:
    return {right for rule in plan.rules if rule.path == path for right in rule.access}


@pytest.mark.parametrize(("abi", "fs", "net", "scopes"), [
    (0, 0, 0, 0), (1, 13, 0, 0), (2, 14, 0, 0), (3, 15, 0, 0),
    (4, 15, 2, 0), (5, 16, 2, 0), (6, 16, 2, 2), (7, 16, 2, 2),
])  # fmt: skip
def test_each_abi_knows_as_many_rights_as_the_kernel_says(abi: int, fs: int, net: int, scopes: int) -> None:
    assert (len(FS_RIGHTS[abi]), len(NET_RIGHTS[abi]), len(SCOPES[abi])) == (fs, net, scopes)
    assert len(set(FS_RIGHTS[abi])) == fs


@pytest.mark.parametrize("abi", range(1, 8))
def test_no_rule_holds_a_right_that_is_not_handled(abi: int) -> None:
    plan = wall(Policy(workdir="write", allow_write=grants("/data/set/a")), abi)
    assert set(plan.handled_fs) == set(FS_RIGHTS[abi])
    assert all(set(rule.access) <= set(plan.handled_fs) and rule.access for rule in plan.rules)


def test_a_newer_abi_is_driven_as_the_newest_known() -> None:
    assert wall(Policy(), 12) == wall(Policy(), 7)


def test_a_rule_on_a_file_holds_only_rights_of_files() -> None:
    assert rights(wall(Policy(allow_write=grants("/data/set/a"))), "/data/set/a") == {
        "READ_FILE", "WRITE_FILE", "EXECUTE", "TRUNCATE", "IOCTL_DEV",
    }  # fmt: skip


def test_writing_is_granted_where_the_policy_says_and_in_the_cages_own_directories() -> None:
    plan = wall(Policy(allow=grants("/usr"), allow_write=grants(PROJECT), run_as="self"))
    assert {rule.path for rule in plan.rules if "MAKE_REG" in rule.access} == {
        PROJECT, "/home/ann", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/scratch",
    }  # fmt: skip


def test_the_root_gives_no_right_to_change_anything() -> None:
    assert rights(wall(Policy()), "/") == {"EXECUTE", "READ_FILE", "READ_DIR"}


def test_a_full_cage_handles_no_ports_and_scopes_no_signals() -> None:
    assert (wall(Policy()).handled_net, wall(Policy()).scoped) == ((), ())


def test_the_hosts_abstract_sockets_are_closed_where_its_network_is_open() -> None:
    direct = Policy(egress="direct", unsafe_direct=True)
    assert wall(direct).scoped == ("ABSTRACT_UNIX_SOCKET",)
    assert wall(direct, 5).scoped == ()
