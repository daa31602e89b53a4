"""A policy in sentences, for a reader who has never seen its options: what a program could do under it, topic by topic.

`explain` says what is asked; with the notes of a Plan, `topics` also says what is weaker on this host. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pysandbox.compile.doors import loopback_ports
from pysandbox.compile.notes import weaker
from pysandbox.compile.plan import Note
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.way_out import way_out

Sentences = tuple[str, ...]

WORKDIR = {
    "none": "The current directory is not visible unless it is granted.",
    "read": "The current directory is visible and read-only.",
    "write": "The current directory is writable, but for git's hooks and config; policy files in it are hidden.",
    "cow": "The current directory is writable, and what is written stays apart from the host's.",
}
IDENTITY = {
    "nobody": "Commands run as nobody (65534).",
    "self": "Commands see their caller's own user id.",
    "root": "Commands see themselves as root (0), with no power outside.",
}
NETWORK = {
    "none": "There is no network but the cage's own loopback.",
    "proxy-only": "There is no network but the hosts that are listed, and the cage's own loopback.",
    "direct": "The network is the host's own, and nothing that is sent is confined.",
}
SCRATCH = {
    "ephemeral": "Also writable: /tmp and /scratch, which are the cage's own and vanish with it.",
    "scratch": "Also writable: /tmp, which vanishes with the cage, and /scratch, which its session shares.",
}
# Where nothing but Landlock holds them, three of these sentences would promise too much.
WITHOUT_NAMESPACES = {
    WORKDIR["write"]: "The current directory is writable, with git's hooks and config and the policy files in it.",
    NETWORK["none"]: "There is no network: no address can be connected to, and no port is taken.",
    NETWORK["proxy-only"]: "There is no network but the addresses that are listed, and no port is taken.",
}
UNCHANGED = {
    "full": "Nothing of the host can be changed.",
    "landlock": "Nothing of the host can be changed but the mode and the times of its user's own files.",
}
NO_CAGE = "Commands run with no cage at all."
NOTHING_WEAKER = "Nothing: this host can do all that the policy asks."


def explain(policy: Policy) -> Sentences:
    """One sentence for each thing worth knowing, the widest first."""
    return tuple(sentence for _, sentences in topics(policy) for sentence in sentences)


def topics(policy: Policy, notes: Iterable[Note] | None = None) -> tuple[tuple[str, Sentences], ...]:
    """(heading, sentences) of every topic that has any. `notes` are the Plan's on this host."""
    if not policy.caged:
        return (("Cage", (NO_CAGE,)), *_said((("Time", _time),), policy))
    said = _said(TOPICS, policy)
    if notes is None:
        return said
    lost = tuple(f"{note.key}: {note.message}." for note in weaker(notes))
    return (*said, ("Weaker on this host", lost or (NOTHING_WEAKER,)))


def _said(
    table: Iterable[tuple[str, Callable[[Policy], Iterable[str]]]], policy: Policy
) -> tuple[tuple[str, Sentences], ...]:
    other = WITHOUT_NAMESPACES if policy.isolation == "landlock" else {}
    told = ((heading, tuple(other.get(each, each) for each in sentences(policy))) for heading, sentences in table)
    return tuple((heading, sentences) for heading, sentences in told if sentences)


def _isolation(policy: Policy) -> Iterable[str]:
    if policy.isolation == "landlock":
        yield "There are no namespaces: Landlock and seccomp alone keep the host apart."
    if policy.strict:
        yield "A process is killed at its first refused system call, and nothing may degrade."


def _reads(policy: Policy) -> Iterable[str]:
    if policy.base:
        yield "The system directories that programs need are visible and read-only."
    if policy.workdir != "write":
        yield WORKDIR[policy.workdir]
    yield from _listed("Visible and read-only: {}.", policy.allow)
    yield from _listed("Never readable or writable: {}.", policy.deny)
    yield from _listed("Shown empty: {}.", policy.mask)


