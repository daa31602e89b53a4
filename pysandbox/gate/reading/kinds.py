"""The records between the host program and the reader, in the form of `inspection.channel`, and how a peer is written.

Whatever the reader says is a stranger's word: a number that is none, a cage that it was not given, a connection that it
does not have, is the end of the channel.
"""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv4Address

from pysandbox.gate.askers import DoorClient
from pysandbox.gate.dns.message import LONGEST_NAME


class Verb(IntEnum):
    """To the reader: CAGE (a number; its rules, whether requests are looked at), DOOR (a number; of which cage, what is
    spoken there, the protocol; a descriptor), SHUT (a door), RULES (of a cage, narrower ones), ENDED (a cage), PING;
    DIALLED, REFUSED, FAILED, ANSWERED, BOOKED, which answer a call by its number; OVER (a connection that it has handed
    over), CUT (one that it has).

    From it: calls, each with a number of its own: DIAL, LOOKUP, DENIED; GIVE_UP (a call). About a connection: SPLICE
    (the client's descriptor), SAY, RELEASE, INSPECT (the client's descriptor), LET_GO. About a cage: NOTE_REFUSED,
    NOTE_LOST, CROWDED. SHUT (a door that cannot be served), UNOPENED (one whose descriptor was lost), READY, PONG.

    To the relay's thread (csrc/host/relay/dial.h), over a channel of its own: DIAL, answered by DIALLED or FAILED; PASS
    (a client that was judged, and what was read of it), answered by FAILED, or by OVER at its end; OFFER (a client that
    asks, and what it is told when it has what it wants), answered by the same, or by DIALLED. GO (what its client has
    said first was judged) and FETCH (answer with DIALLED) are of such a call. LET_GO of a call ends what it has
    passed."""

    CAGE = 1
    DOOR = 2
    SHUT = 3
    RULES = 4
    ENDED = 5
    PING = 6
    DIALLED = 7
    REFUSED = 8
    FAILED = 9
    ANSWERED = 10
    BOOKED = 11
    OVER = 12
    CUT = 13
    DIAL = 14
    LOOKUP = 15
    DENIED = 16
    GIVE_UP = 17
    SPLICE = 18
    SAY = 19
    RELEASE = 20
    INSPECT = 21
    LET_GO = 22
    NOTE_REFUSED = 23
    NOTE_LOST = 24
    CROWDED = 25
    READY = 26
    PONG = 27
    PASS = 28
    OFFER = 29
    GO = 30
    FETCH = 31
    UNOPENED = 32


FIELDS = {
    Verb.CAGE: 2, Verb.DOOR: 3, Verb.SHUT: 0, Verb.RULES: 1, Verb.ENDED: 0, Verb.PING: 0,
    Verb.DIALLED: 4, Verb.REFUSED: 4, Verb.FAILED: 4, Verb.ANSWERED: 1, Verb.BOOKED: 0, Verb.OVER: 1, Verb.CUT: 0,
    Verb.DIAL: 4, Verb.LOOKUP: 7, Verb.DENIED: 6, Verb.GIVE_UP: 0,
    Verb.SPLICE: 2, Verb.SAY: 1, Verb.RELEASE: 1, Verb.INSPECT: 3, Verb.LET_GO: 0,
    Verb.NOTE_REFUSED: 2, Verb.NOTE_LOST: 4, Verb.CROWDED: 2, Verb.READY: 0, Verb.PONG: 0,
    Verb.PASS: 4, Verb.OFFER: 4, Verb.GO: 1, Verb.FETCH: 0, Verb.UNOPENED: 0,
}  # fmt: skip
WITH_DESCRIPTOR = frozenset((Verb.DOOR, Verb.DIALLED, Verb.SPLICE, Verb.INSPECT, Verb.PASS, Verb.OFFER))
FROM_READER = frozenset((Verb.DIAL, Verb.LOOKUP, Verb.DENIED, Verb.GIVE_UP, Verb.SPLICE, Verb.SAY, Verb.RELEASE,
                         Verb.INSPECT, Verb.LET_GO, Verb.NOTE_REFUSED, Verb.NOTE_LOST, Verb.CROWDED, Verb.SHUT,
                         Verb.READY, Verb.PONG, Verb.UNOPENED))  # fmt: skip
OF_DIALLER = 1 << 63  # in the number of a connection: the relay's thread has dialled it
NO_PORT = 1 << 16
LONGEST_SAID = 1 << 17  # bytes of a client's in one record
PROTOCOLS = ("tcp", "udp")


def number(said: bytes, most: int = NO_PORT) -> int:
    """A decimal number, not above `most`. Raises ValueError."""
    if not said.isdigit() or len(said) > 20 or int(said) > most:
        raise ValueError("no number, or one that is too large")
    return int(said)


def write_peer(peer: DoorClient | None) -> bytes:
    if peer is None:
        return b""
    places = (peer.local, *((peer.remote,) if peer.remote is not None else ()))
    return " ".join((peer.protocol, *(f"{host} {port}" for host, port in places))).encode()


def read_peer(said: bytes) -> DoorClient | None:
    """Raises ValueError."""
    words = said.decode("ascii").split()
    if not words:
        return None
    if len(words) not in (3, 5) or words[0] not in PROTOCOLS:
        raise ValueError("no peer")
    places = [
        (str(IPv4Address(host)), number(port.encode())) for host, port in zip(words[1::2], words[2::2], strict=True)
    ]
    return DoorClient(words[0], places[0], places[1] if len(places) > 1 else None)


def labels_of(said: bytes) -> tuple[bytes, ...]:
    """Raises ValueError."""
    if len(said) > LONGEST_NAME:
        raise ValueError("a name that is too long")
    found, at = [], 0
    while at < len(said):
        size = said[at]
        if not 0 < size <= 63 or at + 1 + size > len(said):
            raise ValueError("no name")
        found.append(said[at + 1 : at + 1 + size])
        at += 1 + size
    return tuple(found)
