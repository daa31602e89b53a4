"""Connections that the inspector has: whose each is, and what the inspector says of it, in the ledger of its cage.

The inspector parses what strangers send, so its words are taken for a stranger's: a rule is one that there is, a fix is
made here, and the rest is text of bounded length.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context

from pysandbox._native import lib
from pysandbox.gate import contract as contracts
from pysandbox.gate.inspection.channel import ChannelRecord, Kind
from pysandbox.gate.rules import Decision
from pysandbox.policy.secret import RULES
from pysandbox.shapes import TYPE_CHECKING, Any, Protocol, dataclass

if TYPE_CHECKING:
    from pysandbox.compile.plan import Contract, NetPlan
    from pysandbox.gate.ledger import Ledger
    from pysandbox.gate.sent import LeakCaller
    from pysandbox.gate.tcp.target import DialTarget
    from pysandbox.gate.trusted import KnownPlan

ODD = re.compile(r"[^\x21-\x7e ]")
OF_A_SCAN = re.compile(r"dlp\.[a-z0-9_-]{1,40}")
VERDICTS = ("blocked", "warned", "home", "listed")
COLUMNS = (*contracts.COLUMNS, "tls")
UNTRUSTED = (
    "the program does not trust the authority of this cage, which looks into its TLS: let it read the certificates in "
    '$SSL_CERT_FILE; or let the host pass as a whole, with tls = "pass" and no other column'
)


class Served(Protocol):
    """The session of a cage, as far as it is needed here."""

    net: NetPlan
    ledger: Ledger
    number: int  # of the cage
    ended: bool
    leak_caller: LeakCaller | None
    canaries: Mapping[str, str]


@dataclass(slots=True)
class HeldConnection:
    """One connection at the inspector."""

    session: Served
    target: DialTarget
    contract: Contract
    secure: bool
    over: Callable[[bool], object]
    context: Context  # of the task that serves it: who asks
    secrets: int = 0  # the number of those of its cage

    @property
    def leak_seconds(self) -> float:
        """How long the host's callback may take for a question; 0: there is none."""
        return self.session.leak_caller.seconds if self.session.leak_caller is not None else 0.0

    def opening(self, number: int, plan: KnownPlan, said: bytes, *, proxied: bool) -> ChannelRecord:
        """What the inspector is told of it, with its two sockets. `said` was read of the client already."""
        fields = (
            str(plan.number), str(plan.contracts.index(self.contract)), self.target.host, str(self.target.port),
            str(self.secure | proxied << 1), str(self.secrets), str(self.leak_seconds),
        )  # fmt: skip
        return ChannelRecord(Kind.OPEN, number, (*(each.encode() for each in fields), said))


def canaries_of(session: Served) -> ChannelRecord:
    """The false credentials of a cage."""
    return ChannelRecord(Kind.CANARIES, session.number, (json.dumps(dict(session.canaries)).encode(),))


def book(record: ChannelRecord, held: HeldConnection | None, answer: Callable[[ChannelRecord], object]) -> None:
    """What the inspector says of it; only a question may come of a connection that is gone. Raises RuntimeError when
    the loop of its cage has ended, ValueError."""
    if record.kind is Kind.ASK:
        _consult(record, held, answer)
    elif held is None:
        return
    elif record.kind is Kind.OVER:
        held.over(record.fields[0] != b"0")
    elif record.kind in (Kind.REFUSED, Kind.UNTRUSTED, Kind.UPSTREAM, Kind.FOUND, Kind.PASSED):
        held.context.copy().run(_book, held, record)


def _book(held: HeldConnection, record: ChannelRecord) -> None:
    """Records what the inspector has refused. Its words are a stranger's."""
    said = [ODD.sub("?", each.decode("utf-8", "replace"))[:300] for each in record.fields]
    ledger, target = held.session.ledger, held.target
    if record.kind is Kind.UNTRUSTED:
        if said[0]:
            ledger.denied("tcp", *target, Decision(False, UNTRUSTED, ""))
    elif record.kind is Kind.FOUND:
        detector, place, shown, verdict = said
        ledger.found(target.host, detector, place, shown, verdict if verdict in VERDICTS else "blocked")
    elif record.kind is Kind.PASSED:
        ledger.passed(target.host, target.port, *said)
    elif record.kind is Kind.UPSTREAM:
        ledger.denied("tcp", *target, Decision(False, f"TLS with the server failed: {said[0]}", ""))
    else:
        column, why, value, method, path = said
        if OF_A_SCAN.fullmatch(column):
            fix = contracts.fix(target.host, held.contract, column, value)
            ledger.denied("dlp", target.host, None, Decision(False, column, fix))
            return
        rule = f"host.{column}" if column in COLUMNS else column if column in RULES else why
        fix = contracts.fix(target.host, held.contract, column, value)
        asked = f"{_origin(target, held.secure)}{path}" if path.startswith("/") else path
        ledger.denied("http", f"{method} {asked}", None, Decision(False, rule, fix))


def _origin(target: DialTarget, secure: bool) -> str:
    """As a URL begins: with the port where that is not the scheme's own."""
    scheme, usual = ("https", 443) if secure else ("http", 80)
    return f"{scheme}://{target.host}" if target.port == usual else f"{scheme}://{target.host}:{target.port}"


def _consult(record: ChannelRecord, held: HeldConnection | None, answer: Callable[[ChannelRecord], object]) -> None:
    """Asks the host's callback what the inspector asks. Raises ValueError for what is no question."""
    question, place, offset, said = record.fields
    number = int(question)

    def reply(why: str) -> None:
        with suppress(OSError):  # nobody waits any more
            answer(ChannelRecord(Kind.ANSWER, number, (why.encode(),)))

    if held is None or held.session.leak_caller is None:
        reply("nobody is there to be asked")
        return
    from pysandbox.gate.sent import SentPart

    part = SentPart(held.target.host, ODD.sub("?", place.decode("utf-8", "replace"))[:300], said, int(offset))
    held.session.leak_caller.ask(part, reply)


def held_for(
    session: Served, target: DialTarget, contract: Contract, secure: bool, over: Callable[[bool], Any], secrets: int = 0
) -> HeldConnection:
    """For the task that is running. `secrets`: the number of those of its cage."""
    return HeldConnection(session, target, contract, secure, over, copy_context(), secrets)


def cut(sock: socket.socket) -> None:
    """Resets a connection of which the inspector has a duplicate."""
    if sock.fileno() >= 0:
        lib.psb_cut_socket(sock.fileno())
