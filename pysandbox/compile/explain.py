"""A policy in sentences, for a reader who has never seen its options. Says what is asked, not what a host can do."""

from __future__ import annotations

from collections.abc import Iterable

from pysandbox.policy.model import Grant, Policy

WORKDIR = {
    "none": "The current directory is not visible unless it is granted.",
    "read": "The current directory is visible and read-only.",
    "write": "The current directory is writable, but for git's hooks and config; policy files in it are hidden.",
}
IDENTITY = {
    "nobody": "Commands run as nobody (65534).",
    "self": "Commands see their caller's own user id.",
    "root": "Commands see themselves as root (0), with no power outside.",
}
NETWORK = {
    "none": "There is no network but the cage's own loopback.",
    "direct": "The network is the host's own, and nothing that is sent is confined.",
}


def explain(policy: Policy) -> tuple[str, ...]:
    """One sentence for each thing worth knowing, the widest first."""
    if not policy.caged:
        return ("Commands run with no cage at all.", *_walltime(policy))
    return (*_isolation(policy), *_files(policy), *_process(policy), *_limits(policy), NETWORK[policy.egress])


def _isolation(policy: Policy) -> Iterable[str]:
    if policy.isolation == "landlock":
        yield "There are no namespaces: Landlock and seccomp alone keep the host apart."
    if policy.strict:
        yield "A process is killed at its first refused system call, and nothing may degrade."


def _files(policy: Policy) -> Iterable[str]:
    if policy.base:
        yield "The system directories that programs need are visible and read-only."
    yield WORKDIR[policy.workdir]
    yield from _listed("Visible and read-only: {}.", policy.allow)
    yield from _listed("Writable, with changes that reach the host: {}.", policy.allow_write)
    yield from _listed("Never readable or writable: {}.", policy.deny)
    yield from _listed("Shown empty: {}.", policy.mask)


def _listed(sentence: str, grants: tuple[Grant, ...]) -> Iterable[str]:
    if grants:
        yield sentence.format(", ".join(grant.path for grant in grants))


def _process(policy: Policy) -> Iterable[str]:
    yield IDENTITY[policy.run_as]
    inherited = ", ".join(policy.env_passthrough)
    yield f"Variables inherited from the host: {inherited}." if inherited else "No variable of the host is inherited."
    if policy.allow_execve:
        yield f"No other program can be executed than {', '.join(policy.allow_execve)}."


def _limits(policy: Policy) -> Iterable[str]:
    if policy.max_pids is not None:
        yield f"At most {policy.max_pids} processes and threads exist at once."
    if policy.memory_mb is not None:
        yield f"The cage has {policy.memory_mb} MiB of memory."
    yield from _walltime(policy)


def _walltime(policy: Policy) -> Iterable[str]:
    if policy.walltime_sec is not None:
        yield f"A command is stopped after {policy.walltime_sec:g} s, and killed {policy.grace_sec:g} s later."
