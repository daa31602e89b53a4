"""The inspector at work: records of the host program in, connections served, records about them out.

It knows no more of a connection than its record says: two sockets, the plan that they belong to, a host and a port.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from weakref import WeakValueDictionary

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.asking import Questions
from pysandbox.gate.inspection.ca import SigningAuthority
from pysandbox.gate.inspection.channel import OF_CAGE, BadChannelRecord, ChannelRecord, Kind, LostDescriptors
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.in_flight import InFlight
from pysandbox.gate.inspection.loop import HOST, IN, Loop
from pysandbox.gate.inspection.mirror import ClearSide, Parts, mirrored, offered_by
from pysandbox.gate.inspection.pair import InspectedPair
from pysandbox.gate.inspection.record_meter import Broken
from pysandbox.gate.inspection.revoked import UpstreamContext, upstream_context
from pysandbox.gate.inspection.secrets import ConnectionSecrets, SecretSet
from pysandbox.gate.inspection.sides import HTTP1, HTTP2, ClientSide, PlainSide, ServerSide, Side
from pysandbox.gate.inspection.terms import ALLOWED, Terms, Told
from pysandbox.policy.names import matches
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.dlp.spending import Spending
    from pysandbox.gate.inspection.scanning import ConnectionScan, CredentialFound, PlanScan

LONGEST_PLAN = 1 << 24
SHOWN = 400  # bytes of what a record tells
MOST_SESSIONS = 1024
SECURE, PROXIED = 1, 2  # flags of an OPEN record
SCHEMES = {"": "", "http": HTTP1, "h2c": HTTP2}  # what a server is spoken to in, whatever its client has; "": as that


class HeldPlan:
    """What the hosts of one plan are held to, and the authority that signs for them."""

    def __init__(self, said: bytes, upstream: Callable[[str], UpstreamContext]) -> None:
        """`upstream`: to servers, with more authorities than the host's own."""
        given = json.loads(said)
        self.contracts = [
            Contract(tuple(each["methods"]), tuple(each["paths"]), tuple(each["content_types"]),
                     each["max_request_bytes"], tuple(each["ports"]), bool(each["websocket"]),
                     tuple(each["credentials"]), bool(each["told"]), tuple(each["private"]))
            for each in given["contracts"]
        ]  # fmt: skip
        self.patience: float = given["timeout_ms"] / 1000
        self.most: int = given["most_bytes"]
        self.clear = SCHEMES[given["upstream_scheme"]]
        self.authority = SigningAuthority(given["patterns"])
        self.upstream = upstream(given["upstream_ca"])
        self.sessions: dict[tuple[str, int], ssl.SSLSession] = {}
        self.scan = None if given["scan"] is None else _plan_scan(given["scan"])
        self._patterns: list[str] = given["patterns"]

    def destination(self, host: str) -> str:
        """What a host is counted as: all names below a pattern are one."""
        found = [each for each in self._patterns if matches(each, host)]
        return host if host in found else max(found, key=len, default=host)

    def server_side(self, server: socket.socket, terms: Terms, offered: Sequence[str]) -> Side:
        """`offered`: what the client speaks. Raises OSError."""
        if self.clear:
            return ClearSide(server, self.clear, offered)
        if not terms.secure:
            return PlainSide(server)
        return ServerSide(server, self.upstream, terms.host, self.sessions.get((terms.host, terms.port)), offered)


class CageScan(NamedTuple):
    """What is looked for in one cage, and what each host was sent of opaque bytes. `said`: what it was made of."""

    scan: PlanScan
    said: tuple[PlanScan, bytes]
    spent: dict[str, Spending]


def _plan_scan(given: Mapping[str, Any]) -> PlanScan:
    """What scans was imported when the inspector started: nothing can be imported now."""
    from pysandbox.gate.inspection.scanning import PlanScan

    return PlanScan(given)


