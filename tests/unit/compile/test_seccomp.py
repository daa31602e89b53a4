"""What the shipped filters and the custom ones refuse, claim by claim, in a simulated kernel."""

from __future__ import annotations

from itertools import product

import pytest

from pysandbox.compile import seccomp
from pysandbox.compile.bpf import When
from pysandbox.compile.profiles import SHIPPED, arguments, names_of, profile, tiers
from pysandbox.compile.syscalls import MACHINES, table
from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy
from unit.compile.bpf_simulator import Machine
from unit.compile.filters_by_name import (
    ALG,
    ALLOW,
    ARCH_ARM,
    ARCH_I386,
    DGRAM,
    ENOSYS,
    EPERM,
    FLAGS,
    INET,
    INET6,
    KILL,
    LOG,
    NETLINK,
    PACKET,
    PACKET_TYPE,
    RAW,
    SEQPACKET,
    STREAM,
    UNIX,
    UPPER,
    USES,
    VSOCK,
    Filter,
    every_filter,
    names,
    x86,
)

# --- the machine word and the number -------------------------------------------------------------------------------


@every_filter
def test_calls_of_another_architecture_are_killed(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    others = {ARCH_I386, ARCH_ARM, *(table(each).audit_arch for each in MACHINES)} - {asked.arch}
    assert {asked.code.run(arch, number) for arch in others for number in (0, 20, 400)} == {KILL}


@pytest.mark.parametrize(("name", "mode"), USES)
def test_x32_calls_are_killed_from_the_first_to_the_last(name: str, mode: str) -> None:
    asked = x86(seccomp=name, seccomp_mode=mode)
    numbers = [0x40000000, 0x40000001, 0x400001FF, 0x40000203, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE]
    assert {asked.code.run(asked.arch, number) for number in numbers} == {KILL}
    assert asked.code.run(asked.arch, 0x3FFFFFFF) == ENOSYS
    assert asked.code.run(asked.arch, -1) == ENOSYS  # how a tracer skips a call


@every_filter
def test_a_number_no_table_knows_is_answered_as_by_an_older_kernel(policy: Policy, machine: str) -> None:
    for strict in (False, True):
        asked = Filter(machine, Policy(seccomp=policy.seccomp, seccomp_mode=policy.seccomp_mode, strict=strict))
        unknown = set(range(1001)) - set(asked.numbers.values())
        assert {asked.code.run(asked.arch, number) for number in unknown} == {ENOSYS}


@every_filter
def test_every_number_gets_the_verdict_of_its_name(policy: Policy, machine: str) -> None:
    asked, choice = Filter(machine, policy), seccomp.choose(policy)
    words = seccomp.words(choice.denial)
    for name, decision in seccomp.decide(choice, machine).items():
        if not isinstance(decision, When):
            assert asked(name, *[UPPER | 0xFFFFFFFF] * 6) == words[decision], name


# --- what no profile opens -----------------------------------------------------------------------------------------


@every_filter
def test_the_tier_never_holds_and_no_extra_lifts_it(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    killed, opened = names_of(profile(policy.seccomp).kill), names_of(profile(policy.seccomp).opens)
    for name in names_of(tiers.NEVER):
        if asked.has(name) and name not in opened:
            assert asked(name) == (KILL if name in killed else EPERM), name


CLOSED = """setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
    mount_setattr kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct syslog
    add_key request_key keyctl open_by_handle_at io_uring_setup io_uring_enter io_uring_register statmount listmount"""
CLOSED_UNLESS_RELAXED = """ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp userfaultfd bpf perf_event_open
    vmsplice migrate_pages move_pages"""


@every_filter
def test_these_calls_are_closed_by_name(policy: Policy, machine: str) -> None:
    """The tiers once more, spelled out: a name lost from the data is noticed here."""
    asked = Filter(machine, policy)
    assert {name: asked(name) for name in names(CLOSED)} == dict.fromkeys(names(CLOSED), EPERM)
    answer = ALLOW if policy.seccomp == "relaxed" else EPERM
    more = names(CLOSED_UNLESS_RELAXED)
    assert {name: asked(name) for name in more} == dict.fromkeys(more, answer)


def test_a_profile_opens_a_call_of_the_tier_never_only_under_a_rule() -> None:
    for name in SHIPPED:
        opened = set(names_of(profile(name).opens)) & set(names_of(tiers.NEVER))
        assert opened <= arguments.RULES.keys()


@pytest.mark.parametrize("name", [each for each in names_of(tiers.NEVER) if each != "unshare"])
def test_naming_a_never_allowed_call_is_an_error(name: str) -> None:
    with pytest.raises(PolicyError, match=f"'{name}' is never allowed") as caught:
        seccomp.compile_filter(Policy(seccomp="default", allow_syscalls=(name,)), "x86_64")
    assert caught.value.key == "syscalls.allow_extra"


@every_filter
def test_no_namespace_is_made(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        for flags in (bit, bit | 17, UPPER | bit, bit | 0x100):
            assert asked("clone", flags) == asked("unshare", flags) == EPERM
    assert asked("unshare", 0x80) == EPERM  # CLONE_NEWTIME
    assert asked("clone", 0x3D0F00) == asked("clone", 0x1200011) == ALLOW  # pthread_create, fork
    assert asked("clone3", 0, 88) == ENOSYS


@every_filter
def test_terminals_take_no_injected_input(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    for command in (0x5412, 0x541C):
        assert asked("ioctl", 0, command) == asked("ioctl", 0, UPPER | command) == EPERM
    for harmless in (0x5411, 0x5413, 0x541B, 0x541D, 0x5401, 0x80045412, 0):
        assert asked("ioctl", 0x5412, harmless, 0x5412) == ALLOW


MODE_AT = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
OPEN_AT = {"open": (1, 2), "openat": (2, 3)}


def at(**places: int) -> list[int]:
    values = [UPPER | 0xFFFFFFFF] * 6  # everything else set: no rule may look at it
    for place, value in places.items():
        values[int(place[1:])] = value
    return values


@every_filter
def test_no_file_gets_a_set_id_bit(policy: Policy, machine: str) -> None:
    asked, denied = Filter(machine, policy), EPERM
    for name, place in MODE_AT.items():
        if asked.has(name) and asked(name, *at(**{f"_{place}": 0o644})) != EPERM:
            for mode in (0o4755, 0o2755, 0o6000, 0o4000 | UPPER, 0o2000 | 0xFFFF0000):
                assert asked(name, *at(**{f"_{place}": mode})) == denied, name
            for mode in (0o755, 0o1777, UPPER | 0o644, 0o100644):
                assert asked(name, *at(**{f"_{place}": mode})) == ALLOW, name
    for name, (flags_at, mode_at) in OPEN_AT.items():
        if asked.has(name):
            for flags, mode in product((0o100, 0o101, 0o20200000, UPPER | 0o100), (0o4755, 0o2755, UPPER | 0o6000)):
                assert asked(name, *at(**{f"_{flags_at}": flags, f"_{mode_at}": mode})) == denied
                assert asked(name, *at(**{f"_{flags_at}": flags, f"_{mode_at}": mode & 0o1777})) == ALLOW
                assert asked(name, *at(**{f"_{flags_at}": flags & ~0o20000100, f"_{mode_at}": mode})) == ALLOW
    assert asked("openat2", 0, 0, 0, 24) == ENOSYS


@every_filter
def test_no_connection_is_made_by_a_send(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    for name, place in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        for flags in (0x20000000, 0x20004000, UPPER | 0x20000000, 0xFFFFFFFF):
            assert asked(name, *at(**{f"_{place}": flags})) == EPERM
        assert asked(name, *at(**{f"_{place}": 0x4040})) == asked(name, *at(**{f"_{place}": UPPER})) == ALLOW


OPEN_SOCKETS = [
    (UNIX, STREAM, 0), (UNIX, DGRAM, 0), (UNIX, SEQPACKET, 0), (INET, STREAM, 0), (INET, STREAM, 6), (INET6, STREAM, 6),
    (INET, DGRAM, 0), (INET, DGRAM, 17), (INET6, DGRAM, 17), (NETLINK, RAW, 0), (NETLINK, DGRAM, 0),
]  # fmt: skip
CLOSED_SOCKETS = [
    (INET, RAW, 1), (INET6, RAW, 58), (INET, RAW, 255), (INET, PACKET_TYPE, 3), (PACKET, RAW, 3), (PACKET, DGRAM, 3),
    (INET, STREAM, 262), (INET6, STREAM, 262), (INET, STREAM, 132), (INET, SEQPACKET, 132), (INET, DGRAM, 1),
    (INET6, DGRAM, 58), (INET, DGRAM, 136), (INET, 6, 33), (VSOCK, STREAM, 0), (ALG, SEQPACKET, 0), (NETLINK, RAW, 9),
    (NETLINK, RAW, 15), (NETLINK, DGRAM, 4), (UNIX, RAW, 0), (0, STREAM, 0), (INET, 0, 0), (INET, STREAM, 17),
]  # fmt: skip


@every_filter
def test_sockets_lead_to_the_local_machine_and_by_tcp_and_udp_only(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    for (domain, kind, protocol), flags, upper in product(OPEN_SOCKETS, (0, FLAGS), (0, UPPER)):
        assert asked("socket", upper | domain, upper | kind | flags, upper | protocol) == ALLOW, (domain, kind)
    for (domain, kind, protocol), flags, upper in product(CLOSED_SOCKETS, (0, FLAGS), (0, UPPER)):
        answer = asked("socket", upper | domain, upper | kind | flags, upper | protocol)
        assert answer == EPERM, (domain, kind, protocol)
    assert asked("socketpair", UPPER | UNIX, STREAM) == ALLOW
    assert {asked("socketpair", domain, STREAM) for domain in (0, INET, NETLINK, 30, UPPER | INET)} == {EPERM}


@pytest.mark.parametrize("machine", MACHINES)
def test_landlock_mode_opens_tcp_where_landlock_sees_it_and_nothing_where_not(machine: str) -> None:
    policy = Policy(isolation="landlock")
    seen, unseen = (Filter(machine, policy, landlock_net=known) for known in (True, False))
    for domain in (INET, INET6):
        assert seen("socket", domain, STREAM, 0) == ALLOW
        assert seen("socket", domain, DGRAM, 0) == seen("socket", domain, DGRAM, 17) == EPERM
        assert {unseen("socket", domain, kind, 0) for kind in (STREAM, DGRAM, RAW)} == {EPERM}
    for asked in (seen, unseen):
        assert asked("socket", NETLINK, RAW, 0) == ALLOW
        assert asked("socket", INET, STREAM, 262) == asked("socket", VSOCK, STREAM, 0) == EPERM
        assert asked("listen", 3, 5) == EPERM
    direct = Filter(machine, Policy(isolation="landlock", egress="direct", unsafe_direct=True), landlock_net=False)
    assert direct("socket", INET, DGRAM, 0) == ALLOW and direct("socket", VSOCK, STREAM, 0) == EPERM
    assert direct("listen", 3, 5) == ALLOW


@pytest.mark.parametrize("row", sorted(arguments.ON_THE_HOST))
@pytest.mark.parametrize("machine", MACHINES)
def test_a_granted_unix_socket_opens_streams_and_hands_over_where_they_lead(machine: str, row: str) -> None:
    heard = frozenset(("connect", "bind", "listen"))
    choice = seccomp.choose(Policy(isolation="landlock"))._replace(sockets=row, unix=True, notify=heard)
    arch, numbers = table(machine)
    code = Machine(seccomp.build(choice, machine))

    def asked(name: str, *values: int) -> int:
        return code.run(arch, numbers[name], values)

    assert {asked("socket", UNIX, STREAM | flags, 0) for flags in (0, FLAGS)} == {ALLOW}
    assert {asked("socket", UNIX, kind | FLAGS, 0) for kind in (0, DGRAM, RAW, SEQPACKET, PACKET_TYPE)} == {EPERM}
    assert asked("socketpair", UNIX, DGRAM) == EPERM
    assert asked("connect", 3) == asked("bind", 3) == seccomp.RET_USER_NOTIF
    assert asked("listen", 3, 5) == (seccomp.RET_USER_NOTIF if row == "shared" else EPERM)
    assert asked("getsockopt", 3, 1, 77) == asked("setsockopt", 3, 1, 76) == EPERM
    assert asked("io_uring_setup", 8) != ALLOW


@pytest.mark.parametrize("machine", MACHINES)
def test_landlock_mode_changes_nothing_of_a_file_by_an_ioctl(machine: str) -> None:
    alone, full = Filter(machine, Policy(isolation="landlock")), Filter(machine, Policy())
    changes = (0x40086602, 0x40046602, 0x401C5820, 0x40806685, 0x800C6613, 0x5000940E, 0x50009401, 0x5000940F)
    asks = (0x80086601, 0xC020660B, 0x801C581F, 0x40049409, 0x4020940D, 0xC0189436, 0x5401, 0x8910, 0x541B)
    for upper in (0, UPPER):
        assert {alone("ioctl", 3, upper | each) for each in changes} == {seccomp.RET_ERRNO | seccomp.EOPNOTSUPP}
        assert {alone("ioctl", 3, upper | each) for each in asks} == {ALLOW}
        assert {full("ioctl", 3, upper | each) for each in (*changes, *asks)} == {ALLOW}
        assert {alone("ioctl", 3, upper | each) for each in (0x5412, 0x541C)} == {EPERM}


WITHOUT_NAMESPACES = [
    pytest.param({"isolation": "landlock", **egress}, profile, id=f"{profile} {' '.join(map(str, egress))}")
    for egress in ({}, {"egress": "direct", "unsafe_direct": True}) for profile in SHIPPED
]  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("monitor", [False, True])
@pytest.mark.parametrize(("options", "profile"), WITHOUT_NAMESPACES)
def test_without_namespaces_nothing_of_the_host_is_had_by_its_name(
    options: dict[str, object], profile: str, monitor: bool, machine: str
) -> None:
    asked = Filter(machine, Policy(**options, seccomp=profile, monitor=monitor))  # type: ignore[arg-type]
    refused = (LOG, EPERM) if profile == "seed-187" and monitor else (EPERM,)  # what is not on its list is only told
    for kind, flags in product((STREAM, DGRAM, SEQPACKET, RAW), (0, FLAGS)):
        assert asked("socket", UNIX, kind | flags, 0) == EPERM
        opened = asked("socketpair", UNIX, kind | flags, 0)
        assert opened == (ALLOW if kind in (STREAM, SEQPACKET) else EPERM), kind
    for name in arguments.CLOSED_ON_THE_HOST:
        assert not asked.has(name) or asked(name) in (*refused, ENOSYS), name
    for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        assert asked(name, 77) in refused and asked(name, UPPER | 77) in refused
        assert asked(name, UPPER) in (ALLOW, *refused)
    for which, who in ((0, 77), (1, 77), (2, 0), (2, 77), (UPPER | 2, 0)):
        assert asked("setpriority", which, who) in refused, (which, who)
    for which, who in ((1, 77), (2, 77), (3, 0), (UPPER | 3, 0)):
        assert asked("ioprio_set", which, who) in refused, (which, who)


def test_without_namespaces_a_closed_call_is_opened_by_name() -> None:
    asked = x86(isolation="landlock", allow_syscalls=("shmget", "inotify_add_watch"))
    assert asked("shmget") == asked("inotify_add_watch") == ALLOW and asked("semget") == ENOSYS
    full = x86()
    assert full("shmget") == full("setpriority", 0, 77) == full("listen") == full("lchown") == ALLOW


@every_filter
def test_a_filter_may_be_added_but_no_listener_taken(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    listed = policy.seccomp != "seed-187" or policy.seccomp_mode == "deny-list"
    assert asked("seccomp", 1, 0) == asked("seccomp", 1, 1) == (ALLOW if listed else EPERM)
    assert asked("seccomp", 1, 8) == asked("seccomp", 1, UPPER | 9) == EPERM
    assert asked("prctl", 22, 2) == ALLOW  # PR_SET_SECCOMP takes no flags
