"""From the [syscalls] part of a Policy to a seccomp program, and to words about it.

`compile_filter` is pure and is the only way to a filter. The shipped profiles were compiled when the package was
built (tools/compile_profiles.py): whoever has them at hand passes them in. The rest is compiled on first use, by the
same code and to the same bytes.
What each profile lists is data in `compile.profiles`; how a program is laid out is `compile.bpf`.

A name is decided in this order, the first that applies: killed by the profile; answered as absent; tier NEVER;
deny_extra; not open in this profile and mode (the tier OFF, the lists); its rule on arguments, or plain ALLOW.
"""

from __future__ import annotations

from functools import lru_cache

from pysandbox.compile.watched import denial_of
from pysandbox.errors import PolicyError
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pysandbox.compile.bpf import CallAction, Decision, Weight
    from pysandbox.compile.plan import NotifyPlan
    from pysandbox.compile.profiles import Profile
    from pysandbox.policy.model import Policy

# <linux/seccomp.h>, errno(3)
RET_KILL_PROCESS, RET_ERRNO, RET_USER_NOTIF, RET_LOG, RET_ALLOW = (
    0x80000000, 0x00050000, 0x7FC00000, 0x7FFC0000, 0x7FFF0000,
)  # fmt: skip
EPERM, ENOSYS, EOPNOTSUPP = 1, 38, 95

# What a refusal is: normal, strict, and monitor with a supervisor or without. The program differs in these words only.
# "told" is a supervisor who answers with the errno that "known" holds, and lets nothing pass.
DENIALS = {
    "errno": RET_ERRNO | EPERM, "kill": RET_KILL_PROCESS, "notify": RET_USER_NOTIF, "log": RET_LOG,
    "told": RET_USER_NOTIF, "known": RET_LOG | EPERM,
}  # fmt: skip
HANDS_OVER = {"notify": "log", "told": "known"}  # and the filter by which the supervisor judges

MONITORS = ("notify", "log")

# The filter that was made when the package was built, by its name (`probe.prebuilt`); None: there is none.
Prebuilt: TypeAlias = "Callable[[str], bytes | None]"

# What a lookup asks of shipped profiles stands here too, so that it loads none of them.
TWO_MODES = ("baseline", "seed-187")  # the others are deny-lists
MEMORY_FILES = {"baseline": False, "seed-187": False, "default": True, "relaxed": True}  # is memfd_create open?

OF_ADDRESSES = frozenset(("bind", "connect", "listen", "sendmmsg", "sendmsg", "sendto"))  # whom a list of them asks
SYSV_MEMORY = frozenset(("shmget", "semget", "msgget"))  # closed by a watchdog of memory; such filters are shipped

X32_BIT = 0x40000000  # x32 shares AUDIT_ARCH_X86_64 and numbers its calls from here
# Ways to write another process's memory, closed where the arguments of an execve are decided (with Landlock's /proc).
EXEC_GUARD = frozenset({"process_vm_writev", "ptrace"})
NO_CALL = 0xFFFFFFFF  # -1: a tracer's way to skip a call; the kernel answers ENOSYS by itself
LAST_CACHED = 512  # the kernel runs the program at install for every number it has, fewer than these

# These run the program at every call because an argument decides; their paths count more than those of one install.
OFTEN = {"openat": 40, "ioctl": 40, "open": 20, "sendto": 20, "sendmsg": 20, "clone": 10, "socket": 5}


class Choice(NamedTuple):
    """Everything of a policy that a filter depends on."""

    profile: str
    mode: str
    sockets: str  # a row of profiles.arguments.SOCKETS
    denial: str  # a row of DENIALS
    allow: frozenset[str]
    deny: frozenset[str]
    notify: frozenset[str] = frozenset()  # what is allowed goes to the supervisor first
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a baseline of the user's, in place of the profile's lists
    leads_out: bool = False  # sockets of the host's network may be in the cage
    unix: bool = False  # without namespaces, and some unix sockets of the host may be connected to
    unsupported: frozenset[str] = frozenset()  # as on a file system that cannot do it
    init: frozenset[str] = frozenset()  # left open for cage-init; `build_late` closes them again

    def file(self, machine: str) -> str:
        """What a shipped filter, one without extras but SYSV_MEMORY and a list of addresses, is called."""
        closed = ".no-sysv" if self.deny else ""
        listed = ".addresses" if self.notify else ""
        return f"{machine}.{self.profile}.{self.mode}.{self.sockets}.{self.denial}{listed}{closed}.bpf"


