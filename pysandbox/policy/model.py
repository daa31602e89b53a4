"""The Policy: what the user wants, complete and frozen.

Every option is declared once, here, with its document, TOML key, CLI flag and merge rule beside it; the TOML
reader, the CLI, `to_toml`, the merge and the reference page are all generated from these declarations. No option
may be read anywhere that is not declared here, and a test fails for an option that nobody reads.

A Policy says nothing about a kernel: `compile` turns it into a Plan. This file imports neither os nor subprocess.
What an option may hold is in `validate`; the work of the methods is in the file each of them names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any, Self

from pysandbox.errors import PolicyError
from pysandbox.policy.host import HostRule
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.option import Grant, Option, option
from pysandbox.policy.refusal import Refused, did_you_mean
from pysandbox.policy.validate import KINDS, consistent

__all__ = ["Grant", "HostRule", "Option", "Policy", "by_toml_key", "option", "options"]

MIB = 1 << 20


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
        absent=(("cow", "cow needs the copy-on-write workspace, which this version does not have; use read or write"),),
    )  # fmt: skip
    unguarded: tuple[str, ...] = option(
        "filesystem", "unguarded", "Names of guarded files that writable grants open all the same, such as .vscode or "
        ".git; without it they are read-only in every cage.",
        default=(), merge="union", flag="--unguard", item="guard",
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
        default=(), merge="union", flag="--env-passthrough", item="variable",
    )  # fmt: skip
    allow_execve: tuple[str, ...] = option(
        "process", "allow_execve", "Executables the cage may run, `/dir/*` for a tree; empty allows all.",
        default=(), merge="union", flag="--allow-execve", item="executable",
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
        "resources", "cpu_shares", "CPU weight against other cages; 100 is an equal share.", default=None, merge="last",
        flag="--cpu-shares", minimum=1, maximum=10_000,
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
    write_mb: int | None = option(
        "resources", "write_mb", "Most bytes that the cage may write to files of the host, in all.", default=None,
        merge="last", flag="--write-mb", minimum=1, unit="MiB",
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
        flag="--allow-syscall", item="syscall",
    )  # fmt: skip
    deny_syscalls: tuple[str, ...] = option(
        "syscalls", "deny_extra", "System calls refused on top of the profile; wins over allow_extra.", default=(),
        merge="union", flag="--deny-syscall", item="syscall",
    )  # fmt: skip
    syscall_lists: tuple[tuple[str, tuple[str, ...]], ...] = option(
        "syscalls", "lists", "Takes the place of the profile's lists: what is allowed, what is refused. A baseline "
        "(default.toml) gives them as the keys allow and deny.",
        default=(), merge="last", item="syscall", choices=("allow", "deny"),
    )  # fmt: skip
    notifier: bool | None = option(
        "syscalls", "notifier", "Whether a supervisor may decide calls at run time; omitted: where a rule needs it.",
        default=None, merge="last", flag="--notifier",
    )  # fmt: skip
    scm_rights: str = option(
        "syscalls", "scm_rights", "Passing descriptors through unix sockets; strict always denies it.",
        default="allow", merge="last", flag="--scm-rights", choices=("allow", "deny"),
    )  # fmt: skip
    # [network]
    egress: str = option(
        "network", "egress", "none: loopback only. proxy-only: what [[host]], allow_ips and the host's loopback "
        "alias name, and nothing where they name nothing. direct: the host's own network, not confined.",
        default="proxy-only", merge="last", flag="--egress", choices=("none", "proxy-only", "direct"),
    )  # fmt: skip
    unsafe_direct: bool = option(
        "network", "unsafe", "Acknowledges that egress = \"direct\" gives the cage the host's network.",
        default=False, merge="or", flag="--unsafe-direct",
    )  # fmt: skip
    allow_ips: tuple[str, ...] = option(
        "network", "allow_ips", "Addresses of the host's network that may be connected to, ADDR[/LEN][:PORT[-PORT]]"
        "[/tcp|/udp].", default=(), merge="union", flag="--allow-ip", item="endpoint",
    )  # fmt: skip
    contract_mode: str = option(
        "network", "contract_mode", "What happens to a host without a [[host]] block: refused, or allowed and logged.",
        default="strict", merge="last", choices=("strict", "relaxed"),
    )  # fmt: skip
    ports: tuple[str, ...] = option(
        "network", "ports", "Ports of the cage published on the host: PORT, HOST:CAGE or ADDRESS:HOST:CAGE, each with "
        "/tcp or /udp; the address is 127.0.0.1 unless given.",
        default=(), merge="union", flag="--port", item="port",
    )  # fmt: skip
    allow_host_loopback: bool = option(
        "network", "allow_host_loopback", "The host's own services can be reached as host.pysandbox.internal.",
        default=False, merge="or", flag="--allow-host-loopback",
    )  # fmt: skip
    host_loopback_ports: tuple[int, ...] = option(
        "network", "host_loopback_ports", "The same for these ports alone.",
        default=(), merge="union", flag="--host-loopback-port", item="port number",
    )  # fmt: skip
    unix_sockets: tuple[Grant, ...] = option(
        "network", "unix_sockets", "Unix sockets of the host, by path, that may be connected to, such as "
        "$SSH_AUTH_SOCK.",
        default=(), merge="union", flag="--unix-socket",
    )  # fmt: skip
    network_backend: str = option(
        "network", "backend", "doors: a way out through the gatekeeper alone. routed: also an interface, for UDP, "
        "QUIC and ping to allow_ips; the host process must be root.",
        default="doors", merge="last", flag="--network-backend", choices=("doors", "routed"),
    )  # fmt: skip
    bridge: str = option(
        "network", "bridge", "The bridge of the routed back end, made when it is not there.",
        default="kaged-br0", merge="last", item="interface",
    )  # fmt: skip
    # [network.dns]
    dns_ipv6: str = option(
        "network.dns", "ipv6", "What a question for the IPv6 address of an allowed name gets: an empty answer, no such "
        "name, or a resolution as for IPv4.",
        default="nodata", merge="last", choices=("nodata", "nxdomain", "resolve"),
    )  # fmt: skip
    # [network.dlp]
    dlp_enabled: bool = option(
        "network.dlp", "enabled", "Scan what is sent for credentials; strict implies it.", default=False, merge="or"
    )
    dlp_canary_tokens: bool | None = option(
        "network.dlp", "canary_tokens", "Give the cage false credentials whose appearance outside proves a theft; "
        "unset: where requests are scanned.",
        default=None, merge="or",
    )  # fmt: skip
    dlp_max_decode_depth: int = option(
        "network.dlp", "max_decode_depth", "How many encodings inside each other are undone before scanning.",
        default=32, merge="last", minimum=0, maximum=1024,
    )  # fmt: skip
    dlp_decompress: bool = option(
        "network.dlp", "decompress", "Decompress bodies before scanning.", default=True, merge="last"
    )
    dlp_dns_entropy_threshold: float = option(
        "network.dlp", "dns_entropy_threshold", "Share of the highest possible entropy above which two labels of a "
        "name are taken for smuggled data.",
        default=0.92, merge="last", minimum=0, maximum=1,
    )  # fmt: skip
    dlp_session_entropy_budget: int = option(
        "network.dlp", "session_entropy_budget", "High-entropy bytes a cage may send in its life.", default=8192,
        merge="last", minimum=0, unit="bytes",
    )  # fmt: skip
    dlp_extra_scopes: tuple[tuple[str, tuple[str, ...]], ...] = option(
        "network.dlp", "extra_scopes", "More domains that a detector's credential may be sent to.", default=(),
        merge="scopes", item="domain",
    )  # fmt: skip
    # [proxy]
    proxy_buffered_bytes: int = option(
        "proxy", "max_buffered_body_bytes", "Largest body that is scanned as a whole.", default=8 * MIB, merge="last",
        minimum=0, unit="bytes",
    )  # fmt: skip
    proxy_streamed_bytes: int = option(
        "proxy", "max_streamed_body_bytes", "Largest body that is passed on; what is larger is refused.",
        default=64 * MIB, merge="last", minimum=0, unit="bytes",
    )  # fmt: skip
    proxy_timeout_ms: int = option(
        "proxy", "upstream_request_timeout_ms", "Time a host may take for a request.", default=30_000, merge="last",
        minimum=1, unit="ms",
    )  # fmt: skip
    proxy_scheme: str | None = option(
        "proxy", "upstream_scheme", "The protocol spoken to hosts; unset: that of the request.", default=None,
        merge="last", choices=("http", "h2c"),
    )  # fmt: skip
    # [[host]]
    hosts: tuple[HostRule, ...] = option(
        "", "host", "The hosts that may be reached, a block for each; as a text, NAME or NAME:PORT.", default=(),
        merge="blocks", flag="--host",
    )  # fmt: skip
    # top level
    strict: bool = option(
        "", "strict", "Kill a process at its first refused system call; nothing may degrade.", default=False,
        merge="or", flag="--strict",
    )  # fmt: skip
    monitor: bool = option(
        "", "monitor", "Let pass, and record, what would be refused: system calls, executables, limits. For learning, "
        "not for safety; files and network stay confined.", default=False, merge="or", flag="--monitor",
    )  # fmt: skip
    isolation: str = option(
        "", "isolation", "full: namespaces, Landlock, seccomp. landlock: no namespaces, for hosts that forbid them.",
        default="full", merge="last", flag="--isolation", choices=("full", "landlock"),
    )  # fmt: skip
    caged: bool = option(
        "", "caged", "False runs the command with no cage at all; always recorded.", default=True, merge="last",
        flag=None,
    )  # fmt: skip

    def __new__(cls, /, *_: Any, **asked: Any) -> Self:
        """Refuse a misspelt option by name; the TypeError of a dataclass would not say which one was meant."""
        if not asked.keys() <= _DECLARED.keys():
            name = next(each for each in asked if each not in _DECLARED)
            raise PolicyError("Policy has no such option", key=name, suggestion=suggest_field(name))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, (described, coerce, default) in _DECLARED.items():
            value = self.__dict__[name]
            if value is not default:
                try:
                    object.__setattr__(self, name, coerce(described, value))
                except Refused as refused:
                    raise refused.error(described.toml_key) from None
        consistent(self)

    @property
    def given(self) -> dict[str, Any]:
        """The fields that differ from their default: what this policy says, as a layer for a merge."""
        return {name: self.__dict__[name] for name, row in _DECLARED.items() if self.__dict__[name] != row[2]}

    def merge(self, other: Policy) -> Policy:
        """This policy with `other` laid over it (`merge.py`). A field that `other` leaves at its default keeps ours."""
        return Policy(**merge_layers(MERGE_WORDS, self.given, other.given))

    def narrow(self, **tighter: Any) -> Policy:
        """This policy with some fields tightened (`narrow.py`); PolicyError names the first one that is not."""
        from pysandbox.policy.narrow import narrow

        return narrow(self, tighter)

    @classmethod
    def parse(cls, text: str, file: str | None = None) -> Policy:
        """The policy that one TOML text describes (`sources.py`); `file` is its name in errors."""
        from pysandbox.policy.sources import parse_policy

        return parse_policy(text, file)

    @classmethod
    def load(cls, *recipes: str, command: Sequence[str] | None = None) -> Policy:
        """Recipes merged left to right (`compose.py`): names, or paths of TOML files. With `command`, also those that
        its program calls for."""
        from pysandbox.policy.compose import resolve

        return resolve(recipes, command=command).policy

    def to_toml(self) -> str:
        """This policy as a recipe that reads back equal (`render.py`)."""
        from pysandbox.policy.render import to_toml

        return to_toml(self)

    def to_json(self) -> str:
        """Canonical JSON: equal policies, equal text (`serial.py`)."""
        from pysandbox.policy.serial import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """The inverse of `to_json`; refuses what `to_json` cannot have written."""
        from pysandbox.policy.serial import from_json

        return from_json(text)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON: equal policies, equal digest, on every machine and Python."""
        from pysandbox.policy.serial import digest

        return digest(self)


