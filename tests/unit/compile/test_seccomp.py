"""What the shipped filters and the custom ones refuse, claim by claim, in a simulated kernel."""

from __future__ import annotations

import struct
from itertools import product

import pytest

from pysandbox.compile import seccomp
from pysandbox.compile.bpf import RET, When
from pysandbox.compile.profiles import SHIPPED, arguments, names_of, profile, tiers
from pysandbox.compile.syscalls import MACHINES, is_name, table
from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.policy.model import Policy
from unit.compile.bpf_simulator import Machine

ALLOW, LOG, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x7FFC0000, 0x80000000, 0x00050001, 0x00050026
ARCH_I386, ARCH_ARM = 0x40000003, 0x40000028
UPPER = 0xDEADBEEF << 32  # what a program may leave in the upper half of an int

USES = [(name, mode) for name in SHIPPED for mode in profile(name).modes]
EVERYWHERE = [pytest.param(Policy(seccomp=name, seccomp_mode=mode), machine, id=f"{name} {mode} {machine}")
              for (name, mode), machine in product(USES, MACHINES)]  # fmt: skip
every_filter = pytest.mark.parametrize(("policy", "machine"), EVERYWHERE)


class Filter:
    """A compiled filter, asked by name."""

    def __init__(self, machine: str, policy: Policy, *, landlock_net: bool = True) -> None:
        self.machine = machine
        self.arch, self.numbers = table(machine)
        choice = seccomp.choose(policy, landlock_net=landlock_net)
        self.code = Machine(seccomp.build(choice, machine))

    def __call__(self, name: str, *values: int) -> int:
        return self.code.run(self.arch, self.numbers[name], values)

    def has(self, name: str) -> bool:
        return name in self.numbers


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def x86(**policy: object) -> Filter:
    return Filter("x86_64", Policy(**policy))  # type: ignore[arg-type]


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


STREAM, DGRAM, RAW, SEQPACKET, PACKET_TYPE = 1, 2, 3, 5, 10
UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK = 1, 2, 10, 16, 17, 38, 40
FLAGS = 0o4000 | 0o2000000  # SOCK_NONBLOCK, SOCK_CLOEXEC
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


# --- the profiles --------------------------------------------------------------------------------------------------


def test_seed_187_is_the_document_to_the_letter_in_number() -> None:
    described = seccomp.describe(Policy(seccomp="seed-187"))
    assert (len(described.allowed), len(described.denied)) == (187, 18)
    assert described.counts == "187 allowed, 18 denied"
    assert not set(described.allowed) & set(described.denied)
    assert described.denied == names(
        """reboot kexec_load init_module finit_module delete_module swapon swapoff acct mount umount2 pivot_root chroot
        syslog settimeofday unshare setns memfd_create execveat"""
    )


def test_the_baseline_is_a_superset_of_the_seed() -> None:
    seed, baseline = (seccomp.describe(Policy(seccomp=name)) for name in ("seed-187", "baseline"))
    assert set(seed.allowed) < set(baseline.allowed)
    assert seed.denied == baseline.denied
    for name in names("utimensat statfs fstatfs getxattr timer_create membarrier recvmmsg restart_syscall"):
        assert name in baseline.allowed and name not in seed.allowed


@pytest.mark.parametrize("machine", MACHINES)
def test_an_allow_list_refuses_what_it_does_not_list(machine: str) -> None:
    for name in ("baseline", "seed-187"):
        asked, described = Filter(machine, Policy(seccomp=name)), seccomp.describe(Policy(seccomp=name))
        for call in asked.numbers.keys() - set(described.allowed):
            assert asked(call) == EPERM, call


def test_a_deny_list_refuses_the_denied_and_the_tiers_and_allows_the_rest() -> None:
    policy = Policy(seccomp="seed-187", seccomp_mode="deny-list", deny_syscalls=("fsync",))
    asked, described = Filter("x86_64", policy), seccomp.describe(policy)
    closed = {*described.denied, *described.never, *described.off, *described.absent, "socketpair", "socket"}
    assert {asked(name) for name in described.denied if asked.has(name)} == {EPERM}
    assert {name for name in asked.numbers if asked(name) != ALLOW} == closed & asked.numbers.keys()
    assert "fsync" in described.denied and asked("personality", 0x0400000) == ALLOW


def test_default_refuses_its_list_and_kills_for_ports_and_clocks() -> None:
    asked = x86(seccomp="default")
    refused = """ptrace kexec_load kexec_file_load init_module finit_module delete_module keyctl request_key add_key
        mount umount2 pivot_root swapon swapoff reboot nfsservctl vmsplice migrate_pages move_pages userfaultfd bpf
        perf_event_open setns io_uring_setup io_uring_enter io_uring_register process_vm_writev"""
    assert {name: asked(name) for name in names(refused)} == dict.fromkeys(names(refused), EPERM)
    assert {asked(name) for name in ("iopl", "ioperm", "clock_settime", "settimeofday")} == {KILL}
    for name in ("unshare", "memfd_create", "execveat", "modify_ldt", "fanotify_init", "personality"):
        assert asked(name) == ALLOW, name
    assert Filter("aarch64", Policy(seccomp="default"))("clock_settime") == KILL


