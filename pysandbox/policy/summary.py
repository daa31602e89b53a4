"""A policy on one line, in document 000's form, for audit logs and whoever reads them:

    cage[scraper@01HXAB] fs=ro:./data,rw:./scratch net=none state=ephemeral mem=256mb walltime=600s

Pure. A path can neither break the line nor forge another field of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import effective_egress

NO_CAGE = "disabled"


def label(name: str, invocation_id: str) -> str:
    return f"cage[{printable(name)}@{invocation_id[:6]}]"


def summary(policy: Policy, name: str, invocation_id: str) -> str:
    if not policy.caged:
        return f"{label(name, invocation_id)} {NO_CAGE}"
    return line(
        label(name, invocation_id), _grants(policy), tuple({effective_egress(policy)} - {"none"}), policy.state,
        policy.memory_mb, policy.walltime_sec,
    )  # fmt: skip


def _grants(policy: Policy) -> Iterable[tuple[str, str]]:
    if policy.workdir != "none":
        yield {"read": "ro", "write": "rw"}.get(policy.workdir, policy.workdir), "."
    for mode, grants in (("ro", policy.allow), ("rw", policy.allow_write), ("cow", policy.cow)):
        for grant in grants:
            yield mode, grant.path


def line(
    start: str,
    fs: Iterable[tuple[str, str]],
    net: Iterable[str],
    state: str,
    memory_mb: int | None,
    walltime_sec: float | None,
) -> str:
    """`start` is a label; `fs` pairs of ro or rw and a path."""
    shown = ",".join(f"{mode}:{printable(path)}" for mode, path in fs)
    return (
        f"{start} fs={shown or 'none'} net={','.join(net) or 'none'} state={state}"
        f" mem={'none' if memory_mb is None else f'{memory_mb}mb'}"
        f" walltime={'none' if walltime_sec is None else f'{walltime_sec:g}s'}"
    )


def printable(text: str) -> str:
    return "".join(each if each.isprintable() and each not in " ,\\" else f"\\u{{{ord(each):x}}}" for each in text)
