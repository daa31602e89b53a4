"""Values of a policy that are each right and together wrong. Pure; every new Policy is held against this table."""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.shapes import Any


def _is_cow(policy: Any) -> bool:
    return policy.workdir == "cow" or bool(policy.cow)


def _is_settled(policy: Any) -> bool:
    return bool({policy.on_exit, policy.on_error} - {"defer"})


def _reaches_the_host(policy: Any) -> bool:
    return policy.workdir == "write" or bool(policy.allow_write)


# (key, what to look for in a Policy, what is wrong, what to do)
CONTRADICTIONS: tuple[tuple[str, Callable[[Any], bool], str, str], ...] = (
    (
        "network.egress",
        lambda policy: policy.egress == "direct" and not policy.unsafe_direct,
        'egress = "direct" gives the cage the host\'s own network, with nothing between',
        "to accept that, write unsafe = true beside it in [network] (--unsafe-direct as a flag, unsafe_direct=True in "
        "Python); else use none",
    ),
    (
        "resources.required",
        lambda policy: policy.strict and not policy.limits_required,
        "strict lets nothing degrade, and required = false lets a limit go unenforced",
        "leave required out, or strict",
    ),
    (
        "monitor",
        lambda policy: policy.strict and policy.monitor,
        "strict lets nothing degrade, and monitor lets a command do what it may not",
        "leave monitor out, or strict",
    ),
    (
        "resources.cow_mb",
        lambda policy: (
            _is_cow(policy)
            and policy.storage == "memory"
            and policy.isolation == "full"  # in the other one it is a copy
            and policy.memory_mb is not None
            and policy.cow_mb >= policy.memory_mb
        ),
        "what a cage writes to its copy-on-write directories is memory of the cage, so with a cow_mb that is not below "
        "memory_mb it would be killed where it should find the disk full",
        'set cow_mb, well below memory_mb, leave memory_mb out, or set storage = "disk" in [workspace]',
    ),
    (
        "caged",
        lambda policy: _is_cow(policy) and not policy.caged,
        "without a cage nothing is kept apart: what is written to copy-on-write directories would reach the host",
        'leave caged = false (--no-sandbox) out, or set workdir to "write" and use allow_write in place of cow',
    ),
    (
        "workspace.on_exit",
        lambda policy: not _is_cow(policy) and _is_settled(policy) and _reaches_the_host(policy),
        "no directory is copy-on-write, so what the cage writes reaches the host at once, and nothing of it can be "
        "kept apart or forgotten at the end",
        'set workdir to "cow" (--workdir cow), or leave on_exit and on_error out',
    ),
    (
        "workspace.on_error",
        lambda policy: policy.on_error == "commit" and policy.on_exit != "commit",
        "what a failed command has left would be written to the directories, and what a good one has not",
        'set on_error to keep or abort, or on_exit to "commit" beside it',
    ),
    (
        "workspace.on_exit",
        lambda policy: policy.on_exit == "commit" and policy.monitor,
        'monitor lets a command do what it may not, and on_exit = "commit" writes what comes of it without anybody '
        "looking",
        "leave monitor out, or set on_exit to keep",
    ),
    (
        "workspace.on_exit",
        lambda policy: policy.on_exit == "commit" and bool(policy.unguarded),
        'unguarded opens files that programs of the host obey, and on_exit = "commit" writes them without anybody '
        "looking",
        "leave unguarded out, or set on_exit to keep",
    ),
    (
        "caged",
        lambda policy: policy.strict and not policy.caged,
        "strict lets nothing degrade, and caged = false runs with no cage at all",
        "leave caged out, or strict",
    ),
)


def contradiction(policy: Any) -> tuple[str, str, str] | None:
    """The first one: (key, what is wrong, what to do)."""
    found = ((key, message, fix) for key, contradicts, message, fix in CONTRADICTIONS if contradicts(policy))
    return next(found, None)
