"""Requests that are scanned, without a process: what the exchange gives to the server, and what it tells."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
from backports import zstd

from _support.generators import returned
from pysandbox.compile.plan import Contract
from pysandbox.dlp import libraries, registry
from pysandbox.gate.inspection.codings import UnreadableCoding, plain
from pysandbox.gate.inspection.exchange import Exchange
from pysandbox.gate.inspection.holding import LEAST
from pysandbox.gate.inspection.room import FREE, Room
from pysandbox.gate.inspection.scanning import ConnectionScan, CredentialFound, PlanScan
from pysandbox.gate.inspection.secrets import ConnectionSecrets, SecretSet
from pysandbox.gate.inspection.terms import Terms

HOST = "api.example"
TOKEN = registry.BY_NAME["github_pat"].hits[0]
GIVEN = {
    "depth": 32,
    "whole": 1 << 20,
    "scopes": (),
    "warns": False,
    "budget": 1 << 40,
    "detectors": (),
}
SKIPPED = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"abcde"  # a frame of zstd that is none
WIDE = zstd.compress(random.Random(1).randbytes(1 << 10), options={zstd.CompressionParameter.window_log: 27})
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Conversation:
    def __init__(
        self, *, host: str = HOST, listed: tuple[str, ...] = (), room: Room | None = None,
        secrets: ConnectionSecrets | None = None, **given: Any,
    ) -> None:  # fmt: skip
        self.found: list[CredentialFound] = []
        self.told: list[object] = []
        plan, placeholders = PlanScan({**GIVEN, **given}), secrets.placeholders if secrets is not None else ()
        self.scan = ConnectionScan(plan, host, listed, self.found.append, room or Room(), placeholders)
        terms = Terms(host, 443, True, False, Contract(), 1 << 26)
        self.exchange = Exchange(terms, self.told.append, secrets, self.scan)
        self.sent = b""

    def say(self, *pieces: bytes) -> bytes:
        """All that the server is sent once nothing is left to do."""
        for piece in pieces:
            self.exchange.client_said(piece)
            self.drain()
        return self.sent

    def drain(self) -> None:
        while True:
            self.sent += bytes(self.exchange.to_server)
            self.exchange.to_server.clear()
            if not self.exchange.goes_on:
                return
            self.exchange.go_on()

    @property
    def status(self) -> int:
        return int(self.exchange.to_client.split(b" ", 2)[1]) if self.exchange.to_client else 0


def request(
    body: bytes = b"", *fields: bytes, target: bytes = b"/", method: bytes = b"POST", host: str = HOST
) -> bytes:
    length = (b"Content-Length: %d" % len(body),) if body else ()
    return b"\r\n".join((method + b" " + target + b" HTTP/1.1", b"Host: " + host.encode(), *length, *fields, b"", body))


def chunks(body: bytes, size: int) -> bytes:
    cut = (body[at : at + size] for at in range(0, len(body), size))
    said = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in cut)
    return b"POST / HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: chunked\r\n\r\n" + said + b"0\r\n\r\n"


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes, "base64": base64.b64encode, "url": base64.urlsafe_b64encode, "wrapped": base64.encodebytes,
    "unpadded": lambda said: base64.b64encode(said).rstrip(b"="), "hex": lambda said: said.hex().encode(),
    "HEX": lambda said: said.hex(":").upper().encode(), "percent": lambda said: b"".join(b"%%%02x" % c for c in said),
    "JSON": lambda said: b"".join(b"\\u%04x" % c for c in said),
    "HTML": lambda said: b"".join(b"&#%d;" % c for c in said),
    "C": lambda said: b"".join(b"\\x%02x" % c for c in said),
    "quoted": lambda said: b"".join(b"=%02X" % c for c in said),
    "gzip": gzip.compress, "zlib": zlib.compress, "zstd": zstd.compress, "base32": base64.b32encode,
}  # fmt: skip
BINARY = ("gzip", "zlib", "zstd")
IN_A_HEAD: dict[str, Callable[[bytes], bytes]] = {
    "path": lambda said: request(target=b"/a/" + said), "query": lambda said: request(target=b"/?a=1&b=" + said),
    "field": lambda said: request(b"", b"X-A: " + said), "cookie": lambda said: request(b"", b"Cookie: a=b; c=" + said),
    "Basic": lambda said: request(b"", b"Authorization: Basic " + base64.b64encode(b"x:" + said)),
}  # fmt: skip
IN_A_BODY: dict[str, Callable[[bytes], bytes]] = {
    "body": lambda said: request(b"text: " + said + b" end"), "JSON": lambda said: request(b'{"a": ["' + said + b'"]}'),
    "chunks": lambda said: chunks(b"some " + said, 7), "one by one": lambda said: chunks(said, 1),
    "multipart": lambda said: request(b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + said + b"\r\n--b--"),
    "compressed": lambda said: request(gzip.compress(said), b"Content-Encoding: gzip"),
    "brotli": lambda said: request(brotli.compress(said), b"Content-Encoding: br"),
    "zstd": lambda said: request(zstd.compress(said), b"Content-Encoding: zstd"),
}  # fmt: skip
PRINTABLE = [name for name in ENCODINGS if name not in (*BINARY, "wrapped", "HTML")]  # no # in a target


@pytest.mark.parametrize("seed", range(6))
def test_no_credential_passes_in_any_encoding_place_or_cut(seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(60):
        detector = drawn.choice(registry.ALL)
        hit = drawn.choice(detector.hits)
        place = drawn.choice((*IN_A_HEAD, *IN_A_BODY))
        ways = [drawn.choice(list(ENCODINGS)) for _ in range(drawn.randrange(3))]
        if place in IN_A_HEAD:
            ways.append(drawn.choice([each for each in PRINTABLE if each != "plain"]))
        said = hit
        for way in ways:
            if way in ("JSON", "HTML") and not said.isascii():
                way = "hex"
            said = ENCODINGS[way](said)
        whole = (IN_A_HEAD.get(place) or IN_A_BODY[place])(said)
        cut = drawn.randrange(len(whole) + 1)
        conversation = Conversation()
        assert conversation.say(whole[:cut], whole[cut:]) == b"", (detector.name, ways, place, cut)
        assert conversation.status == 451, (detector.name, ways, place, cut)
        assert hit.decode() not in repr(conversation.found)


def test_at_each_cut_of_a_body_and_of_its_framing() -> None:
    for whole in (request(b"ab " + TOKEN + b" c"), chunks(b"ab " + base64.b64encode(TOKEN), 5)):
        for cut in range(len(whole)):
            conversation = Conversation()
            assert (conversation.say(whole[:cut], whole[cut:]), conversation.status) == (b"", 451)


@pytest.mark.parametrize("size", [0, 1, FREE - 1, FREE, FREE + 1, LEAST, LEAST + 1, 3 * LEAST])
@pytest.mark.parametrize("framed", [request, lambda body: chunks(body, 5000)])
def test_what_passes_is_what_was_said(framed: Callable[[bytes], bytes], size: int) -> None:
    body = random.Random(size).randbytes(size)
    conversation = Conversation(whole=0)
    sent = conversation.say(framed(body))
    if b"chunked" in sent:
        assert unchunked(sent.partition(b"\r\n\r\n")[2]) == body
    else:
        assert sent.partition(b"\r\n\r\n")[2] == body
    conversation.exchange.server_said(OK)
    assert conversation.status == 200 and conversation.found == []
    assert conversation.say(request()).endswith(b"\r\n\r\n")  # the connection stays


def unchunked(said: bytes) -> bytes:
    content = b""
    while True:
        size, _, said = said.partition(b"\r\n")
        if size == b"0":
            assert said == b"\r\n"
            return content
        content, said = content + said[: int(size, 16)], said[int(size, 16) + 2 :]


def test_a_token_goes_home_and_is_told_once() -> None:
    conversation = Conversation(host="api.github.com")
    asked = request(b"", b"Authorization: Bearer " + TOKEN, host="api.github.com")
    assert TOKEN in conversation.say(asked)
    conversation.exchange.server_said(OK)
    assert conversation.say(asked).count(TOKEN) == 2
    assert [(each.detector, each.verdict, each.place) for each in conversation.found] == [
        ("github_pat", "home", "field Authorization")
    ]


def test_scopes_and_lists_let_it_pass_and_nothing_else() -> None:
    npm = registry.BY_NAME["npm_token"].hits[0]
    key = registry.BY_NAME["ssh_private_key"].hits[0]
    for said, given, status in (
        (TOKEN, {"scopes": [("github_pat", [HOST])]}, 0), (TOKEN, {"listed": ("github_pat",)}, 0),
        (npm, {"scopes": [("github_pat", [HOST])], "listed": ("github_pat",)}, 451),
        (key, {"scopes": [("ssh_private_key", [HOST])], "listed": ("ssh_private_key",)}, 451),
        (TOKEN + b" " + npm, {"listed": ("github_pat",)}, 451),
    ):  # fmt: skip
        conversation = Conversation(**given)  # type: ignore[arg-type]
        conversation.say(request(b"x " + said))
        assert conversation.status == status, (said, given)


def test_monitor_passes_it_on_and_says_so() -> None:
    conversation = Conversation(warns=True)
    assert TOKEN in conversation.say(request(b"a " + TOKEN))
    conversation.exchange.server_said(OK)
    assert b"x-pysandbox-dlp-warning: github_pat\r\n" in conversation.exchange.to_client
    assert [each.verdict for each in conversation.found] == ["warned"] and conversation.told == []
    conversation = Conversation(warns=True)
    assert conversation.say(request(b"?", b"Content-Encoding: lzma")).endswith(b"?")
    conversation.exchange.server_said(OK)
    assert b"x-pysandbox-dlp-warning: undecodable-body\r\n" in conversation.exchange.to_client


def test_a_placeholder_is_none() -> None:
    fake = registry.BY_NAME["npm_token"].hits[0]
    conversation = Conversation()
    assert conversation.say(request(b"no " + fake)) == b""
    conversation = Conversation()
    conversation.scan._fakes = (fake,)  # type: ignore[assignment]
    assert fake in conversation.say(request(b"no " + fake))


def test_a_secret_is_put_in_its_place_after_the_scan_and_a_credential_beside_it_is_found() -> None:
    fake, value = (registry.BY_NAME["npm_token"].hits[0].decode(), "v" * 40)
    said = {
        "name": "T",
        "placeholder": fake,
        "value": value,
        "hosts": [HOST],
        "places": ["header:authorization", "body"],
    }
    for body, beside, status in ((b"a", b"x", 0), (fake.encode(), b"x", 0), (b"a", TOKEN, 451), (TOKEN, b"x", 451)):
        held = ConnectionSecrets(SecretSet(json.dumps([said]).encode()), HOST, secure=True)
        conversation = Conversation(secrets=held)
        asked = request(b"text=" + body, b"Authorization: Bearer " + fake.encode(), b"X-A: " + beside,
                        b"Content-Type: text/plain")  # fmt: skip
        sent = conversation.say(asked)
        assert (conversation.status, b"Bearer " + value.encode() in sent) == (status, not status), (body, beside)
        assert fake.encode() not in sent and TOKEN not in sent


def test_a_client_that_waits_is_told_to_go_on() -> None:
    conversation = Conversation()
    head, _, body = request(b"abc", b"Expect: 100-continue").partition(b"\r\n\r\n")
    assert conversation.say(head + b"\r\n\r\n") == b""
    assert conversation.exchange.to_client == b"HTTP/1.1 100 Continue\r\n\r\n"
    sent = conversation.say(body)
    assert sent.endswith(b"\r\n\r\nabc") and b"expect" not in sent.lower()


def test_a_client_that_has_sent_all_may_close_its_side() -> None:
    conversation = Conversation()
    conversation.exchange.client_said(request(b"abc" * 1000))
    conversation.exchange.client_ended()
    conversation.drain()
    conversation.exchange.server_said(OK)
    assert not conversation.exchange.broken and conversation.sent.endswith(b"abc")


def test_room_is_taken_whole_in_order_and_given_back() -> None:
    room, woken = Room(3 * LEAST), list[str]()
    large = request(b"x" * (2 * LEAST))
    first, second = (Conversation(room=room, whole=2 * LEAST) for _ in range(2))
    for name, each in (("first", first), ("second", second)):
        each.scan.wake = lambda name=name: woken.append(name)
    head = large.index(b"\r\n\r\n") + 4
    for each in (first, second):
        each.say(large[: head + FREE])
        each.say(large[head + FREE : head + FREE + 10])
    assert second.exchange._request.is_looking and not first.exchange._request.is_looking
    assert not second.exchange.is_waiting  # for a server
    assert first.say(large[head + FREE + 10 :]).endswith(b"x" * 100)
    assert woken == ["second"]
    second.drain()
    assert second.say(large[head + FREE + 10 :]).endswith(b"x" * 100)
    third = Conversation(room=room, whole=2 * LEAST)
    third.say(large[: head + FREE + 10], large[head + FREE + 10 : head + FREE + 11])
    third.exchange.leave()
    assert room._left == 3 * LEAST


def test_what_an_encoding_says_is_undone_or_refused() -> None:
    text = b"a text " * 50
    for said, codings in (
        (text, []), (text, [b"identity"]), (gzip.compress(text), [b"gzip"]), (zlib.compress(text), [b"deflate"]),
        (zlib.compress(text)[2:-4], [b"deflate"]), (gzip.compress(zlib.compress(text)), [b"deflate", b"x-gzip"]),
        (gzip.compress(text[:70]) + gzip.compress(text[70:]), [b"gzip"]), (brotli.compress(text), [b"br"]),
        (brotli.compress(zstd.compress(text)), [b"zstd", b"br"]), (zstd.compress(text), [b"zstd"]),
        (zstd.compress(text[:70]) + SKIPPED + zstd.compress(text[70:]), [b"zstd"]),
    ):  # fmt: skip
        assert returned(plain(said, codings, len(text))) == text
    for said, codings in (
        (b"", [b"gzip"]), (text, [b"gzip"]), (text, [b"deflate"]), (text, [b"br"]), (text, [b"gzip"] * 5),
        (gzip.compress(text)[:-1], [b"gzip"]), (gzip.compress(text) + b"\0", [b"gzip"]),
        (zlib.compress(text) + b"\0", [b"deflate"]), (gzip.compress(text + b"."), [b"gzip"]),
        (gzip.compress(b"") * 100, [b"gzip"]),
    ):  # fmt: skip
        with pytest.raises(UnreadableCoding):
            returned(plain(said, codings, len(text)))


def test_a_coding_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("brotli", brotli.compress(TOKEN)), ("zstd", zstd.compress(TOKEN))):
        asked = request(said, b"Content-Encoding: " + {"brotli": b"br"}.get(name, b"zstd"))
        conversation = Conversation()
        assert (conversation.say(asked), conversation.found[0].detector) == (b"", "github_pat")
        monkeypatch.setattr(libraries, name, None)
        conversation = Conversation()
        assert (conversation.say(asked), conversation.status) == (b"", 451)
        assert b"x-pysandbox-dlp-reason: undecodable-body\r\n" in conversation.exchange.to_client
        assert b"pip install" in conversation.exchange.to_client


def test_brotli_that_does_not_limit_its_output_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert libraries.brotli_stream() is not None
    monkeypatch.setattr(brotli, "__version__", "1.1.9")
    assert libraries.brotli_stream() is None


def test_a_place_is_told_and_a_stranger_s_words_are_not() -> None:
    for asked, place in (
        (request(json.dumps({"a": [1, {"b_c": "x " + TOKEN.decode()}]}).encode()), "body json $.a[1].b_c"),
        (request(json.dumps({TOKEN.decode(): TOKEN.decode()}).encode()), "body json $.*"),
        (request(b"", TOKEN + b": 1"), "the name of field 2"), (request(target=b"/?a=b&c=" + TOKEN), "query value 2"),
        (request(b"", b"X-Key: " + base64.b64encode(TOKEN)), "field X-Key (in base64)"),
        (request(method=TOKEN), "the method"), (request(b"{" + TOKEN), "the body"),
    ):  # fmt: skip
        conversation = Conversation()
        conversation.say(asked)
        assert [each.place for each in conversation.found] == [place]


# ---- opaque bytes -------------------------------------------------------------------------------------------------

DATA = random.Random(9).randbytes
PICTURE = b'{"image": "data:image/png;base64,' + base64.b64encode(DATA(30_000)) + b'"}'


def test_more_opaque_bytes_than_the_budget_are_refused_with_a_fix_that_works() -> None:
    conversation = Conversation(budget=8192)
    assert conversation.say(request(PICTURE)) == b""
    answer = bytes(conversation.exchange.to_client)
    assert conversation.status == 451 and b"x-pysandbox-dlp-reason: session-budget\r\n" in answer
    assert b'{ domain = "api.example", allow_credentials = ["generic_high_entropy"] }' in answer
    assert [each[::3] for each in conversation.found] == [("session-budget", "blocked")]

    listed = Conversation(budget=8192, listed=("generic_high_entropy",))
    assert listed.say(request(PICTURE)).endswith(PICTURE)


def test_the_budget_is_the_session_s_and_of_what_is_new() -> None:
    conversation, sent = Conversation(budget=8192), 0
    while not conversation.exchange.over:
        before = len(conversation.sent)
        conversation.say(request(DATA(12).hex().encode() + b" and " + PICTURE[30:1000]))
        conversation.exchange.server_said(OK)
        sent += len(conversation.sent) > before
    assert 300 <= sent <= 8192 // 24 and b"session-budget" in conversation.exchange.to_client
    warned, refused = conversation.found
    assert (warned.detector, warned.verdict, refused.verdict) == ("generic_high_entropy", "warned", "blocked")
    assert warned.shown.endswith(" of 8192 bytes")


@pytest.mark.parametrize(
    "said",
    [
        request(b"", target=b"/?q=" + DATA(100).hex().encode()), request(b"", b"X-A: " + base64.b64encode(DATA(100))),
        request(b"", b"Cookie: a=" + base64.b64encode(DATA(100))), request(DATA(100)), chunks(DATA(100), 9),
        request(b"", target=b"/" + base64.urlsafe_b64encode(DATA(100))),
        request(gzip.compress(base64.b64encode(DATA(100))), b"Content-Encoding: gzip"),
        request(b"", target=b"/?q=" + b"".join(b"%%%02x" % each for each in DATA(100))),
    ],
)  # fmt: skip
def test_in_every_place(said: bytes) -> None:
    assert Conversation(budget=200).say(said) != b""  # the control
    conversation = Conversation(budget=60)
    assert conversation.say(said) == b"" and b"session-budget" in conversation.exchange.to_client


def test_no_byte_of_what_is_over_it_leaves_a_body_that_is_sent_in_parts() -> None:
    much = DATA(3 * LEAST)
    conversation = Conversation(budget=8192, whole=0)
    assert conversation.say(chunks(b"a word " * 90_000 + much, 4000))[-100:] in b"a word " * 90_000
    whole = Conversation(budget=len(much) + 8192, whole=0)
    assert whole.say(request(much)).endswith(much)


def test_hosts_of_models_are_sent_pictures_and_a_look_alike_is_not() -> None:
    for host in ("api.openai.com", "api.anthropic.com", "acme.openai.azure.com"):
        assert Conversation(host=host, budget=0).say(request(PICTURE, host=host)).endswith(PICTURE)
    for host in ("api.openai.com.evil.example", "xapi.openai.com", "openai.com"):
        assert Conversation(host=host, budget=0).say(request(PICTURE, host=host)) == b""
    extra = Conversation(budget=0, scopes=(("generic_high_entropy", [HOST]),))
    assert extra.say(request(PICTURE)).endswith(PICTURE)


def test_with_monitor_it_is_told_and_passed_on() -> None:
    conversation = Conversation(budget=0, warns=True)
    assert conversation.say(request(PICTURE)).endswith(PICTURE)
    conversation.exchange.server_said(OK)
    assert b"x-pysandbox-dlp-warning: session-budget" in conversation.exchange.to_client
