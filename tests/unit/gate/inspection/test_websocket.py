"""A WebSocket on an inspected connection: opened by a handshake that is one, towards a host whose block says so, and
refused as soon as something in it cannot be held to what the policy says."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.frames import BINARY, CLOSE, CONTINUATION, PING, TEXT, frame
from pysandbox.gate.inspection.secrets import ConnectionSecrets, SecretSet
from pysandbox.gate.inspection.terms import Terms, Told
from pysandbox.gate.placeholders import placeholder_for

HOST = b"Host: api.example\r\n"
KEY, ACCEPT = b"dGhlIHNhbXBsZSBub25jZQ==", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # of RFC 6455, 1.3
ASKED = (
    b"GET /chat HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: " + KEY + b"\r\n"
)  # fmt: skip
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " + ACCEPT
    + b"\r\n"
)  # fmt: skip
OPEN = Contract(websocket=True)
VALUE = "sk-ant-" + "Real5ecretValue" * 3


def exchange(contract: Contract = OPEN, secrets: ConnectionSecrets | None = None, *, most: int = 1 << 20) -> Exchange:
    told: list[Told] = []
    made = Exchange(Terms("api.example", 443, True, False, contract, most), told.append, secrets)
    made.told = told  # type: ignore[attr-defined]
    return made


def opened(contract: Contract = OPEN, secrets: ConnectionSecrets | None = None, *, most: int = 1 << 20) -> Exchange:
    made = exchange(contract, secrets, most=most)
    made.client_said(ASKED + b"\r\n")
    made.server_said(SWITCHED + b"\r\n")
    assert made.to_client.startswith(b"HTTP/1.1 101 ") and not made.over
    made.to_client.clear()
    made.to_server.clear()
    return made


def status(made: Exchange) -> int:
    return int(made.to_client.split(b" ", 2)[1]) if made.to_client else 0


def unmasked(sent: bytes) -> bytes:
    """The content of one small frame of a client's."""
    mask, said = sent[2:6], sent[6:]
    return bytes(each ^ mask[at % 4] for at, each in enumerate(said))


def closed_with(made: Exchange) -> int:
    """The code of the close frame that a client was sent last."""
    assert made.over and not made.broken
    at = made.to_client.rindex(b"\x88")
    return int.from_bytes(made.to_client[at + 2 : at + 4], "big")


# ---- the handshake ----------------------------------------------------------------------------------------------


def test_it_is_opened_and_its_messages_pass_both_ways() -> None:
    made = exchange()
    made.client_said(ASKED + b"Origin: https://api.example\r\n\r\n")
    sent = bytes(made.to_server)
    assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in sent and b"Origin: " in sent
    assert made.is_waiting
    made.server_said(SWITCHED + b"\r\n" + frame(TEXT, b"welcome", masked=False))
    assert made.to_client.endswith(frame(TEXT, b"welcome", masked=False)) and not made.is_waiting
    made.to_server.clear()
    made.client_said(frame(TEXT, b"hello", masked=True))
    assert unmasked(made.to_server) == b"hello"