class Description(NamedTuple):
    """What `recipe list` and `explain` say. `allowed` and `denied` are the profile's lists with the extras applied;
    `never` and `off` are closed beside them, `limited` is open as far as its arguments allow, `absent` answers ENOSYS.
    """

    profile: str
    mode: str
    summary: str
    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    never: tuple[str, ...]
    off: tuple[str, ...]
    limited: tuple[str, ...]
    absent: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def counts(self) -> str:
        allowed = f"{len(self.allowed)} allowed" if self.mode == "allow-list" else "the rest allowed"
        return f"{allowed}, {len(self.denied)} denied"


def none_prebuilt(name: str) -> None:
    """What a tree that was not built has."""


def compile_filter(
    policy: Policy,
    machine: str,
    notify: NotifyPlan | None = None,
    *,
    landlock_net: bool = True,
    prebuilt: Prebuilt = none_prebuilt,
) -> bytes:
    """`struct sock_filter[]` for this policy.

    `notify`: the calls that the supervisor hears of. `landlock_net`: Landlock rules on TCP will be in force (ABI 4), so
    that without a network namespace TCP sockets may be made. In monitor mode a refusal is told to the supervisor, or
    logged where there is none, and the call allowed; but for the tier NEVER, which stays refused.
    """
    choice = choose(policy, notify, landlock_net=landlock_net)
    return shipped(choice, machine, prebuilt) or build(choice, machine)


def shipped(choice: Choice, machine: str, prebuilt: Prebuilt) -> bytes | None:
    """The filter that was made when the package was built; those that cage-init can live under are."""
    denied = choice.deny and choice.deny != SYSV_MEMORY
    watched = choice.notify and not (choice.leads_out and choice.notify == OF_ADDRESSES)
    extras = choice.allow or denied or watched or choice.lists or choice.unsupported or choice.unix
    return None if extras else prebuilt(choice.file(machine))


def makes_memory_files(choice: Choice, machine: str) -> bool:
    """Whether memfd_create is open."""
    extras = choice.allow or choice.deny or choice.lists
    if not extras and choice.profile in MEMORY_FILES:
        return MEMORY_FILES[choice.profile]
    from pysandbox.compile.bpf import CallAction

    return decide(choice, machine)["memfd_create"] is CallAction.ALLOW


def choose(policy: Policy, notify: NotifyPlan | None = None, *, landlock_net: bool = True) -> Choice:
    denial = denial_of(policy) if notify else "kill" if policy.strict else "errno"
    if policy.monitor:
        denial = "notify" if notify else "log"
    mode = policy.seccomp_mode if policy.seccomp in TWO_MODES or policy.syscall_lists else "deny-list"
    extras = frozenset(policy.allow_syscalls), frozenset(policy.deny_syscalls)
    sockets, unsupported = _sockets(policy, landlock_net), _uncounted(policy)
    if notify is None:
        return Choice(
            policy.seccomp, mode, sockets, denial, *extras, lists=policy.syscall_lists, unsupported=unsupported
        )
    allow, deny = extras
    if dict(notify.actions).get("EXEC") == "ASK":
        deny |= EXEC_GUARD
    calls = frozenset(notify.calls)
    return Choice(policy.seccomp, mode, sockets, denial, allow, deny, calls, policy.syscall_lists, notify.leads_out,
                  bool(notify.sockets), unsupported)  # fmt: skip


def _uncounted(policy: Policy) -> frozenset[str]:
    """Space that is taken without writing is in no counter of bytes written."""
    return frozenset(("fallocate", "io_uring_setup") if policy.write_mb is not None else ())


def _sockets(policy: Policy, landlock_net: bool) -> str:
    if policy.isolation == "full":
        return "echo" if policy.network_backend == "routed" else "inet"
    if policy.egress == "direct":
        return "shared"
    return "tcp" if landlock_net else "local"


@lru_cache(maxsize=64)
def build(choice: Choice, machine: str) -> bytes:
    """Compiles a filter from the data, extras and all."""
    from pysandbox.compile import bpf
    from pysandbox.compile.syscalls import table

    numbers = table(machine).numbers
    decisions = {numbers[name]: decision for name, decision in decide(choice, machine).items()}
    beyond = [bpf.Range(max(numbers.values()) + 1, bpf.CallAction.ABSENT)]
    if machine == "x86_64":
        beyond += [bpf.Range(X32_BIT, bpf.CallAction.KILL), bpf.Range(NO_CALL, bpf.CallAction.ABSENT)]
    rows = bpf.ranges(decisions, bpf.CallAction.ABSENT, beyond)
    return bpf.assemble(table(machine).audit_arch, rows, words(choice.denial), _weight(machine))