class Inspector:
    def __init__(self, host: socket.socket, roots: str) -> None:
        self._host, self._roots, self._loop = host, roots, Loop()
        self._plans: dict[int, HeldPlan] = {}
        self._upstreams: WeakValueDictionary[str, UpstreamContext] = WeakValueDictionary()
        self._pairs: dict[int, InspectedPair] = {}
        self._secrets: dict[int, SecretSet] = {}
        self._in_flight: dict[int, InFlight] = {}  # by cage
        self._scans: dict[int, CageScan] = {}
        self._canaries: dict[int, bytes] = {}  # of each cage that is scanned: its false credentials
        self._of_secrets: dict[int, ConnectionSecrets] = {}  # by pair
        self._is_on = True
        self._questions = Questions(
            host, self._say, lambda: self._loop.soon(lambda: self._take_record(0), HOST), self._revoke
        )

    def run(self) -> None:
        """Until the host program closes the channel, or says what makes no sense."""
        self._loop.wait_for(self._host.fileno(), IN, self._take_record)
        self._say(Kind.READY, 0)
        self._loop.run(lambda: self._is_on)

    def _say(self, kind: Kind, number: int, *fields: str | bytes) -> None:
        said = tuple(each if isinstance(each, bytes) else each.encode("utf-8", "replace")[:SHOWN] for each in fields)
        self._host.setblocking(True)  # what is refused is told before anybody is answered
        try:
            self._host.sendmsg([channel.encode(ChannelRecord(kind, number, said))])
        except OSError:
            self._is_on = False

    def _take_record(self, _: int) -> None:
        try:
            received = self._questions.receive()
        except BlockingIOError:
            return
        except LostDescriptors as lost:
            self._go_without(lost.record)
            return
        except (BadChannelRecord, OSError):
            received = None
        if received is None:
            self._is_on = False
            return
        record, fds = received
        if record.kind is Kind.PLAN and len(fds) == 1:
            self._learn(record.number, fds[0])
        elif record.kind is Kind.OPEN and len(fds) == 2:
            self._open(record, *(socket.socket(fileno=fd) for fd in fds))
        else:
            for fd in fds:
                os.close(fd)
        self._obey(record)

    def _go_without(self, record: ChannelRecord) -> None:
        """No descriptor was left for what came along: a connection is over, and without a plan there is nothing."""
        if record.kind is Kind.OPEN and record.number not in self._pairs:
            self._say(Kind.OVER, record.number, b"1")
        else:
            self._is_on = False

    def _obey(self, record: ChannelRecord) -> None:
        if record.kind is Kind.CUT and record.number in self._pairs:
            self._pairs[record.number].end(reset=True)
        elif record.kind is Kind.PING:
            self._say(Kind.PONG, record.number)
        elif record.kind is Kind.SECRETS:
            self._secrets[record.number] = SecretSet(record.fields[0])
        elif record.kind is Kind.REVOKE and record.number in self._secrets:
            self._revoke(record)
        elif record.kind is Kind.ENDED:
            self._scans.pop(record.number, None)
            self._canaries.pop(record.number, None)
        elif record.kind is Kind.CANARIES:
            self._canaries[record.number] = record.fields[0]
        elif record.kind is Kind.DROP:
            self._plans.pop(record.number, None)  # what is served goes on
        elif record.kind is Kind.FORGET:
            self._secrets.pop(record.number, None)

    def _revoke(self, record: ChannelRecord, asking: int = 0) -> None:
        """When it has returned nothing is sent that had the value in it: whatever may have it and waits (for a
        handshake, for a server that takes nothing, for the rest of a body) ends here. Raises Broken where that is to
        end the connection `asking`, which is in the middle of something."""
        held, name = self._secrets.get(record.number), record.fields[0].decode()
        if held is None:
            return
        held.revoke(name)
        concerned = [number for number, of in self._of_secrets.items() if of.may_hold(held, name)]
        for number in concerned:
            if number != asking and self._pairs[number].unsent:
                self._pairs[number].end(reset=True)
        if asking in concerned:
            raise Broken("a secret was revoked meanwhile")

    def _learn(self, number: int, fd: int) -> None:
        with open(fd, "rb") as file:
            file.seek(0)
            plan = self._plans[number] = HeldPlan(file.read(LONGEST_PLAN), self._upstream)
        self._say(Kind.AUTHORITY, number, plan.authority.pem)

    def _upstream(self, more: str) -> UpstreamContext:
        """One for all plans with the same authorities, of which a host has hundreds; it keeps nothing of a session."""
        context = self._upstreams.get(more)
        if context is None:
            context = self._upstreams[more] = upstream_context(self._roots + more)
        return context

    # ---- a connection -------------------------------------------------------------------------------------------

    def _open(self, record: ChannelRecord, client: socket.socket, server: socket.socket) -> None:
        number = record.number
        try:
            of_plan, contract, host, port, flags, secrets, seconds, said = record.fields
            plan = self._plans[int(of_plan)]
            terms = Terms(host.decode("ascii"), int(port), bool(int(flags) & SECURE), bool(int(flags) & PROXIED),
                          plan.contracts[int(contract)], plan.most)  # fmt: skip
            held = (
                ConnectionSecrets(self._secrets[int(secrets)], terms.host, secure=terms.secure and not plan.clear)
                if int(secrets)
                else None
            )
            if number in self._pairs:
                raise ValueError("a number that is in use")
            of_cage = self._of_cage(number >> OF_CAGE, plan)
        except (ValueError, KeyError, IndexError):
            client.close()
            server.close()
            if number not in self._pairs:
                self._say(Kind.OVER, number, b"1")
            return
        client.setblocking(False)
        server.setblocking(False)
        scan = self._scan(number, plan, of_cage, terms, held, float(seconds))
        parts = terms, partial(self._tell, number, of_cage), held, scan
        self._serve(number, plan, parts, client, server, said)
        if held is not None and number in self._pairs:
            self._of_secrets[number] = held
        if scan is not None and number in self._pairs:
            scan.wake = self._pairs[number].soon

    def _of_cage(self, cage: int, plan: HeldPlan) -> CageScan | None:
        """None where nothing is scanned."""
        if plan.scan is None:
            return None
        canaries = self._canaries[cage]
        known = self._scans.get(cage)
        if known is None or known.said != (plan.scan, canaries):  # a gatekeeper that was begun anew counts from 1 again
            known = self._scans[cage] = CageScan(plan.scan.of_cage(json.loads(canaries)), (plan.scan, canaries), {})
        return known

    def _scan(
        self, number: int, plan: HeldPlan, of_cage: CageScan | None, terms: Terms, held: ConnectionSecrets | None,
        seconds: float,
    ) -> ConnectionScan | None:  # fmt: skip
        """`seconds`: how long the host's callback may take; 0: there is none."""
        if of_cage is None:
            return None
        from pysandbox.gate.inspection.scanning import ConnectionScan

        spending = of_cage.spent.setdefault(plan.destination(terms.host), of_cage.scan.spending())
        room = self._in_flight.setdefault(number >> OF_CAGE, InFlight()).room
        fakes = held.placeholders if held is not None else ()
        return ConnectionScan(
            of_cage.scan,
            terms.host,
            terms.contract.credentials,
            partial(self._found, number),
            room,
            fakes,
            spending,
            partial(self._questions.refused, number, seconds) if seconds else None,
        )

    def _found(self, number: int, found: CredentialFound) -> None:
        self._say(Kind.FOUND, number, *found)

    def _serve(
        self, number: int, plan: HeldPlan, parts: Parts, client: socket.socket, server: socket.socket, said: bytes
    ) -> None:
        towards: Side
        offered: tuple[str, ...] = (HTTP1,)
        terms, mirror = parts[0], None
        if terms.secure:
            offered = offered_by(said)
            towards = agreeing = ClientSide(client, plan.authority.context(terms.host), said)
            mirror = partial(mirrored, parts, agreeing, offered) if HTTP2 in offered else None
        else:
            towards = PlainSide(client, said)
        place = terms.host, terms.port
        try:
            beyond = plan.server_side(server, terms, offered)
        except OSError:  # it has hung up
            client.close()
            server.close()
            self._leave(number >> OF_CAGE)
            self._say(Kind.OVER, number, b"1")
            return
        self._pairs[number] = InspectedPair(
            self._loop, towards, beyond, Exchange(*parts), plan.patience,
            self._in_flight.setdefault(number >> OF_CAGE, InFlight()), number >> OF_CAGE, mirror=mirror,
            over=lambda reset: self._over(number, plan, place, beyond, reset=reset),
            untrusted=lambda why: self._say(Kind.UNTRUSTED, number, why),
            refused=lambda why: self._say(Kind.UPSTREAM, number, why),
        )  # fmt: skip

    def _tell(self, number: int, of_cage: CageScan | None, told: Told) -> None:
        if of_cage is not None:
            told = Told(told.column, *map(of_cage.scan.clean, told[1:]))
        if told.column == ALLOWED:
            self._say(Kind.PASSED, number, told.method, told.path, told.value)
            return
        self._say(Kind.REFUSED, number, told.column, told.why, told.value, told.method, told.path)

    def _leave(self, cage: int) -> None:
        """One of its connections is over, or has not begun."""
        if cage in self._in_flight and not self._in_flight[cage].is_used:
            del self._in_flight[cage]

    def _over(self, number: int, plan: HeldPlan, place: tuple[str, int], server: Side, *, reset: bool) -> None:
        self._pairs.pop(number, None)
        self._of_secrets.pop(number, None)
        self._leave(number >> OF_CAGE)
        kept = isinstance(server, ServerSide) and server.ready and not (server.has_failed or server.resumed)
        if isinstance(server, ServerSide) and kept and (session := server.session) is not None:
            if len(plan.sessions) >= MOST_SESSIONS:
                plan.sessions.clear()
            plan.sessions[place] = session
        self._say(Kind.OVER, number, b"1" if reset else b"0")
