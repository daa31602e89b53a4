"""A placeholder becomes the value where it may, and is refused anywhere else; a value that comes back is covered."""

from __future__ import annotations

import base64
import json
import random
from typing import Any
from urllib.parse import quote

import pytest

from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.secrets import ConnectionSecrets, SecretSet
from pysandbox.gate.inspection.terms import Terms, Told
from pysandbox.gate.placeholders import placeholder_for

HOST, OTHER = "api.example", "other.example"
VALUE = "ghp_" + "R3alToken" * 4
FALSE = placeholder_for(VALUE)
PLACES = ("header:authorization", "query:key", "basic", "body")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


def held(*places: str, value: str = VALUE, false: str = FALSE) -> SecretSet:
    row = {"name": "TOKEN", "placeholder": false, "value": value, "hosts": [HOST], "places": places or PLACES}
    return SecretSet(json.dumps([row]).encode())


def exchange(secrets: SecretSet, host: str = HOST, *, secure: bool = True) -> Any:
    told: list[Told] = []
    terms = Terms(host, 443 if secure else 80, secure, False, Contract(), 1 << 20)
    made: Any = Exchange(terms, told.append, ConnectionSecrets(secrets, host, secure=secure))
    made.told = told
    return made


def asked(line: str, *fields: str, body: bytes = b"", secrets: SecretSet | None = None, **terms: Any) -> Any:
    made = exchange(secrets or held(), **terms)
    length = [f"Content-Length: {len(body)}"] if body else []
    head = "\r\n".join([f"{line} HTTP/1.1", f"Host: {terms.get('host', HOST)}", *fields, *length, "", ""])
    made.client_said(head.encode() + body)
    return made


def basic(text: str) -> str:
    return "Authorization: Basic " + base64.b64encode(text.encode()).decode()


def rule(made: Any) -> str:
    """The rule that has refused a request; "" for one that went on."""
    said = bytes(made.to_client)
    if not said:
        return ""
    assert said.startswith(b"HTTP/1.1 451 ") and b"x-pysandbox-error: secret-refused\r\n" in said, said
    assert VALUE.encode() not in said and made.over
    assert bytes(made.to_server) == b""
    (told,) = made.told
    assert VALUE not in repr(told)
    return str(told.column)


JSON, FORM = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"
PLACED = {
    "a field": (("GET /a", f"Authorization: Bearer {FALSE}"), f"Authorization: Bearer {VALUE}\r\n"),
    "a query": ((f"GET /a?b=c&key={FALSE}&d",), f"GET /a?b=c&key={VALUE}&d HTTP/1.1\r\n"),
    "a password": (("GET /a", basic(f"user:{FALSE}")), basic(f"user:{VALUE}") + "\r\n"),
    "a user": (("GET /a", basic(f"{FALSE}:x-oauth-basic")), basic(f"{VALUE}:x-oauth-basic") + "\r\n"),
}


@pytest.mark.parametrize("place", PLACED)
def test_in_its_places_the_value_is_sent(place: str) -> None:
    (line, *fields), sent = PLACED[place]
    made = asked(line, *fields)
    assert rule(made) == "" and sent.encode() in made.to_server
    assert FALSE.encode() not in made.to_server


@pytest.mark.parametrize(("kind", "body"), [
    (JSON, f'{{"token": "{FALSE}"}}'), (FORM, f"a=b&token={FALSE}"), ("Content-Type: text/plain; charset=utf-8", FALSE),
    ("Content-Type: application/vnd.api+json", f'["{FALSE}", "{FALSE}"]'),
])  # fmt: skip
def test_in_a_body_of_a_known_type_it_is_sent_and_the_length_stays(kind: str, body: str) -> None:
    made = asked("POST /a", kind, body=body.encode())
    assert rule(made) == "" and made.to_server.endswith(body.replace(FALSE, VALUE).encode())
    assert b"Content-Length: %d\r\n" % len(body) in made.to_server