def test_a_host_whose_block_does_not_say_so_is_asked_for_none() -> None:
    made = exchange(Contract(("GET",)))
    made.client_said(ASKED + b"\r\n")
    assert (status(made), bytes(made.to_server), made.over) == (415, b"", True)
    assert b"x-pysandbox-rule: host.websocket" in made.to_client and b"websocket = true" in made.to_client
    assert [each.column for each in made.told] == ["websocket"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("contract", [Contract(("POST",), websocket=True), Contract(paths=("/v1/",), websocket=True)])
def test_its_handshake_is_held_like_any_request(contract: Contract) -> None:
    made = exchange(contract)
    made.client_said(ASKED + b"\r\n")
    assert (status(made), bytes(made.to_server)) == (415, b"")


def test_no_extension_is_agreed_on() -> None:
    made = exchange()
    made.client_said(ASKED + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
    assert b"xtensions" not in made.to_server
    made.server_said(SWITCHED + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
    assert status(made) == 502 and made.over


FALSE = {
    "with a body": ASKED + b"Content-Length: 5\r\n\r\nhello",
    "with chunks": ASKED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "by POST": ASKED.replace(b"GET", b"POST") + b"\r\n",
    "in HTTP/1.0": ASKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
    "without Connection": ASKED.replace(b"Connection: Upgrade\r\n", b"") + b"\r\n",
    "beside h2c": ASKED.replace(b"websocket", b"websocket, h2c") + b"\r\n",
    "twice": ASKED + b"Upgrade: websocket\r\n\r\n",
    "of a kind": ASKED.replace(b"websocket", b"websocket/13") + b"\r\n",
    "with a key that is none": ASKED.replace(KEY, b"short") + b"\r\n",
    "with a key in a second spelling": ASKED.replace(KEY, KEY[:-3] + b"R==") + b"\r\n",
    "with two keys": ASKED + b"Sec-WebSocket-Key: " + KEY + b"\r\n\r\n",
    "whose Connection takes the key away": ASKED.replace(b": Upgrade", b": Upgrade, Sec-WebSocket-Key", 1) + b"\r\n",
    "that closes": ASKED.replace(b"Connection: Upgrade", b"Connection: Upgrade, close") + b"\r\n",
}  # fmt: skip


@pytest.mark.parametrize("how", FALSE)
def test_a_handshake_that_is_none_is_refused(how: str) -> None:
    made = exchange()
    made.client_said(FALSE[how])
    assert (status(made), bytes(made.to_server), made.over) == (400, b"", True)


def test_another_version_is_refused_by_name() -> None:
    made = exchange()
    made.client_said(ASKED.replace(b"Version: 13", b"Version: 8") + b"\r\n")
    assert (status(made), bytes(made.to_server)) == (501, b"") and b"upgrade-refused" in made.to_client


def test_a_word_of_it_without_the_upgrade_is_no_handshake() -> None:
    made = exchange(Contract())
    made.client_said(ASKED.replace(b"Connection: Upgrade\r\nUpgrade: websocket\r\n", b"") + b"\r\n")
    assert b"pgrade" not in made.to_server and made.to_server
    made.server_said(SWITCHED + b"\r\n")
    assert status(made) == 502 and made.over


LIES = {
    "an upgrade to something else": SWITCHED.replace(b"websocket", b"h2c") + b"\r\n",
    "no upgrade": SWITCHED.replace(b"Upgrade: websocket\r\n", b"") + b"\r\n",
    "another key's answer": SWITCHED.replace(ACCEPT, ACCEPT[::-1]) + b"\r\n",
    "no answer to the key": SWITCHED.replace(b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n", b"") + b"\r\n",
    "two answers": SWITCHED + b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n\r\n",
    "a body": SWITCHED + b"Content-Length: 5\r\n\r\n",
    "chunks": SWITCHED + b"Transfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.0": SWITCHED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n",
    "a protocol that nobody asked for": SWITCHED + b"Sec-WebSocket-Protocol: mqtt\r\n\r\n",
}


@pytest.mark.parametrize("how", LIES)
def test_a_server_that_agrees_to_something_else_is_502(how: str) -> None:
    made = exchange()
    made.client_said(ASKED + b"\r\n")
    made.to_server.clear()
    made.server_said(LIES[how] + frame(TEXT, b"smuggled", masked=False))
    assert status(made) == 502 and made.over and b"smuggled" not in made.to_client
    assert not made.to_server


def test_a_protocol_that_was_asked_for_is_agreed_on() -> None:
    made = exchange()
    made.client_said(ASKED + b"Sec-WebSocket-Protocol: chat, mqtt\r\n\r\n")
    made.server_said(SWITCHED + b"Sec-WebSocket-Protocol: mqtt\r\n\r\n")
    assert b" 101 " in made.to_client and b"Sec-WebSocket-Protocol: mqtt" in made.to_client


def test_a_server_may_say_that_its_agreement_has_no_body() -> None:
    made = exchange()
    made.client_said(ASKED + b"\r\n")
    made.server_said(SWITCHED + b"Content-Length: 0\r\n\r\n")
    assert b" 101 " in made.to_client and b"ength" not in made.to_client


def test_nothing_is_sent_behind_a_handshake_until_it_is_answered() -> None:
    """To a server that says no it would be a request that nobody looked at."""
    made = exchange(Contract(("GET",), websocket=True))
    made.client_said(ASKED + b"\r\n" + b"DELETE /admin HTTP/1.1\r\n" + HOST + b"\r\n")
    assert b"DELETE" not in made.to_server
    made.server_said(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert b"DELETE" not in made.to_server and b"host.methods" in made.to_client


def test_a_request_behind_it_is_no_frame() -> None:
    made = opened()
    made.client_said(b"DELETE /admin HTTP/1.1\r\n" + HOST + b"\r\n")
    assert not made.to_server and closed_with(made) == 1002


def test_a_second_101_is_no_frame() -> None:
    made = opened()
    made.server_said(SWITCHED + b"\r\n")
    assert closed_with(made) == 1011


# ---- what it is held to -----------------------------------------------------------------------------------------


def test_a_message_that_is_too_large_ends_it_before_a_byte_of_it_was_sent() -> None:
    made = opened(Contract(websocket=True, max_request_bytes=4))
    made.client_said(frame(BINARY, b"abcd", masked=True))
    assert unmasked(made.to_server) == b"abcd"
    made.to_server.clear()
    made.client_said(frame(BINARY, b"abcde", masked=True))
    assert not made.to_server and closed_with(made) == 1009
    assert [each.column for each in made.told] == ["max_request_bytes"]  # type: ignore[attr-defined]


def test_the_policy_s_bound_holds_without_a_block_s() -> None:
    made = opened(most=10)
    made.client_said(frame(BINARY, bytes(6), final=False, masked=True) + frame(CONTINUATION, bytes(5), masked=True))
    assert closed_with(made) == 1009


def test_either_side_may_close_it() -> None:
    bye = b"\x03\xe8bye"
    made = opened()
    made.client_said(frame(CLOSE, bye, masked=True))
    assert unmasked(made.to_server) == bye and made.is_waiting and not made.over
    made.server_said(frame(CLOSE, bye, masked=False))
    assert bytes(made.to_client) == frame(CLOSE, bye, masked=False) and not made.over
    made.server_ended(clean=True)
    made.go_on()
    assert made.over and not made.broken


def test_what_a_client_said_last_is_sent_after_it_has_hung_up() -> None:
    made = opened()
    made.client_said(frame(TEXT, b"last", masked=True))
    made.client_ended()
    made.go_on()
    assert not made.over and made.is_waiting
    made.to_server.clear()
    made.go_on()
    assert made.over


def test_a_server_that_owes_the_end_is_not_waited_for_without_bound() -> None:
    made = opened()
    made.client_said(frame(CLOSE, b"", masked=True))
    made.fail(504, "upstream-timeout", "no answer")
    assert closed_with(made) == 1011


def test_what_waits_is_bounded() -> None:
    made = opened()
    made.client_said(frame(BINARY, bytes(100_000), masked=True))
    assert not made.hears_client and not made.goes_on
    made.to_server.clear()
    assert made.hears_client
    made.server_said(frame(BINARY, bytes(100_000), masked=False))
    assert not made.hears_server
    made.to_client.clear()
    assert made.hears_server


def test_a_flood_of_pings_goes_on_in_another_turn_and_only_while_there_is_room() -> None:
    made = opened()
    made.server_said(frame(PING, b"", masked=False) * 2000)
    assert made.goes_on and not made.hears_server
    while made.goes_on:
        made.go_on()
    assert len(made.to_client) == 4000 and made.hears_server


def test_a_server_that_hangs_up_is_heard_out() -> None:
    made = opened()
    made.server_said(frame(PING, b"", masked=False) * 2000)
    made.server_ended(clean=False)
    turns = 0
    while not made.over:
        made.go_on()
        turns += 1
    assert len(made.to_client) == 4000 and turns > 1


# ---- secrets ----------------------------------------------------------------------------------------------------


class Held:
    def __init__(self, *places: str, value: str = VALUE) -> None:
        self.placeholder = placeholder_for(value)
        row = {"name": "TOKEN", "placeholder": self.placeholder, "value": value, "hosts": ["api.example"]}
        self.set = SecretSet(json.dumps([{**row, "places": places or ("header:authorization", "body")}]).encode())

    @property
    def on_connection(self) -> ConnectionSecrets:
        return ConnectionSecrets(self.set, "api.example", secure=True)


def test_its_handshake_has_the_value() -> None:
    held = Held()
    made = exchange(OPEN, held.on_connection)
    made.client_said(ASKED + f"Authorization: Bearer {held.placeholder}\r\n\r\n".encode())
    assert VALUE.encode() in made.to_server
    made.server_said(SWITCHED + b"\r\n")
    assert b" 101 " in made.to_client


def test_a_token_in_the_protocol_is_agreed_on_and_comes_back_covered() -> None:
    """Browsers have no other field for one."""
    held = Held("header:sec-websocket-protocol")
    made = exchange(OPEN, held.on_connection)
    made.client_said(ASKED + f"Sec-WebSocket-Protocol: chat, {held.placeholder}\r\n\r\n".encode())
    assert VALUE.encode() in made.to_server
    made.server_said(SWITCHED + f"Sec-WebSocket-Protocol: {VALUE}\r\n\r\n".encode())
    assert b" 101 " in made.to_client
    assert VALUE.encode() not in made.to_client and held.placeholder.encode() in made.to_client


def cut(said: bytes, size: int) -> bytes:
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    return b"".join(
        frame(TEXT if not at else CONTINUATION, each, final=at == len(pieces) - 1, masked=True)
        for at, each in enumerate(pieces)
    )  # fmt: skip


HIDDEN: dict[str, Callable[[bytes], bytes]] = {
    "in a text": lambda said: frame(TEXT, b'{"key": "' + said + b'"}', masked=True),
    "in bytes": lambda said: frame(BINARY, said, masked=True),
    "in frames": lambda said: cut(said, 7),
    "in frames with a ping between": lambda said: frame(TEXT, said[:20], final=False, masked=True)
    + frame(PING, b"-", masked=True) + frame(CONTINUATION, said[20:], masked=True),
    "in two messages": lambda said: frame(TEXT, said[:20], masked=True) + frame(TEXT, said[20:], masked=True),
    "in base64": lambda said: frame(TEXT, base64.b64encode(said), masked=True),
    "in hexadecimal": lambda said: frame(TEXT, said.hex().encode(), masked=True),
    "in a ping": lambda said: frame(PING, said, masked=True),
    "in a close frame": lambda said: frame(CLOSE, b"\x03\xe8" + said, masked=True),
}  # fmt: skip


@pytest.mark.parametrize("how", HIDDEN)
def test_no_message_is_a_place_of_a_secret(how: str) -> None:
    held = Held("body", "header:authorization")
    made = opened(OPEN, held.on_connection)
    made.client_said(HIDDEN[how](held.placeholder.encode()))
    assert closed_with(made) == 1008 and not made.to_server
    assert b"secret-refused" in made.to_client and VALUE.encode() not in made.to_client
    assert [each.column for each in made.told] == ["secret.in"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [3, 20, 1000])
@pytest.mark.parametrize("kind", [TEXT, PING])
def test_what_the_server_says_of_a_value_is_covered(kind: int, size: int) -> None:
    held = Held()
    made, said = opened(OPEN, held.on_connection), f"your key is {VALUE}, right?".encode()
    if kind == PING:
        made.server_said(frame(PING, said, masked=False))
    else:
        for at in range(0, len(said), size):
            piece, last = said[at : at + size], at + size >= len(said)
            made.server_said(frame(TEXT if not at else CONTINUATION, piece, final=last, masked=False))
            made.to_client, shown = bytearray(), bytes(made.to_client)
            made.seen = getattr(made, "seen", b"") + shown  # type: ignore[attr-defined]
    seen = getattr(made, "seen", b"") + made.to_client
    assert VALUE[8:].encode() not in seen and not made.over


def test_a_message_of_a_server_that_has_no_secret_in_it_is_as_it_was() -> None:
    made = opened(OPEN, Held().on_connection)
    said = frame(TEXT, "a message, \u00e4 and \u20ac, no more".encode(), masked=False)
    made.server_said(said)
    assert bytes(made.to_client) == said


@pytest.mark.parametrize("speaks", ["client", "server"])
def test_it_ends_with_the_secret_that_may_have_opened_it(speaks: str) -> None:
    held = Held()
    made = opened(OPEN, held.on_connection)
    made.server_said(frame(TEXT, b"before", masked=False))
    assert not made.over
    held.set.revoke("TOKEN")
    if speaks == "client":
        made.client_said(frame(TEXT, b"after", masked=True))
    else:
        made.server_said(frame(TEXT, b"after", masked=False))
    assert closed_with(made) == 1008 and b"after" not in made.to_client and not made.to_server
    assert [each.column for each in made.told] == ["secret.revoked"]  # type: ignore[attr-defined]