def options() -> Iterator[tuple[Field[Any], Option]]:
    """Each field of Policy with its declaration, in order."""
    for each in fields(Policy):
        yield each, each.metadata["option"]


def by_toml_key() -> Mapping[str, Field[Any]]:
    return {described.toml_key: each for each, described in options()}


def coerced(given: Mapping[str, Any]) -> dict[str, Any]:
    """A layer in the spelling that policies keep: each value alone, whatever the others are. Raises PolicyError."""
    layer = {}
    for name, value in given.items():
        if name not in _DECLARED:
            raise PolicyError("Policy has no such option", key=name, suggestion=suggest_field(name))
        described, coerce, _ = _DECLARED[name]
        try:
            layer[name] = coerce(described, value)
        except Refused as refused:
            raise refused.error(described.toml_key) from None
    return layer


def suggest_field(word: str) -> str | None:
    """The field that was meant by `word`, which may be a misspelling or the TOML key."""
    for name, (described, _, _) in _DECLARED.items():
        if word in (described.key, described.toml_key):
            return f'in Python it is called "{name}"'
    return did_you_mean(word, _DECLARED)


# What __post_init__ needs of every field, looked up once: declaration, coercion, default.
_DECLARED = {each.name: (described, KINDS[str(each.type)], each.default) for each, described in options()}
MERGE_WORDS = {each.name: described.merge for each, described in options()}