def test_relaxed_opens_debuggers_and_profilers_and_keeps_rings_closed() -> None:
    asked = x86(seccomp="relaxed")
    for name in names("ptrace process_vm_readv perf_event_open bpf userfaultfd memfd_create execveat vmsplice kcmp"):
        assert asked(name) == ALLOW, name
    for name in names("reboot kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff"):
        assert asked(name) == EPERM, name
    assert {asked(name) for name in names_of(tiers.OFF[:1])} == {EPERM}


def test_a_fixed_profile_says_that_it_keeps_its_mode() -> None:
    described = seccomp.describe(Policy(seccomp="relaxed"))
    assert described.mode == "deny-list" and described.remarks == ("profile relaxed is always a deny-list",)
    assert described.counts.startswith("the rest allowed")


def test_baseline_reads_the_personality_and_sets_only_the_plain_one() -> None:
    asked, extra = x86(), x86(allow_syscalls=("personality",))
    assert {asked("personality", value) for value in (0xFFFFFFFF, 0, UPPER | 0xFFFFFFFF)} == {ALLOW}
    assert {asked("personality", value) for value in (0x0400000, 0x0040000, 8)} == {EPERM}
    assert extra("personality", 0x0040000) == ALLOW


# --- extras, strict, monitor ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names_of(tiers.OFF))
@pytest.mark.parametrize("base", ["baseline", "seed-187"])
def test_a_call_that_is_off_is_opened_by_its_name(name: str, base: str) -> None:
    for mode in ("allow-list", "deny-list"):
        assert x86(seccomp=base, seccomp_mode=mode)(name) == EPERM
        assert x86(seccomp=base, seccomp_mode=mode, allow_syscalls=(name,))(name) == ALLOW


def test_deny_wins_over_allow_over_the_list_and_over_a_rule() -> None:
    asked = x86(allow_syscalls=("ptrace",), deny_syscalls=("ptrace", "read", "ioctl", "clone3"))
    assert asked("ptrace") == asked("read") == asked("ioctl", 0, 0) == EPERM
    assert asked("clone3") == ENOSYS  # anything else stops libc from starting threads at all
    described = seccomp.describe(Policy(allow_syscalls=("ptrace",), deny_syscalls=("ptrace", "read")))
    assert not {"read", "ptrace"} & set(described.allowed) and {"read", "ptrace"} <= set(described.denied)


def test_an_opened_call_is_described_as_allowed_and_no_longer_as_closed() -> None:
    described = seccomp.describe(Policy(seccomp="seed-187", allow_syscalls=("memfd_create", "read", "io_uring_setup")))
    assert described.counts == "189 allowed, 17 denied"
    assert "memfd_create" not in (*described.denied, *described.off)
    assert "io_uring submits calls that no filter sees" in described.remarks[0]


def test_an_extra_does_not_lift_a_rule_on_arguments() -> None:
    asked = x86(allow_syscalls=("socket", "ioctl", "chmod", "clone", "seccomp"))
    assert asked("socket", VSOCK, STREAM, 0) == asked("ioctl", 0, 0x5412) == asked("chmod", 0, 0o4755) == EPERM
    assert asked("clone", 0x10000000) == asked("seccomp", 1, 8) == EPERM
    assert asked("clone3") == asked("openat2") == ENOSYS


@pytest.mark.parametrize("profile", ["baseline", "seed-187", "default", "relaxed"])
@pytest.mark.parametrize("name", ["clone3", "openat2"])
def test_an_extra_that_would_do_nothing_is_an_error(name: str, profile: str) -> None:
    for attempt in (lambda p: seccomp.compile_filter(p, "x86_64"), seccomp.describe):
        with pytest.raises(PolicyError, match=f"{name!r} is answered as by a kernel without it") as caught:
            attempt(Policy(seccomp=profile, allow_syscalls=("ptrace", name)))  # type: ignore[arg-type]
        assert caught.value.key == "syscalls.allow_extra"


@pytest.mark.parametrize(
    ("name", "meant"), [("opennat", "openat"), ("io_uring_set", "io_uring_setup"), ("p_trace", "ptrace")]
)
def test_a_misspelled_name_is_an_error_that_names_the_right_one(name: str, meant: str) -> None:
    for field, key in (("allow_syscalls", "syscalls.allow_extra"), ("deny_syscalls", "syscalls.deny_extra")):
        with pytest.raises(PolicyError, match=f"{name!r} is not a system call") as caught:
            seccomp.compile_filter(Policy(**{field: (name,)}), "x86_64")  # type: ignore[arg-type]
        assert caught.value.key == key and caught.value.suggestion == f'did you mean "{meant}"?'