def _writes(policy: Policy) -> Iterable[str]:
    if policy.workdir == "write":
        yield WORKDIR[policy.workdir]
    yield from _listed("Writable, with changes that reach the host: {}.", policy.allow_write)
    if policy.workdir != "write" and not policy.allow_write:
        yield UNCHANGED[policy.isolation]
    if policy.isolation == "full":
        yield SCRATCH[policy.state]


def _listed(sentence: str, grants: tuple[Grant, ...]) -> Iterable[str]:
    if grants:
        yield sentence.format(", ".join(grant.path for grant in grants))


def _runs(policy: Policy) -> Iterable[str]:
    yield IDENTITY[policy.run_as]
    if policy.allow_execve:
        yield f"No other program can be executed than {', '.join(policy.allow_execve)}."
    inherited = ", ".join(policy.env_passthrough)
    yield f"Variables inherited from the host: {inherited}." if inherited else "No variable of the host is inherited."
    if policy.env:
        yield f"Variables set: {', '.join(name for name, _ in policy.env)}."
    yield from _calls(policy)


def _calls(policy: Policy) -> Iterable[str]:
    others = "refused" if policy.seccomp_mode == "allow-list" else "allowed"
    yield f"System calls are those of the profile {policy.seccomp}; what it does not list is {others}."
    if policy.allow_syscalls:
        yield f"Allowed besides: {', '.join(policy.allow_syscalls)}."
    if policy.deny_syscalls:
        yield f"Refused besides: {', '.join(policy.deny_syscalls)}."


def _reaches(policy: Policy) -> Iterable[str]:
    yield NETWORK[way_out(policy)]
    if policy.egress == "proxy-only":
        yield from (_host(rule) for rule in policy.hosts)
        if (ports := loopback_ports(policy)) is not None:
            yield f"The host's own services are reached as host.pysandbox.internal{_on(ports)}."
    if policy.allow_ips and policy.egress != "none":
        yield f"Addresses that can be connected to: {', '.join(policy.allow_ips)}."
    if policy.ports:
        yield f"Reached from the host: {', '.join(policy.ports)} (address, port of the host, port of the cage)."
    yield from _listed("Unix sockets of the host that can be connected to: {}.", policy.unix_sockets)


def _host(rule: HostRule) -> str:
    below = (
        " and every name below it" if rule.include_subdomains else "" if "*" in rule.domain else ", no name below it,"
    )
    how = ", and nothing looks at what is sent" if rule.direct else ""
    return f"{rule.domain}{below} can be connected to{_on(rule.ports)}{how}."


def _on(ports: tuple[int, ...]) -> str:
    return f" on port {', '.join(map(str, ports))}" if ports else ""


def _uses(policy: Policy) -> Iterable[str]:
    if policy.max_pids is not None:
        yield f"At most {policy.max_pids} processes and threads exist at once."
    if policy.memory_mb is not None:
        yield f"The cage has {policy.memory_mb} MiB of memory."
    if policy.cpu_percent is not None:
        yield f"The cage has {policy.cpu_percent} % of one processor."
    if policy.max_pids is None or policy.memory_mb is None or policy.cpu_percent is None:
        named = (("processes", policy.max_pids), ("memory", policy.memory_mb), ("CPU", policy.cpu_percent))
        yield f"No limit on {', '.join(name for name, limit in named if limit is None)} of the cage as a whole."
    if policy.write_mb is not None:
        yield f"The cage may write {policy.write_mb} MiB to files of the host, in all."
    yield f"A process may open {policy.open_files} files{_sized(policy)}."


def _sized(policy: Policy) -> str:
    return f" and write files of up to {policy.file_size_gb} GiB" if policy.file_size_gb else ""


def _time(policy: Policy) -> Iterable[str]:
    if policy.walltime_sec is None:
        yield "There is no limit on how long a command runs."
    else:
        yield f"A command is stopped after {policy.walltime_sec:g} s, and killed {policy.grace_sec:g} s later."


TOPICS: tuple[tuple[str, Callable[[Policy], Iterable[str]]], ...] = (
    ("Isolation", _isolation),
    ("Reads", _reads),
    ("Writes", _writes),
    ("Runs", _runs),
    ("Reaches", _reaches),
    ("Uses", _uses),
    ("Time", _time),
)
