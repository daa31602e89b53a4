"""What the gatekeeper has let through and refused for one cage: counters of everything, and events of what is new.

A cage may ask a million times, so what is kept is bounded: the first refusal of each target is an event, the next ones
are counted; when KINDS_KEPT different targets were refused, all further ones are one. One with a credential in it
counts as one of these whatever it is told as, so no flood is scanned for longer than that. Any thread may call it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from pysandbox.denial import EVERY_HOST, FURTHER, Denial, further_of
from pysandbox.events import (
    CREDENTIAL_FOUND,
    CROWDED,
    DENIED,
    DNS_ALLOWED,
    DNS_DENIED,
    TCP_ALLOWED,
    TCP_DENIED,
    UNKNOWN_CONTRACT,
    UPSTREAM_UNREACHABLE,
    Event,
    Sink,
    said_elsewhere,
)
from pysandbox.events import ignore as ignored
from pysandbox.gate.hidden import HiddenDenials
from pysandbox.gate.rules import Decision
from pysandbox.handlers.fix import spelled
from pysandbox.live.askers import attributed
from pysandbox.live.commands import Asker, Commands
from pysandbox.shapes import replace

Key = tuple[str, str, str, int | None, tuple[int, ...]]  # kind, target, rule, and whose it is

KINDS_KEPT = 256  # different refusals of one cage
LONGEST_TARGET = 300  # characters of what is told of a target; a name has at most 253
A_NAME, A_REQUEST = "a name", "a request"  # of which no more is told
CUT_OFF = (
    "the process that reads at the doors of this cage has ended: {why}. Nobody can take them over, so each connection "
    "and each name that is asked for fails from now on; run the command in a new Cage, which has doors again"
)
CUT_OFF_DOOR = (
    "a door of this cage was not handed to the process that reads there: {why}. What is asked for at it fails from now "
    "on; run the command in a new Cage, which has doors again"
)
ERROR_PAUSE = 10.0  # seconds until the same fault upstream is told again

ALLOWED = {"dns": DNS_ALLOWED.name, "tcp": TCP_ALLOWED.name, "udp": "udp_allowed"}
REFUSED = {"dns": DNS_DENIED.name, "tcp": TCP_DENIED.name, "udp": "udp_denied", "http": "http_denied",
           "dlp": "dlp_denied"}  # fmt: skip


class Ledger:
    """`counts` is by type of event; UDP, which has no event of its own, is counted as udp_allowed and udp_denied."""

    def __init__(
        self, cage_id: str, sink: Sink, clock: Callable[[], float] = time.monotonic, *,
        who: Callable[[], Asker] = Asker, commands: Commands | None = None,
    ) -> None:  # fmt: skip
        """`who` asks now is looked up where a refusal is new, or may be of more than one of the `commands`."""
        self._id, self._sink, self._clock = cage_id, sink, clock
        self._who, self._commands = who, commands or Commands()
        self._counts: dict[str, int] = {}
        self._denials: dict[Key, tuple[Denial, Asker]] = {}
        self._hidden = HiddenDenials()
        self._told: tuple[str, float] = ("", -ERROR_PAUSE)
        self._crowded: dict[str, float] = {}
        self._found: set[tuple[str, ...]] = set()
        self.credential_in: Callable[[str], str] = lambda name: ""  # where what is sent is scanned
        self._cut_off = ""  # why all that is asked of the network fails
        self._lock = threading.Lock()

    @property
    def counts(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._counts)

    @property
    def only_counts(self) -> bool:
        """Whether nobody hears of what is let through."""
        return self._sink in (ignored, said_elsewhere)

    def count_allowed_tcp(self, count: int) -> None:
        """Counts connections that were let through elsewhere, where nobody hears of them."""
        if count:
            self._count(ALLOWED["tcp"], count)

    def denials(self) -> tuple[Denial, ...]:
        """Each different refusal, with how often it happened."""
        with self._lock:
            recorded = list(self._denials.values())
            if self._cut_off:
                recorded += self._also_cut_off(recorded)
        only = self._commands.only()
        return attributed(
            ((replace(each, command=each.command or only), who) for each, who in recorded), self._commands
        )

    def cut_off(self, why: str, *, is_one_door: bool = False) -> None:
        """Records that whatever the cage asks the network for, or asks for at one door, fails from now on; each command
        that runs then, or is begun later, is told so, where it has not succeeded (`ProcessState`)."""
        self._cut_off = (CUT_OFF_DOOR if is_one_door else CUT_OFF).format(why=why[:LONGEST_TARGET])
        self.denied("tcp", EVERY_HOST, None, Decision(False, self._cut_off, ""))

    def _also_cut_off(self, recorded: list[tuple[Denial, Asker]]) -> list[tuple[Denial, Asker]]:
        told = {each.command for each, _ in recorded if each.rule == self._cut_off}
        one = Denial("tcp", EVERY_HOST, self._cut_off, "")
        return [(replace(one, command=each), Asker()) for each in self._commands.running() if each not in told]

    def denied(self, kind: str, target: str, port: int | None, decision: Decision) -> None:
        """Records a refusal; `kind` is dns, tcp, udp, http or dlp. Never raises: the refusal stands even if the record
        fails."""
        target = target[:LONGEST_TARGET]
        shown = target if port is None else f"{_bracketed(target)}:{port}"
        denial = Denial(kind, shown, decision.rule, decision.fix, command=self._commands.sole())
        self._count(REFUSED[kind])
        if self._is_known(self._hidden.told(denial)):
            return
        asker, asked = self._who(), denial
        target, denial, argv = self._without_credential(target, denial, asker.argv)
        is_hidden = (denial.target, denial.rule) != (asked.target, asked.rule)
        if is_hidden and not self._is_full():
            self._hidden.keep(asked, denial)
            is_hidden = False
        command = denial.command if denial.command is not None else self._commands.of(asker)
        denial = replace(denial, pid=asker.pid, argv=argv, command=command)
        if self._is_new(denial, asker, is_further=is_hidden):
            with suppress(Exception):  # the sink is the user's
                self._sink(self._denied_event(denial, target, port))

    def allowed(self, kind: str, target: str, port: int | None = None, resolved: str = "") -> None:
        """Records what is let through. Raises what the sink does (AuditError): what cannot be recorded is refused."""
        self._count(ALLOWED[kind])
        if self.only_counts or kind == "udp":
            return
        data = {"hostname": target, "resolved_ip": resolved} if kind == "dns" else {"target": target, "port": port}
        self._sink(Event(ALLOWED[kind], {"invocation_id": self._id, **data}))

    def found(self, host: str, detector: str, place: str, shown: str, verdict: str) -> None:
        """Records a credential in what was to be sent; `verdict` says what came of it."""
        self._count(CREDENTIAL_FOUND.name)
        key = host, detector, place, shown, verdict
        with self._lock:
            if key in self._found or len(self._found) >= KINDS_KEPT:
                return
            self._found.add(key)
        data = {"host": host, "detector": detector, "place": place, "shown": shown, "verdict": verdict}
        with suppress(Exception):
            self._sink(Event(CREDENTIAL_FOUND.name, {"invocation_id": self._id, **data}))

    def passed(self, host: str, port: int, method: str, path: str, content_type: str) -> None:
        """Records a request to a host of which nobody has said what it may be sent."""
        self._count(UNKNOWN_CONTRACT.name)
        data = {"host": host, "port": port, "method": method, "path": path, "content_type": content_type}
        with suppress(Exception):
            self._sink(Event(UNKNOWN_CONTRACT.name, {"invocation_id": self._id, **data}))

    def found_name(self, pattern: str, name: str) -> None:
        """Records that a name below a pattern says what no word does."""
        self.found(pattern, "dns_entropy", "a name", name[:LONGEST_TARGET], "warned")

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
        """Records that the cage had to wait, or was refused, because its share of a common resource is used up."""
        self._count(CROWDED.name)
        now = self._clock()
        with self._lock:
            if now - self._crowded.get(what, -ERROR_PAUSE) < ERROR_PAUSE:
                return
            self._crowded[what] = now
        with suppress(Exception):
            self._sink(Event(CROWDED.name, {"invocation_id": self._id, "what": what, "held": held}))

    def _count(self, what: str, count: int = 1) -> None:
        with self._lock:
            self._counts[what] = self._counts.get(what, 0) + count

    def _is_known(self, denial: Denial) -> bool:
        """Counts one more of what a sole command was refused before, or of what is told apart no more: nobody needs to
        look who asks."""
        key: Key = (denial.kind, denial.target, denial.rule, denial.command, ())
        with self._lock:
            if key not in self._denials and self._is_full():
                key = self._further(denial)
            before = self._denials.get(key) if denial.command is not None or key[1] == FURTHER else None
            if before is not None:
                self._denials[key] = replace(before[0], count=before[0].count + 1), before[1]
            return before is not None

    def _is_full(self) -> bool:
        return len(self._denials) + len(self._hidden) >= KINDS_KEPT

    def _further(self, denial: Denial) -> Key:
        """The key of what is told apart no more; a single command's, while there is room for that."""
        return denial.kind, FURTHER, "", denial.command if len(self._denials) < 2 * KINDS_KEPT else None, ()

    def _is_new(self, denial: Denial, asker: Asker, *, is_further: bool) -> bool:
        leaders = asker.leaders if denial.command is None else ()
        key: Key = (denial.kind, denial.target, denial.rule, denial.command, leaders)
        with self._lock:
            if is_further or (key not in self._denials and self._is_full()):
                key = self._further(denial)
                denial, asker = replace(further_of(denial.kind, 1), command=key[3]), Asker()
            before = self._denials.get(key)
            count = before[0].count + 1 if before is not None else 0
            self._denials[key] = (replace(before[0], count=count), before[1]) if before else (spelled(denial), asker)
            return before is None

    def _without_credential(
        self, target: str, denial: Denial, argv: tuple[str, ...]
    ) -> tuple[str, Denial, tuple[str, ...]]:
        """What is told has none in it. Where one was to be sent, an argument may hold it, in whatever spelling."""
        hides = denial.kind == "dlp" or any(map(self.credential_in, argv))
        if denial.kind != "dlp" and self.credential_in(target):
            hides, target = True, A_REQUEST if denial.kind == "http" else A_NAME
            denial = replace(denial, target=target, fix="")
        if self.credential_in(denial.rule):
            hides, denial = True, replace(denial, rule=A_NAME, fix="")
        return target, denial, tuple(each for each in argv[:1] if not self.credential_in(each)) if hides else argv

    def _denied_event(self, denial: Denial, target: str, port: int | None) -> Event:
        known = {"command": denial.command, "pid": denial.pid, "argv": denial.argv or None}
        data: dict[str, object] = {name: each for name, each in known.items() if each is not None}
        data |= {"invocation_id": self._id, "rule": denial.rule, "fix": denial.fix}
        if denial.kind == "dns":
            return Event(DNS_DENIED.name, data | {"hostname": target})
        if denial.kind == "tcp":
            return Event(TCP_DENIED.name, data | {"target": target, "port": port})
        return Event(DENIED.name, data | {"kind": denial.kind, "target": denial.target})


def _bracketed(target: str) -> str:
    return f"[{target}]" if ":" in target else target