def build_late(choice: Choice, calls: frozenset[str], machine: str) -> bytes:
    """What `choice` says about these calls, and nothing about any other. A second filter has no listener: under
    monitor a refusal goes to the kernel's log."""
    from pysandbox.compile import bpf
    from pysandbox.compile.syscalls import table

    known = table(machine)
    decisions = decide(choice, machine)
    denial = {"notify": "log", "told": "errno"}.get(choice.denial, choice.denial)
    rows = bpf.ranges({known.numbers[name]: decisions[name] for name in calls}, bpf.CallAction.ALLOW, [])
    return bpf.assemble(known.audit_arch, rows, words(denial), _weight(machine))


def _weight(machine: str) -> Weight:
    from pysandbox.compile.syscalls import table

    numbers = table(machine).numbers
    hot = {numbers[name]: times for name, times in OFTEN.items() if name in numbers}

    def weight(start: int, end: int) -> int:
        return max(0, min(end, LAST_CACHED) - start) + sum(hot[number] for number in hot if start <= number < end)

    return weight


def words(denial: str) -> dict[CallAction, int]:
    """The action word of each verdict. Where a supervisor hears of refusals, every one is handed over: what becomes of
    each is then in `Filters.verdicts`, and without that none passes."""
    from pysandbox.compile.bpf import CallAction

    refused = RET_USER_NOTIF if denial in HANDS_OVER else RET_ERRNO | EPERM
    return {
        CallAction.ALLOW: RET_ALLOW,
        CallAction.DENY: DENIALS[denial],
        CallAction.NEVER: RET_KILL_PROCESS if denial == "kill" else refused,
        CallAction.KILL: RET_KILL_PROCESS,
        CallAction.MILD: refused,
        CallAction.ABSENT: RET_ERRNO | ENOSYS,
        CallAction.UNSUPPORTED: RET_ERRNO | EOPNOTSUPP,
        CallAction.NOTIFY: RET_USER_NOTIF,
    }


def decide(choice: Choice, machine: str) -> dict[str, Decision]:
    """The decision for every call that this machine has."""
    from pysandbox.compile.profiles import arguments
    from pysandbox.compile.syscalls import table

    rules = arguments.rules(choice.sockets, unix=choice.unix)
    by_policy = _refusals(choice, rules)
    return {name: _handed_over(choice, name, rules, by_policy) for name in table(machine).numbers}


def _refusals(choice: Choice, rules: Mapping[str, Decision]) -> Callable[[str], Decision]:
    """What profile and policy say of a call by its name; the first that applies, as the story above has them."""
    from pysandbox.compile.bpf import CallAction
    from pysandbox.compile.profiles import arguments, names_of, tiers

    profile = _profile(choice)
    opens = set(names_of(profile.opens))
    _check_extras(choice, opens)
    kill, never = set(names_of(profile.kill)), set(names_of(tiers.NEVER)) - opens
    listed = set(names_of(profile.allow))
    closed = (set(names_of(tiers.OFF)) - opens | set(names_of(profile.deny))) - choice.allow
    shut = arguments.closed(choice.sockets, choice.allow)
    limited = profile.limited if choice.mode == "allow-list" else {}
    monitors = choice.denial in MONITORS  # what refuses a call is let pass there, but not what its rule refuses besides

    def one(name: str) -> Decision:
        ruled = rules.get(name, CallAction.ALLOW)
        if name in kill:
            return CallAction.KILL
        if ruled is CallAction.ABSENT:
            return CallAction.ABSENT
        if name in never:
            return CallAction.NEVER
        refused = name in choice.deny or name in closed
        if refused and not monitors:
            return CallAction.DENY
        if name in shut:
            return shut[name]
        if name in choice.unsupported:
            return CallAction.UNSUPPORTED
        if refused or (choice.mode == "allow-list" and name not in listed and name not in choice.allow):
            return hand_over(ruled, CallAction.DENY) if monitors else CallAction.DENY
        return ruled if name in choice.allow else limited.get(name, ruled)

    return one


def _handed_over(
    choice: Choice, name: str, rules: Mapping[str, Decision], by_policy: Callable[[str], Decision]
) -> Decision:
    """The decision by the policy, but for what cage-init needs and for what the supervisor is to hear of."""
    from pysandbox.compile.bpf import CallAction
    from pysandbox.compile.profiles import arguments

    if name in choice.init:
        ruled = rules.get(name, CallAction.ALLOW)
        return CallAction.ALLOW if ruled is CallAction.ABSENT else ruled
    decision = by_policy(name)
    if choice.leads_out and name in arguments.LEADS_OUT:
        decision = hand_over(decision, arguments.LEADS_OUT[name])
    if ("sendmsg" in choice.notify or choice.unix) and name in arguments.ON_BEHALF:
        decision = hand_over(decision, arguments.ON_BEHALF[name])
    if name.startswith(arguments.RINGS) and (choice.leads_out or choice.sockets in arguments.ON_THE_HOST):
        return CallAction.NEVER
    if name == "setsockopt" and "connect" in choice.notify:
        return hand_over(decision, arguments.NO_ROUTES)
    if name == "ioctl" and "fallocate" in choice.unsupported:
        decision = arguments.no_space_by_ioctl(decision)
    if name not in choice.notify:
        return decision
    return hand_over(decision, arguments.HANDED_OVER.get(name, CallAction.NOTIFY))