def test_a_name_near_to_nothing_is_an_error_all_the_same() -> None:
    with pytest.raises(PolicyError, match="is not a system call"):
        seccomp.compile_filter(Policy(deny_syscalls=("xyzzy_plugh_quux",)), "aarch64")


def test_a_name_of_another_machine_is_accepted_and_changes_nothing() -> None:
    plain = seccomp.build(seccomp.choose(Policy()), "aarch64")
    extras = ("open", "arch_prctl", "clock_gettime64", "socketcall")
    assert seccomp.compile_filter(Policy(allow_syscalls=extras), "aarch64") == plain


def test_strict_kills_where_normal_refuses_and_only_there() -> None:
    for (name, mode), machine in product(USES, MACHINES):
        plain, strict = (
            Filter(machine, Policy(seccomp=name, seccomp_mode=mode, strict=each)) for each in (False, True)
        )
        for call in plain.numbers:
            assert strict(call) == (KILL if plain(call) == EPERM else plain(call)), call
        assert strict("ioctl", 0, 0x5412) == strict("clone", 0x10000000) == strict("socket", VSOCK, 1, 0) == KILL
        assert strict("socket", INET, STREAM, 262) == EPERM  # Go asks for MPTCP by itself
        assert strict("clone3") == strict("openat2") == ENOSYS


def test_a_resolver_is_not_killed_for_its_udp_socket_in_landlock_mode() -> None:
    assert x86(isolation="landlock", strict=True)("socket", INET, DGRAM | FLAGS, 0) == EPERM


def test_monitor_logs_refusals_and_still_refuses_what_is_never_allowed() -> None:
    asked = Filter("x86_64", Policy(monitor=True))
    assert asked("ptrace") == asked("modify_ldt") == asked("personality", 8) == LOG
    assert asked("mount") == asked("clone", 0x10000000) == asked("socket", VSOCK, STREAM, 0) == EPERM
    assert asked.code.run(ARCH_I386, 20) == KILL


@every_filter
def test_normal_and_strict_are_one_program_but_for_the_words_it_returns_and_both_of_monitor_are(
    policy: Policy, machine: str
) -> None:
    shapes: dict[bool, set[object]] = {True: set(), False: set()}
    for denial in seccomp.DENIALS:
        program = seccomp.build(seccomp.choose(policy)._replace(denial=denial), machine)
        rows = struct.iter_unpack("<HBBI", program)
        shapes[denial in seccomp.MONITORS].add(
            tuple((code, yes, no, code != RET and value) for code, yes, no, value in rows)
        )
    assert [len(each) for each in shapes.values()] == [1, 1]


# --- size, data, shipping ------------------------------------------------------------------------------------------


@every_filter
def test_programs_are_short_and_their_paths_shorter(policy: Policy, machine: str) -> None:
    asked = Filter(machine, policy)
    steps = [asked.code.trace(asked.arch, number)[1] for number in range(470)]
    assert len(asked.code.code) <= 200
    assert max(steps) <= 18 and sum(steps) / len(steps) <= 11


@every_filter
def test_the_kernel_can_cache_what_no_argument_decides(policy: Policy, machine: str) -> None:
    """Before an argument is loaded, only instructions that its install-time emulator knows."""
    known = {0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06}
    assert {code for code, *_ in Filter(machine, policy).code.code} <= known


def test_every_name_in_the_data_is_a_system_call_of_some_machine() -> None:
    groups = [*tiers.NEVER, *tiers.OFF]
    for name in SHIPPED:
        shipped = profile(name)
        groups += [*shipped.allow, *shipped.deny, *shipped.kill, *shipped.opens]
    assert [name for name in (*names_of(groups), *arguments.RULES) if not is_name(name)] == []
    assert all(group.reason and group.names for group in groups)


def test_the_two_places_that_say_which_modes_a_profile_has_agree() -> None:
    assert {name for name in SHIPPED if profile(name).modes == ("allow-list", "deny-list")} == set(seccomp.TWO_MODES)
    assert {profile(name).modes for name in SHIPPED if name not in seccomp.TWO_MODES} == {("deny-list",)}
    assert {profile(name).name for name in SHIPPED} == set(SHIPPED)


def test_no_profile_lists_a_name_twice_or_a_never_allowed_one() -> None:
    for name in SHIPPED:
        listed = [each for group in profile(name).allow for each in group.names]
        assert len(listed) == len(set(listed))
        assert not set(listed) & set(names_of(tiers.NEVER))
    assert not set(names_of(tiers.NEVER)) & set(names_of(tiers.OFF))


def test_an_unknown_machine_is_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="riscv64") as caught:
        seccomp.compile_filter(Policy(), "riscv64")
    assert caught.value.feature == "seccomp_filter"


def test_filters_are_equal_for_equal_policies_and_extras_in_any_order() -> None:
    one = seccomp.compile_filter(Policy(allow_syscalls=("ptrace", "kcmp")), "x86_64")
    assert seccomp.compile_filter(Policy(allow_syscalls=("kcmp", "ptrace"), max_pids=3), "x86_64") is one
