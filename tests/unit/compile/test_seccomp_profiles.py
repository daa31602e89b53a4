"""The profiles that are shipped, what is added to them and taken from them by name, and their data and size."""

from __future__ import annotations

import struct
from itertools import product

import pytest

from pysandbox.compile import seccomp
from pysandbox.compile.bpf import RET
from pysandbox.compile.profiles import SHIPPED, arguments, names_of, profile, tiers
from pysandbox.compile.syscalls import MACHINES, is_name
from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.policy.model import Policy
from unit.compile.filters_by_name import (
    ALLOW,
    ARCH_I386,
    DGRAM,
    ENOSYS,
    EPERM,
    FLAGS,
    INET,
    KILL,
    LOG,
    STREAM,
    UPPER,
    USES,
    VSOCK,
    Filter,
    every_filter,
    names,
    x86,
)

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
