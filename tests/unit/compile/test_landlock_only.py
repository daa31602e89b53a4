"""isolation = "landlock": what is refused, what is granted, and what is owned up to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import HOSTS, MODERN, PROJECT, SYSTEM, TREE, grants, notes_of, plan_of
from pysandbox.compile import degrade
from pysandbox.compile.notes import GRANT_SKIPPED, ISOLATION_GAP, NOT_COVERABLE
from pysandbox.compile.plan import SCRATCH, LandlockPlan, NotifyPlan, Plan
from pysandbox.errors import SandboxCompileError, UnsupportedError
from pysandbox.policy.model import Grant, Policy

DIRECT: dict[str, Any] = {"egress": "direct", "unsafe_direct": True}


def alone(**options: Any) -> Policy:
    return Policy(isolation="landlock", **{"run_as": "self", **options})


def wall(plan: Plan) -> LandlockPlan:
    assert plan.landlock is not None
    return plan.landlock


@pytest.mark.parametrize(("options", "key"), [
    ({"run_as": "root"}, "process.run_as"),
    ({"state": "scratch"}, "filesystem.state"),
    ({"allow_syscalls": ("io_uring_setup",)}, "syscalls.allow_extra"),
    ({"allow": grants("/data"), "deny": grants("/data/set")}, "filesystem.deny"),
    ({"allow": grants("/data"), "mask": grants("/data/set")}, "filesystem.mask"),
    ({"allow_write": grants("/data"), "allow": grants("/data/set")}, "filesystem.allow"),
])  # fmt: skip
def test_what_needs_namespaces_is_refused_by_key(options: dict[str, Any], key: str) -> None:
    with pytest.raises(SandboxCompileError) as caught:
        plan_of(alone(**options))
    assert caught.value.key == key
    assert 'isolation = "full"' in str(caught.value)


def test_an_optional_grant_goes_rather_than_show_what_is_denied_inside_it() -> None:
    plan = plan_of(alone(allow=(Grant("/etc/ssl", optional=True),), deny=grants("/etc/ssl/private")))
    assert not any(rule.path.startswith("/etc/ssl") for rule in wall(plan).rules)
    assert "'/etc/ssl' is left out" in notes_of(plan, GRANT_SKIPPED)[0]


def test_an_explicit_grant_survives_the_optional_one_around_it() -> None:
    policy = alone(allow=(Grant("/etc/ssl", optional=True), *grants("/etc/ssl/certs")), deny=grants("/etc/ssl/private"))
    assert "/etc/ssl/certs" in {rule.path for rule in wall(plan_of(policy)).rules}


def test_nothing_is_mounted_and_no_id_changes() -> None:
    plan = plan_of(alone(allow=SYSTEM, workdir="write"))
    assert (plan.namespaces, plan.mounts, plan.staging, plan.loopback) == ((), (), "", False)
    assert (plan.inside_uid, plan.inside_gid) == (-1, -1)


def test_every_path_is_granted_by_its_real_name() -> None:
    plan = plan_of(alone(allow=grants("/home/ann/way/set"), workdir="write"))
    access = {rule.path: set(rule.access) for rule in wall(plan).rules}
    assert access["/data/set"] == {"EXECUTE", "READ_FILE", "READ_DIR"}
    assert access[PROJECT] == access[""] == set(wall(plan).handled_fs)


def test_no_rule_lies_on_a_process_of_the_host_unless_it_is_granted() -> None:
    assert not any(rule.path in ("/", "/proc", "/proc/self") for rule in wall(plan_of(alone())).rules)
    assert "/proc" in {rule.path for rule in wall(plan_of(alone(allow=grants("/proc")))).rules}


def test_ports_are_closed_unless_egress_is_direct() -> None:
    closed = wall(plan_of(alone()))
    assert closed.handled_net == ("BIND_TCP", "CONNECT_TCP")
    assert wall(plan_of(alone(egress="direct", unsafe_direct=True))).handled_net == ()


def test_signals_and_abstract_sockets_stay_inside() -> None:
    assert wall(plan_of(alone())).scoped == ("ABSTRACT_UNIX_SOCKET", "SIGNAL")


@pytest.mark.parametrize("abi", range(6))
def test_a_kernel_that_cannot_keep_signals_inside_is_refused(abi: int) -> None:
    with pytest.raises(UnsupportedError, match=r"6\.12"):
        plan_of(alone(), replace(MODERN, landlock_abi=abi))


def test_home_and_tmpdir_are_the_scratch_directory_unless_home_is_granted() -> None:
    assert {("HOME", SCRATCH), ("TMPDIR", SCRATCH)} <= set(plan_of(alone()).env)
    assert ("HOME", "/home/ann") in plan_of(alone(allow=grants("/home/ann"))).env


@pytest.mark.parametrize("word", ["stat", "readlink", "getxattr", "chmod", "host's name", "tmp_mb"])
def test_each_gap_is_named(word: str) -> None:
    assert any(word in note for note in notes_of(plan_of(alone()), ISOLATION_GAP))


def test_guards_that_cannot_be_made_are_named_and_strict_refuses_them() -> None:
    assert any(".git/hooks" in note for note in notes_of(plan_of(alone(workdir="write")), NOT_COVERABLE))
    with pytest.raises(UnsupportedError, match="leaves open"):
        plan_of(alone(workdir="write", strict=True))


def test_strict_refuses_each_gap_by_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for gap in degrade.GAPS:
        monkeypatch.setattr(degrade, "GAPS", (gap,))
        asked = {
            "run_as": "nobody",
            "allow_execve": ("/bin/sh",),
            "allow_syscalls": ("shmget",),
            "allow": grants("/proc"),
            **DIRECT,
        }
        with pytest.raises(UnsupportedError, match=r"leaves open: .*full"):
            degrade.evaluate(alone(strict=True, **asked), MODERN)


def test_a_guard_that_cannot_be_made_is_no_rule_either() -> None:
    paths = [rule.path for rule in wall(plan_of(alone(workdir="write"))).rules]
    assert [path for path in paths if path.startswith(PROJECT)] == [PROJECT]


def test_it_compiles_for_a_host_that_forbids_user_namespaces() -> None:
    assert plan_of(alone(allow=SYSTEM), HOSTS["forbids-user-namespaces"]).isolation == "landlock"


DATABASE = "/run/db/socket"
LISTENING = f"{TREE}{DATABASE}=\n{PROJECT}/agent=\n/home/ann/to-db -> {DATABASE}\n"


def granted(*sockets: str, **options: Any) -> NotifyPlan:
    plan = plan_of(alone(unix_sockets=grants(*sockets), **options), tree=LISTENING)
    assert plan.notify is not None
    return plan.notify


def test_a_granted_socket_is_a_file_that_is_decided_on_and_no_tree() -> None:
    plan = plan_of(alone(unix_sockets=grants("/home/ann/to-db"), workdir="write"), tree=LISTENING)
    assert plan.notify is not None and plan.landlock is not None
    assert [(each.path, each.dev) for each in plan.notify.sockets] == [(DATABASE, 1)] and plan.notify.sockets[0].ino
    assert DATABASE not in {rule.path for rule in plan.landlock.rules}
    assert dict(plan.notify.actions) == dict.fromkeys(("CONNECT", "BIND", "LISTEN"), "LIST")
    assert (plan.notify.on_host, plan.notify.keeps_ports, plan.notify.no_external_reach) == (True, True, False)
    assert set(plan.landlock.handled_net) == {"CONNECT_TCP", "BIND_TCP"}


def test_one_inside_a_writable_tree_is_granted_all_the_same() -> None:
    assert [each.path for each in granted(f"{PROJECT}/agent", workdir="write").sockets] == [f"{PROJECT}/agent"]


def test_a_denied_socket_is_none() -> None:
    assert granted(DATABASE, deny=grants(DATABASE)).sockets == ()


def test_ports_are_kept_unless_egress_is_direct() -> None:
    assert not granted(DATABASE, **DIRECT).keeps_ports


def test_without_a_grant_there_is_no_supervisor_and_a_full_cage_needs_none() -> None:
    assert plan_of(alone()).notify is None
    assert plan_of(Policy(unix_sockets=grants(DATABASE)), tree=LISTENING).notify is None


def test_what_decides_on_sockets_cannot_be_switched_off() -> None:
    with pytest.raises(SandboxCompileError, match="decided at run time"):
        granted(DATABASE, notifier=False)
    with pytest.raises(UnsupportedError):
        plan_of(alone(unix_sockets=grants(DATABASE)), replace(MODERN, user_notif=False), tree=LISTENING)


HOSTS_BY_NAME = [{"domain": "pypi.org"}]


def test_hosts_are_reached_through_doors_that_nobody_listens_at() -> None:
    plan = plan_of(alone(hosts=HOSTS_BY_NAME, egress="proxy-only"))
    assert plan.net is not None and plan.notify is not None and plan.landlock is not None
    assert {(door.kind, door.protocol, door.port) for door in plan.net.doors} == {
        ("http", "handed", 3128), ("socks", "handed", 1080),
    }  # fmt: skip
    assert (plan.net.routes, plan.net.redirect, plan.namespaces) == (b"", b"", ())
    assert dict(plan.env)["HTTPS_PROXY"] == "http://198.18.0.1:3128"
    assert dict(plan.notify.actions) == {"CONNECT": "LIST"} and plan.notify.doors
    assert set(plan.landlock.handled_net) == {"CONNECT_TCP", "BIND_TCP"}  # whatever the supervisor does not connect


def test_addresses_alone_need_no_door() -> None:
    plan = plan_of(alone(allow_ips=("192.0.2.7:443/tcp",)))
    assert plan.net is None and plan.notify is not None and not plan.notify.doors


@pytest.mark.parametrize("listed", ["198.18.0.1", "198.19.3.4:3128/tcp", "198.18.0.0/15"])
def test_the_addresses_of_doors_are_nobody_s_grant(listed: str) -> None:
    with pytest.raises(SandboxCompileError, match="stand for names"):
        plan_of(alone(hosts=HOSTS_BY_NAME, egress="proxy-only", allow_ips=(listed,)))


def test_hosts_need_a_supervisor_and_say_so() -> None:
    with pytest.raises(UnsupportedError, match="host needs calls to be decided"):
        plan_of(alone(hosts=HOSTS_BY_NAME, egress="proxy-only"), replace(MODERN, user_notif=False))


def test_a_command_keeps_its_caller_s_id_without_being_told_to() -> None:
    plan = plan_of(Policy(isolation="landlock"))
    assert (plan.inside_uid, plan.inside_gid) == (-1, -1)
    assert any("user id" in note for note in notes_of(plan, ISOLATION_GAP))
