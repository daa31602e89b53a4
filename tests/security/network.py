"""Attacks on the ways out of a cage, run by a host in the internet of the tests (`_support.internet`).

`attack(host, body, ..., hosts=[...])` is the cage, `control(host, body)` the same program where the host itself is.
What each entrance said is in `Said`; that nothing arrived is for the internet to tell, never for the cage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _support.internet import Answer, Host

from .harness import program, read_report

DOORS = Path(__file__).with_name("attacks") / "doors.py"
# What an entrance says when it does not let through: the SOCKS reply, the HTTP status, the reset of a transparent
# connection, or no name and no route in the first place.
REFUSALS = frozenset(
    ("SOCKS 2", "SOCKS 1", "SOCKS 4", "SOCKS 8", "400", "403", "415", "421", "502", "closed", "reset", "ECONNREFUSED",
     "ECONNRESET", "ENETUNREACH", "EHOSTUNREACH", "EPERM", "EACCES", "EPROTONOSUPPORT", "EAFNOSUPPORT")
)  # fmt: skip


@dataclass(frozen=True)
class Said:
    """What the doors said to each attempt, and what the host heard of it."""

    values: Mapping[str, Any]
    answer: Answer

    def __getitem__(self, name: str) -> Any:
        assert name in self.values, f"never tried {name!r}: {self.answer}"
        return self.values[name]

    def let_through(self, refusals: Collection[str] = REFUSALS) -> dict[str, Any]:
        """Every attempt that was not refused; {} is most claims."""
        assert self.values, self.answer
        return {name: value for name, value in self.values.items() if value not in refusals}


def attack(
    host: Host, *bodies: str, names: Mapping[str, object] | None = None, timeout: float = 60, **policy: Any
) -> Said:
    """In a cage of this policy."""
    return said(host.run(program(DOORS.read_text(), *bodies, **(names or {})), timeout=timeout, **policy))


def control(host: Host, *bodies: str, names: Mapping[str, object] | None = None) -> Said:
    """Runs the bodies without a cage."""
    return said(host.uncaged(program(DOORS.read_text(), *bodies, **(names or {}))))


def said(answer: Answer) -> Said:
    assert not answer.failed, answer.failed.strip().splitlines()[-1]
    report = read_report(answer.exit_code, answer.stdout, answer.stderr)
    return Said(
        {name: each.value if each.errno is None else each.errno for name, each in report.attempts.items()}, answer
    )
