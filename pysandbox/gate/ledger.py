"""What the gatekeeper has let through and refused for one cage: counters of everything, and events of what is new.

A cage may ask a million times, so what is kept is bounded: the first refusal of each target is an event, the next ones
are counted; when KINDS_KEPT different targets were refused, all further ones are one. Any thread may call it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pysandbox.events import (
    CROWDED,
    DENIED,
    DNS_ALLOWED,
    DNS_DENIED,
    TCP_ALLOWED,
    TCP_DENIED,
    UPSTREAM_UNREACHABLE,
    Event,
    Sink,
)
from pysandbox.events import ignore as ignored
from pysandbox.handlers.denial import FURTHER, Denial

if TYPE_CHECKING:
    from pysandbox.gate.rules import Decision

KINDS_KEPT = 256  # different refusals of one cage
LONGEST_TARGET = 300  # characters of what is told of a target; a name has at most 253
ERROR_PAUSE = 10.0  # seconds until the same fault upstream is told again

ALLOWED = {"dns": DNS_ALLOWED.name, "tcp": TCP_ALLOWED.name, "udp": "udp_allowed"}
REFUSED = {"dns": DNS_DENIED.name, "tcp": TCP_DENIED.name, "udp": "udp_denied"}


class Ledger:
    """`counts` is by type of event; UDP, which has no event of its own, is counted as udp_allowed and udp_denied."""

    def __init__(self, cage_id: str, sink: Sink, clock: Callable[[], float] = time.monotonic) -> None:
        self._id, self._sink, self._clock = cage_id, sink, clock
        self._counts: dict[str, int] = {}
        self._denials: dict[tuple[str, str, str], Denial] = {}
        self._told: tuple[str, float] = ("", -ERROR_PAUSE)
        self._crowded: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def counts(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._counts)

    def denials(self) -> tuple[Denial, ...]:
        """Each different refusal, with how often it came."""
        with self._lock:
            return tuple(self._denials.values())

    def denied(self, kind: str, target: str, port: int | None, decision: Decision) -> None:
        """`kind` is dns, tcp or udp. Never raises: it is refused whatever becomes of the record."""
        target = target[:LONGEST_TARGET]
        shown = target if port is None else f"{_bracketed(target)}:{port}"
        denial = Denial(kind, shown, decision.rule, decision.fix)
        if self._is_new(REFUSED[kind], denial):
            with suppress(Exception):  # the sink is the user's
                self._sink(self._denied_event(denial, target, port))

    def allowed(self, kind: str, target: str, port: int | None = None, resolved: str = "") -> None:
        """Raises what the sink does (AuditError): what cannot be recorded is not let through."""
        self._count(ALLOWED[kind])
        if self._sink is ignored or kind == "udp":
            return
        data = {"hostname": target, "resolved_ip": resolved} if kind == "dns" else {"target": target, "port": port}
        self._sink(Event(ALLOWED[kind], {"invocation_id": self._id, **data}))

    def unreachable(self, error: str) -> None:
        """A resolver of the host does not answer."""
        self._count(UPSTREAM_UNREACHABLE.name)
        now = self._clock()
        with self._lock:
            before, told = self._told
            if error == before and now - told < ERROR_PAUSE:
                return
            self._told = error, now
        with suppress(Exception):
            self._sink(Event(UPSTREAM_UNREACHABLE.name, {"invocation_id": self._id, "error": error}))

    def crowded(self, what: str, held: int) -> None:
        """The cage had to wait, or to go without, for it has its share of what all cages have in common."""
        self._count(CROWDED.name)
        now = self._clock()
        with self._lock:
            if now - self._crowded.get(what, -ERROR_PAUSE) < ERROR_PAUSE:
                return
            self._crowded[what] = now
        with suppress(Exception):
            self._sink(Event(CROWDED.name, {"invocation_id": self._id, "what": what, "held": held}))

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] = self._counts.get(what, 0) + 1

    def _is_new(self, what: str, denial: Denial) -> bool:
        key = denial.kind, denial.target, denial.rule
        with self._lock:
            self._counts[what] = self._counts.get(what, 0) + 1
            if key not in self._denials and len(self._denials) >= KINDS_KEPT:
                key = denial.kind, FURTHER, ""
                denial = replace(denial, target=FURTHER, rule="", fix="")
            before = self._denials.get(key)
            self._denials[key] = denial if before is None else replace(before, count=before.count + 1)
            return before is None

    def _denied_event(self, denial: Denial, target: str, port: int | None) -> Event:
        data: dict[str, object] = {"invocation_id": self._id, "rule": denial.rule, "fix": denial.fix}
        if denial.kind == "dns":
            return Event(DNS_DENIED.name, data | {"hostname": target})
        if denial.kind == "tcp":
            return Event(TCP_DENIED.name, data | {"target": target, "port": port})
        return Event(DENIED.name, data | {"kind": denial.kind, "target": denial.target})


def _bracketed(target: str) -> str:
    return f"[{target}]" if ":" in target else target
