"""[syscalls]: which system calls there are."""

from __future__ import annotations

from pysandbox.policy.option import WITH_OTHERS, Sentence, option
from pysandbox.policy.tighter import grows, lists_less, shrinks, towards
from pysandbox.shapes import dataclass


@dataclass(frozen=True, kw_only=True)
class SyscallOptions:
    seccomp: str = option(
        "syscalls", "profile", "The shipped system-call profile to start from.",
        default="baseline", merge="last", tighter=towards("seed-187", "baseline", "default", "relaxed"),
        flag="--seccomp", choices=("baseline", "seed-187", "default", "relaxed"),
        in_plan=True, violation="seccomp", sentences=WITH_OTHERS,
    )  # fmt: skip
    seccomp_mode: str = option(
        "syscalls", "seccomp_mode", "Whether what the baseline does not list is refused or allowed.",
        default="allow-list", merge="last", tighter=towards("allow-list", "deny-list"), flag="--seccomp-mode",
        choices=("allow-list", "deny-list"),
        in_plan=True,
        sentence=Sentence("Runs", place=4, cases={
            "allow-list": "System calls are those of the profile {policy.seccomp}; what it does not list is refused.",
            "deny-list": "System calls are those of the profile {policy.seccomp}; what it does not list is allowed.",
        }),
    )  # fmt: skip
    allow_syscalls: tuple[str, ...] = option(
        "syscalls", "allow_extra", "System calls allowed on top of the profile.",
        default=(), merge="union", tighter=shrinks, flag="--allow-syscall", item="syscall",
        in_plan=True, listed="System calls", sentence=Sentence("Runs", "Allowed besides: {}."),
    )  # fmt: skip
    deny_syscalls: tuple[str, ...] = option(
        "syscalls", "deny_extra", "System calls refused on top of the profile; wins over allow_extra.",
        default=(), merge="union", tighter=grows, flag="--deny-syscall", item="syscall",
        in_plan=True, listed="System calls", sentence=Sentence("Runs", "Refused besides: {}."),
    )  # fmt: skip
    syscall_lists: tuple[tuple[str, tuple[str, ...]], ...] = option(
        "syscalls", "lists", "Takes the place of the profile's lists: what is allowed, what is refused. A baseline "
        "(default.toml) gives them as the keys allow and deny.",
        default=(), merge="last", tighter=lists_less, item="syscall", choices=("allow", "deny"),
        in_plan=False,
    )  # fmt: skip
    notifier: bool | None = option(
        "syscalls", "notifier", "Whether a supervisor may decide calls at run time; omitted: where a rule needs it.",
        default=None, merge="last", tighter=towards(True, None, False), flag="--notifier",
        in_plan=False,
    )  # fmt: skip
    scm_rights: str = option(
        "syscalls", "scm_rights", "Passing descriptors through unix sockets; strict always denies it.",
        default="allow", merge="last", tighter=towards("deny", "allow"), flag="--scm-rights",
        choices=("allow", "deny"),
        in_plan=False,
    )  # fmt: skip