def hand_over(decision: Decision, instead: Decision) -> Decision:
    """The decision with `instead` in the place of every ALLOW."""
    from pysandbox.compile.bpf import CallAction

    if decision is CallAction.ALLOW:
        return instead
    if isinstance(decision, CallAction):
        return decision
    return decision._replace(yes=hand_over(decision.yes, instead), no=hand_over(decision.no, instead))


def _profile(choice: Choice) -> Profile:
    """The profile of that name, or the lists that stand in its place."""
    from pysandbox.compile import profiles

    if not choice.lists:
        return profiles.profile(choice.profile)
    lists = {key: (profiles.CallGroup("listed by the baseline", names),) for key, names in choice.lists}
    modes = ("allow-list", "deny-list")
    return profiles.Profile("lists", "A baseline of the user's.", modes, lists.get("allow", ()), lists.get("deny", ()))


def _check_extras(choice: Choice, opens: set[str]) -> None:
    """A name no machine has is a mistake; a name only another machine has is not; what no extra opens is refused."""
    from pysandbox.compile import syscalls
    from pysandbox.compile.profiles import arguments, tiers

    lists = {f"syscalls.lists.{key}": names for key, names in choice.lists}
    for key, extra in {"syscalls.allow_extra": choice.allow, "syscalls.deny_extra": choice.deny, **lists}.items():
        for name in sorted(extra):
            if not syscalls.is_name(name):
                meant = syscalls.closest(name)
                hint = f'did you mean "{meant}"?' if meant else "see `man 2 syscalls` for the names"
                raise PolicyError(f"{name!r} is not a system call", key=key, suggestion=hint)
    allowed = choice.allow.union(dict(choice.lists).get("allow", ()))
    for group in tiers.NEVER:
        for name in sorted(allowed.intersection(group.names) - opens):
            raise PolicyError(
                f"{name!r} is never allowed in a cage: {group.reason}",
                key="syscalls.allow_extra" if name in choice.allow else "syscalls.lists.allow",
                suggestion="remove it; no profile and no extra opens it",
            )
    for name in sorted(choice.allow & arguments.ABSENT_EVERYWHERE):
        raise PolicyError(
            f"{name!r} is answered as by a kernel without it, allowed or not: its flags lie behind a pointer, where no "
            "filter can decide them",
            key="syscalls.allow_extra", suggestion="remove it; programs go on with the older call, which is allowed",
        )  # fmt: skip


def describe(policy: Policy) -> Description:
    """The sets behind a policy's filter, for people."""
    from pysandbox.compile.bpf import CallAction
    from pysandbox.compile.profiles import arguments, names_of, tiers

    choice = choose(policy)
    profile = _profile(choice)
    _check_extras(choice, set(names_of(profile.opens)))
    opens = (*names_of(profile.opens), *policy.allow_syscalls)
    allowed = _merged(names_of(profile.allow), policy.allow_syscalls, without=policy.deny_syscalls)
    denied = _merged(names_of((*profile.kill, *profile.deny)), policy.deny_syscalls, without=())
    rules = {**arguments.rules(choice.sockets), **profile.limited}
    shut = arguments.closed(choice.sockets, choice.allow)
    return Description(
        profile.name,
        choice.mode,
        profile.summary,
        allowed,
        tuple(name for name in denied if name in policy.deny_syscalls or name not in policy.allow_syscalls),
        _merged(names_of(tiers.NEVER), (), without=opens),
        _merged(names_of(tiers.OFF), (), without=opens),
        tuple(sorted(name for name, rule in rules.items() if rule is not CallAction.ABSENT)),
        tuple(sorted(name for name, rule in {**rules, **shut}.items() if rule is CallAction.ABSENT)),
        _remarks(profile, policy),
    )


def _merged(first: tuple[str, ...], more: tuple[str, ...], *, without: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys((*first, *more)) if name not in without)


def _remarks(profile: Profile, policy: Policy) -> tuple[str, ...]:
    """What a reader should know that no list says."""
    remarks = []
    if policy.seccomp_mode not in profile.modes:
        remarks.append(f"profile {profile.name} is always a {profile.modes[0]}")
    if any(name.startswith("io_uring") for name in policy.allow_syscalls):
        remarks.append("io_uring submits calls that no filter sees: no rule on sockets and file modes binds them")
    return tuple(remarks)
