"""The Policy: what the user wants, complete and frozen.

Every option is declared once, here, with its document, TOML key, CLI flag and merge rule beside it; the TOML
reader, the CLI, `to_toml`, the merge and the reference page are all generated from these declarations. No option
may be read anywhere that is not declared here, and a test fails for an option that nobody reads.

A Policy says nothing about a kernel: `compile` turns it into a Plan. This file imports neither os nor subprocess.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Literal

Merge = Literal["union", "or", "last", "overlay"]


@dataclass(frozen=True, slots=True)
class Option:
    """How one field of the Policy is spelled outside Python. `flag` None: TOML and keyword only."""

    section: str  # "" is the top level of the file
    key: str
    doc: str
    merge: Merge
    flag: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    unit: str = ""

    @property
    def toml_key(self) -> str:
        return f"{self.section}.{self.key}" if self.section else self.key


def option(
    section: str,
    key: str,
    doc: str,
    *,
    default: Any = MISSING,
    merge: Merge,
    flag: str | None = None,
    choices: tuple[str, ...] = (),
    minimum: int | None = None,
    unit: str = "",
) -> Any:
    described = Option(section, key, doc, merge, flag, choices, minimum, unit)
    return field(default=default, metadata={"option": described})


@dataclass(frozen=True, slots=True)
class Grant:
    """One path of a policy. `optional`: skipped with an event when it does not exist; else that is an error."""

    path: str
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a cage may see, write, run, use and reach. Everything not granted is refused."""

    # [filesystem]
    allow: tuple[Grant, ...] = option(
        "filesystem", "allow", "Paths visible in the cage, read-only.", default=(), merge="union", flag="--allow"
    )
    allow_write: tuple[Grant, ...] = option(
        "filesystem", "allow_write", "Paths visible and writable; changes reach the host.",
        default=(), merge="union", flag="--allow-write",
    )  # fmt: skip
    deny: tuple[Grant, ...] = option(
        "filesystem", "deny", "Paths never readable or writable, also inside an allowed directory.",
        default=(), merge="union", flag="--deny",
    )  # fmt: skip
    mask: tuple[Grant, ...] = option(
        "filesystem", "mask", "Files shown empty (as /dev/null) and directories shown empty and read-only.",
        default=(), merge="union", flag="--mask",
    )  # fmt: skip
    workdir: str = option(
        "filesystem", "workdir", "How the current directory appears in the cage.",
        default="none", merge="last", flag="--workdir", choices=("none", "read", "write", "cow"),
    )  # fmt: skip
    base: bool = option(
        "filesystem", "base", "Mount the system directories that any program needs (recipe `base`).",
        default=True, merge="last", flag="--base",
    )  # fmt: skip
    state: str = option(
        "filesystem", "state", "Whether /scratch is fresh for every cage or shared by the cages of one session.",
        default="ephemeral", merge="last", flag="--state", choices=("ephemeral", "scratch"),
    )  # fmt: skip
    # [process]
    env: tuple[tuple[str, str], ...] = option(
        "process", "env", "Variables set in the cage, after env_passthrough.", default=(), merge="union", flag="--env"
    )
    env_passthrough: tuple[str, ...] = option(
        "process", "env_passthrough", "Names of host variables the cage inherits; all others are dropped.",
        default=(), merge="union", flag="--env-passthrough",
    )  # fmt: skip
    allow_execve: tuple[str, ...] = option(
        "process", "allow_execve", "Executables the cage may run, `/dir/*` for a tree; empty allows all.",
        default=(), merge="union", flag="--allow-execve",
    )  # fmt: skip
    max_pids: int | None = option(
        "process", "max_pids", "Most processes and threads at once; further forks fail with EAGAIN.",
        default=None, merge="last", flag="--max-pids", minimum=1,
    )  # fmt: skip
    run_as: str = option(
        "process", "run_as", "The user id seen inside: 65534, the caller's own, or 0. None has any power outside.",
        default="nobody", merge="last", flag="--run-as", choices=("nobody", "self", "root"),
    )  # fmt: skip
    # [resources]
    memory_mb: int | None = option(
        "resources", "memory_mb", "Memory of the whole cage.", default=None, merge="last", flag="--memory-mb",
        minimum=16, unit="MiB",
    )  # fmt: skip
    cpu_percent: int | None = option(
        "resources", "cpu_percent", "CPU quota, 100 is one core.", default=None, merge="last", flag="--cpu-percent",
        minimum=1, unit="%",
    )  # fmt: skip
    cpu_shares: int | None = option(
        "resources", "cpu_shares", "CPU weight against other cages.", default=None, merge="last", flag="--cpu-shares",
        minimum=1,
    )  # fmt: skip
    walltime_sec: float | None = option(
        "resources", "walltime_sec", "Wall time of a command; then SIGTERM, the grace period, SIGKILL.",
        default=None, merge="last", flag="--walltime", minimum=1, unit="s",
    )  # fmt: skip
    grace_sec: float = option(
        "resources", "grace_sec", "Time between SIGTERM and SIGKILL.", default=5.0, merge="last", flag="--grace",
        minimum=0, unit="s",
    )  # fmt: skip
    address_space_gb: int = option(
        "resources", "address_space_gb", "RLIMIT_AS of each process; 0 lifts it.", default=8, merge="last",
        flag="--address-space-gb", minimum=0, unit="GiB",
    )  # fmt: skip
    open_files: int = option(
        "resources", "open_files", "RLIMIT_NOFILE of each process.", default=4096, merge="last", flag="--open-files",
        minimum=3,
    )  # fmt: skip
    file_size_gb: int = option(
        "resources", "file_size_gb", "RLIMIT_FSIZE: largest file a process may write; 0 lifts it.", default=4,
        merge="last", flag="--file-size-gb", minimum=0, unit="GiB",
    )  # fmt: skip
    tmp_mb: int = option(
        "resources", "tmp_mb", "Size of each tmpfs of the cage (/tmp, /dev/shm, the root).", default=1024,
        merge="last", flag="--tmp-mb", minimum=1, unit="MiB",
    )  # fmt: skip
    output_mb: int = option(
        "resources", "output_mb", "Most output kept of each of stdout and stderr by `run`; the rest is dropped.",
        default=64, merge="last", flag="--output-mb", minimum=0, unit="MiB",
    )  # fmt: skip
    limits_required: bool = option(
        "resources", "required", "Refuse to run when a limit asked for cannot be enforced (else: an event).",
        default=True, merge="last", flag="--limits-required",
    )  # fmt: skip
    # [syscalls]
    seccomp: str = option(
        "syscalls", "profile", "The shipped system-call profile to start from.", default="baseline", merge="last",
        flag="--seccomp", choices=("baseline", "seed-187", "default", "relaxed"),
    )  # fmt: skip
    seccomp_mode: str = option(
        "syscalls", "seccomp_mode", "Whether what the baseline does not list is refused or allowed.",
        default="allow-list", merge="last", flag="--seccomp-mode", choices=("allow-list", "deny-list"),
    )  # fmt: skip
    allow_syscalls: tuple[str, ...] = option(
        "syscalls", "allow_extra", "System calls allowed on top of the profile.", default=(), merge="union",
        flag="--allow-syscall",
    )  # fmt: skip
    deny_syscalls: tuple[str, ...] = option(
        "syscalls", "deny_extra", "System calls refused on top of the profile; wins over allow_extra.", default=(),
        merge="union", flag="--deny-syscall",
    )  # fmt: skip
    # [network]
    egress: str = option(
        "network", "egress", "none: loopback only. direct: the host's own network, not confined.", default="none",
        merge="last", flag="--egress", choices=("none", "proxy-only", "direct"),
    )  # fmt: skip
    unsafe_direct: bool = option(
        "network", "unsafe", "Acknowledges that egress = \"direct\" gives the cage the host's network.",
        default=False, merge="or", flag="--unsafe-direct",
    )  # fmt: skip
    # top level
    strict: bool = option(
        "", "strict", "Kill a process at its first refused system call; nothing may degrade.", default=False,
        merge="or", flag="--strict",
    )  # fmt: skip
    isolation: str = option(
        "", "isolation", "full: namespaces, Landlock, seccomp. landlock: no namespaces, for hosts that forbid them.",
        default="full", merge="last", flag="--isolation", choices=("full", "landlock"),
    )  # fmt: skip
    caged: bool = option(
        "", "caged", "False runs the command with no cage at all; always recorded.", default=True, merge="last",
        flag=None,
    )  # fmt: skip


def options() -> Iterator[tuple[Field[Any], Option]]:
    """Each field of Policy with its declaration, in order."""
    for each in fields(Policy):
        yield each, each.metadata["option"]


def by_toml_key() -> Mapping[str, Field[Any]]:
    return {described.toml_key: each for each, described in options()}
