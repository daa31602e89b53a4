"""A `Denial`: what was refused, by which rule, to whom, and what would allow it. Data, and pure."""

from __future__ import annotations

from pysandbox.shapes import dataclass


@dataclass(frozen=True, slots=True)
class Denial:
    """One thing that was refused. `fix` is TOML that would allow it, to be pasted at the end of any recipe or manifest;
    `flag` is the same as flags of `pysandbox run`, `python` as an expression of `policy`, the one that refused it
    (`handlers.fix.spelled` makes both of the first). Each is "" where nothing in a policy does.

    `kind` is "network", "exec", "file", "syscall" or "process" (a fork); of what the gatekeeper refused, "dns", "tcp",
    "udp", "http" (one request) or "dlp" (a credential in one; the target is the host that it was for).
    `pid` (the host's number) and `argv` are of the first process that asked: None and () where that is not known.
    `command` is the number of the command that it belongs to, the first of a cage is 1; None where it may have been
    another one's too. `count` is how often it was asked. `call` is the system call and `errno` what it was answered,
    "" and 0 where that is not known.
    """

    kind: str
    target: str
    rule: str
    fix: str
    pid: int | None = None
    argv: tuple[str, ...] = ()
    count: int = 1
    command: int | None = None
    flag: str = ""
    python: str = ""
    call: str = ""
    errno: int = 0


EVERY_HOST = "(every host)"  # of a cage whose doors are lost
FURTHER = "(further targets)"  # of those that are counted, and told apart no more


# The rules behind a refusal that no policy lifts, and that --monitor does not lift either.
NEVER, NEVER_SO = "never allowed in a cage", "never allowed in a cage with these arguments"


def monitor_passes(denial: Denial) -> bool:
    """Whether --monitor lets it go on: calls and programs, but what no cage may do. Files and network stay closed."""
    return denial.kind in ("exec", "syscall") and denial.rule not in (NEVER, NEVER_SO)


def further_of(kind: str, count: int = 0) -> Denial:
    """All refusals of a kind beyond those that were told apart, as one."""
    return Denial(kind, FURTHER, "", "", count=count)