@pytest.mark.parametrize("seed", range(20))
def test_a_body_in_chunks_of_any_size_is_read_as_one(seed: int) -> None:
    chance = random.Random(seed)
    said = f'{{"a": "{FALSE[:7]}", "token": "{FALSE}"}}'
    body = said.encode()
    made = exchange(held())
    made.client_said(f"POST / HTTP/1.1\r\nHost: {HOST}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    while body:
        size = chance.randint(1, 30)
        made.client_said(b"%x\r\n%s\r\n" % (len(body[:size]), body[:size]))
        body = body[size:]
    made.client_said(b"0\r\n\r\n")
    assert not made.to_client
    assert _content(bytes(made.to_server)) == said.replace(FALSE, VALUE).encode()


def _content(sent: bytes) -> bytes:
    chunks, content = sent.partition(b"\r\n\r\n")[2], b""
    while chunks:
        line, _, rest = chunks.partition(b"\r\n")
        size = int(line, 16)
        content, chunks = content + rest[:size], rest[size + 2 :]
    return content


ENCODED = base64.b64encode(FALSE.encode()).decode()
ELSEWHERE = {
    "the path": ("secret.in", (f"GET /a/{FALSE}",)),
    "another field": ("secret.in", ("GET /a", f"X-Token: {FALSE}")),
    "the name of a field": ("secret.in", ("GET /a", f"X-{FALSE}: a")),
    "another key": ("secret.in", (f"GET /?other={FALSE}",)),
    "a key": ("secret.in", (f"GET /?{FALSE}=key",)),
    "the method": ("secret.in", (f"{FALSE} /",)),
    "percent-encoded": ("secret.in", (f"GET /{quote(FALSE[:9])}%{ord(FALSE[9]):02x}{FALSE[10:]}",)),
    "percent-encoded twice": ("secret.in", (f"GET /{FALSE[:9]}%25{ord(FALSE[9]):02X}{FALSE[10:]}",)),
    "all percent-encoded": ("secret.in", ("GET /" + "".join(f"%{ord(each):02X}" for each in FALSE),)),
    "in base64": ("secret.in", (f"GET /{ENCODED}",)),
    "in base64, behind one letter": ("secret.in", (f"GET /{base64.b64encode(b'.' + FALSE.encode()).decode()}",)),
    "in base64, behind two letters": ("secret.in", (f"GET /{base64.b64encode(b'..' + FALSE.encode()).decode()}",)),
    "in hexadecimal": ("secret.in", (f"GET /{FALSE.encode().hex()}",)),
    "half of it": ("secret.in", ("GET /a", f"X-A: {FALSE[:20]}", f"X-B: {FALSE[20:]}")),
    "over two fields": ("secret.in", ("GET /a", f"X-A: {FALSE[:10]}", f"X-A: {FALSE[10:21]}", f"X-A: {FALSE[21:]}")),
    "in its field, encoded": ("secret.in", ("GET /a", f"Authorization: Bearer {ENCODED}")),
    "beside its field": ("secret.in", ("GET /a", f"Authorization: Bearer {FALSE}", f"X-A: {FALSE}")),
    "twice in Basic": ("secret.in", ("GET /a", basic(f"{ENCODED}:{FALSE}"))),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_anywhere_else_the_request_is_refused(where: str) -> None:
    wanted, (line, *fields) = ELSEWHERE[where]
    assert rule(asked(line, *fields)) == wanted


BODIES = {
    "of an unknown type": ("Content-Type: application/octet-stream", FALSE),
    "of no type": ("X-A: b", FALSE),
    "compressed, it says": (f"{JSON}\r\nContent-Encoding: identity", FALSE),
    "escaped": (JSON, '{"a": "' + "".join(f"\\u{ord(each):04x}" for each in FALSE) + '"}'),
    "escaped once": (JSON, f'{{"a": "\\u{ord(FALSE[0]):04X}{FALSE[1:]}"}}'),
    "percent-encoded": (FORM, "a=" + "".join(f"%{ord(each):02x}" for each in FALSE)),
    "in base64": (JSON, f'{{"a": "{ENCODED}"}}'),
    "half of it": (JSON, FALSE[10:]),
}


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_in_a_body_in_any_other_spelling_it_is_refused(what: str, size: int) -> None:
    kind, body = BODIES[what]
    made = exchange(held())
    said = f"POST / HTTP/1.1\r\nHost: {HOST}\r\n{kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    for at in range(0, len(body), size):
        said += b"%x\r\n%s\r\n" % (len(body[at : at + size]), body[at : at + size].encode())
    made.client_said(said + b"0\r\n\r\n")
    assert rule(made) == "secret.in"


def test_a_trailer_is_looked_at_too() -> None:
    made = exchange(held())
    made.client_said(
        f"POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: {FALSE}\r\n\r\n".encode()
    )
    assert rule(made) == "secret.in"


@pytest.mark.parametrize("place", PLACED)
def test_no_other_host_gets_it_and_none_without_tls(place: str) -> None:
    (line, *fields), _ = PLACED[place]
    assert rule(asked(line, *fields, host=OTHER)) == "secret.hosts"
    assert rule(asked(line, *fields, secure=False)) == "secret.hosts"
    body = asked("POST /", JSON, body=FALSE.encode(), host=OTHER)
    assert rule(body) == "secret.hosts"


@pytest.mark.parametrize("place", PLACED)
def test_a_place_that_is_not_listed_is_another_place(place: str) -> None:
    (line, *fields), _ = PLACED[place]
    assert rule(asked(line, *fields, secrets=held("header:x-other"))) == "secret.in"


def test_what_was_revoked_is_sent_no_more_on_a_connection_that_is_kept() -> None:
    secrets = held()
    made = asked("GET /a", f"Authorization: Bearer {FALSE}", secrets=secrets)
    made.server_said(OK)
    made.to_server.clear()
    made.to_client.clear()
    secrets.revoke("TOKEN")
    made.client_said(f"GET /a HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {FALSE}\r\n\r\n".encode())
    assert rule(made) == "secret.revoked"


def test_what_was_revoked_while_a_body_is_sent_is_not_in_the_rest_of_it() -> None:
    secrets = held()
    made = asked("POST /a", JSON, "Content-Length: 200", secrets=secrets)
    secrets.revoke("TOKEN")
    made.to_server.clear()
    made.client_said(FALSE.encode().ljust(200))
    assert rule(made) == "secret.revoked"


def test_a_request_with_nothing_of_it_goes_on() -> None:
    made = asked("GET /a?key=b", "Authorization: Bearer other", "Accept-Encoding: gzip")
    assert rule(made) == "" and b"Accept-Encoding: identity\r\n" in made.to_server and b"gzip" not in made.to_server


# ---- the answer --------------------------------------------------------------------------------------------------

ODD = 'p"ss/w\\rd+8!'
ECHOED = {
    "as it is": lambda value: value,
    "percent-encoded": lambda value: quote(value, safe=""),
    "as JSON": json.dumps,
    "in base64": lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
    "in the other base64": lambda value: base64.urlsafe_b64encode(f"us:{value}".encode()).decode(),
    "in hexadecimal": lambda value: value.encode().hex(),
}


@pytest.mark.parametrize("how", ECHOED)
@pytest.mark.parametrize("value", [VALUE, ODD])
@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
def test_a_value_that_comes_back_is_covered(how: str, value: str, framing: str) -> None:
    echo = ECHOED[how](value)
    body = f"<<{echo}>>{echo}".encode()
    chance = random.Random(how + value)
    made = asked("GET /a", secrets=held(value=value, false=placeholder_for(value)))
    frame = {"length": f"Content-Length: {len(body)}", "chunks": "Transfer-Encoding: chunked", "end": "X-A: b"}[framing]
    made.server_said(f"HTTP/1.1 200 {echo}\r\nX-Echo: a{echo}b\r\n{frame}\r\n\r\n".encode())
    at = 0
    while at < len(body):
        piece = body[at : at + chance.randint(1, 20)]
        made.server_said(b"%x\r\n%s\r\n" % (len(piece), piece) if framing == "chunks" else piece)
        at += len(piece)
    made.server_said(b"0\r\n\r\n" if framing == "chunks" else b"")
    if framing == "end":
        made.server_ended(clean=True)
    said = bytes(made.to_client)
    content = _content(said) if framing == "chunks" else said.partition(b"\r\n\r\n")[2]
    assert echo.encode() not in said + content and value.encode() not in said
    assert len(content) == len(body) and content.startswith(b"<<")


def test_a_raw_echo_is_the_placeholder_again() -> None:
    made = asked("GET /a")
    made.server_said(f"HTTP/1.1 200 OK\r\nContent-Length: {len(VALUE)}\r\n\r\n{VALUE}".encode())
    assert made.to_client.endswith(FALSE.encode())


def test_an_event_of_a_stream_does_not_wait_for_the_next() -> None:
    made = asked("GET /a")
    made.server_said(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    made.to_client.clear()
    made.server_said(b"data: one\n\n")
    assert made.to_client == b"data: one\n\n"


@pytest.mark.parametrize("guess", [VALUE[:-1], VALUE[:9], "ghp_wrong", "word"])
def test_what_is_kept_back_tells_nothing_of_the_value(guess: str) -> None:
    """A server that says a guess, and pauses, is answered alike whatever it has guessed."""
    made = asked("GET /a")
    made.server_said(b"HTTP/1.1 200 OK\r\n\r\n")
    made.to_client.clear()
    made.server_said(b"guess: " + guess.encode())
    assert made.to_client == b"guess: "


def test_a_host_that_no_secret_is_for_cannot_try_guesses() -> None:
    made = asked("GET /a", host=OTHER)
    made.server_said(f"HTTP/1.1 200 OK\r\nContent-Length: {len(VALUE)}\r\n\r\n{VALUE}".encode())
    assert made.to_client.endswith(VALUE.encode())


def test_an_answer_is_not_asked_for_in_parts() -> None:
    made = asked("GET /a", "Range: bytes=0-3", f"Authorization: {FALSE}")
    assert rule(made) == "" and b"Range" not in made.to_server


def test_a_compressed_answer_of_its_host_is_not_passed_on() -> None:
    for host, wanted in ((HOST, b"HTTP/1.1 502"), (OTHER, b"HTTP/1.1 200")):
        made = asked("GET /a", host=host)
        made.server_said(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi")
        assert made.to_client.startswith(wanted)
        assert (b"x-pysandbox-error: secret-unreadable" in made.to_client) == (host == HOST)


# ---- placeholders ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [
    VALUE, "github_pat_" + "11ABCDEFG0" * 8, "sk-ant-api03-" + "aB3_-" * 18, "0123456789abcdef" * 2, "1234567890123456",
    "550e8400-e29b-41d4-a716-446655440000", "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
])  # fmt: skip
def test_a_placeholder_has_the_shape_of_its_value(value: str) -> None:
    false = placeholder_for(value)
    assert false != value and false != placeholder_for(value)
    assert [each for each in false if each in "-_."] == [each for each in value if each in "-_."]
    if len(value) > 20:
        assert len(false) == len(value)
    assert false.isdigit() == value.isdigit() and false.islower() == value.islower()
    assert false[:4] == value[:4] or not value.startswith(("ghp_", "sk-a", "xoxb"))


def test_a_short_value_has_a_placeholder_that_no_text_has_by_accident() -> None:
    assert len(placeholder_for("1234")) >= 19 and len(placeholder_for("abcdefgh")) >= 12


def test_only_what_a_host_has_is_covered_in_what_it_says() -> None:
    """Any other host could say guesses, and have its client tell which one was covered."""
    assert held().covering(HOST) is not None
    assert held().covering(OTHER) is None and held(value="").covering(HOST) is None


def test_whether_what_is_sent_may_hold_a_secret_is_asked_of_its_own_cage_name_and_host() -> None:
    secrets = held()
    to_host, to_other = (ConnectionSecrets(secrets, host, secure=True) for host in (HOST, OTHER))
    assert to_host.may_hold(secrets, "TOKEN")
    assert not to_host.may_hold(held(), "TOKEN")  # another cage's of that name
    assert not to_host.may_hold(secrets, "OTHER") and not to_other.may_hold(secrets, "TOKEN")


@pytest.mark.parametrize("line", ["GET /a?key=another", "GET /a?key=", "GET /a?other=b"])
def test_what_is_no_placeholder_stays_what_it_is(line: str) -> None:
    made = asked(line, "Authorization: Bearer another")
    assert rule(made) == ""
    sent = bytes(made.to_server)
    assert sent.startswith(f"{line} HTTP/1.1\r\n".encode()) and VALUE.encode() not in sent


@pytest.mark.parametrize(
    ("kind", "is_put"),
    [("application/json", True), ("application/vnd.api+json; charset=utf-8", True), ("APPLICATION/JSON", True),
     ("application/octet-stream", False), ("text/plain+jsonx", False), ("", False)],
)  # fmt: skip
def test_a_body_is_a_place_of_texts_whose_form_is_known(kind: str, is_put: bool) -> None:
    made = asked("POST /a", f"Content-Type: {kind}", body=json.dumps({"t": FALSE}).encode())
    assert (VALUE.encode() in bytes(made.to_server)) is is_put
