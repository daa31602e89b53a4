"""Claim: where what is sent is scanned, the false credentials that a cage finds in its variables reach no host, in no
place, encoding, case or direction, nor any sixteen letters of one, also where such credentials are listed; and what is
told names the one.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from _support.inspected import NAME, wait_for_another
from _support.planted import plant
from _support.scanned import SCAN, ScannedHost, get, post, scanned
from pysandbox.compile.plan import ScanPlan
from pysandbox.dlp.canary import OF_VARIABLES, new_values
from pysandbox.gate import inspectors
from pysandbox.gate.dns.asked import AskedNames, NameScan
from pysandbox.gate.held import Served, canaries_of
from pysandbox.gate.inspection.channel import ChannelRecord

from .harness import wait_until

SAID = new_values(OF_VARIABLES)
VALUES = {name: value.encode() for name, value in SAID.items()}
PLAN = replace(SCAN, canaries=tuple(OF_VARIABLES))
plant(*(each for value in VALUES.values() for each in (value[4:], value[4:].lower())))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScannedHost]:
    home = tuple((each, (NAME,)) for each in ("github_pat", "npm_token", "aws_access_key", "aws_secret_key"))
    with scanned(tmp_path_factory.mktemp("scanned"), replace(PLAN, scopes=home), canaries=SAID) as made:
        yield made


@pytest.fixture(autouse=True)
def clean(host: ScannedHost) -> None:
    host.server.heard.clear()
    host.asking.events.clear()


ATTACKS: dict[str, Callable[[bytes], bytes]] = {
    "the path": lambda said: get(b"/a/" + said),
    "a query value": lambda said: get(b"/?a=" + said),
    "query values, split": lambda said: get(b"/?a=" + said[:9] + b"&b=" + said[9:]),
    "a field": lambda said: get(b"/", b"X-A: " + said),
    "Bearer": lambda said: get(b"/", b"Authorization: Bearer " + said),
    "a cookie": lambda said: get(b"/", b"Cookie: a=" + said),
    "a body": lambda said: post(said),
    "base64, twice": lambda said: post(base64.b64encode(base64.b64encode(b"12" + said))),
    "hex": lambda said: post(said.hex().encode()),
    "gzip": lambda said: post(gzip.compress(said), b"Content-Encoding: gzip"),
    "UTF-16": lambda said: post(said.decode().encode("utf-16")),
    "backwards": lambda said: post(said[::-1]),
    "in small letters": lambda said: post(said.lower()),
    "in capitals": lambda said: get(b"/?a=" + said.upper()),
    "sixteen letters of its end": lambda said: post(b"x" + said[-16:] + b"y"),
    "sixteen letters backwards": lambda said: post(b"x" + said[3:19][::-1] + b"y"),
    "a sign after each letter": lambda said: get(b"/?a=" + b"-".join(said[at : at + 1] for at in range(len(said)))),
    "a line for each letter": lambda said: post(b"\r\n".join(said[at : at + 1] for at in range(len(said)))),
    "JSON of its letters": lambda said: post(json.dumps(list(said.decode())).encode()),
    "that in base64": lambda said: post(base64.b64encode(json.dumps(list(said.decode())[::-1]).encode())),
    "in pieces of sixteen": lambda said: post(b"\n".join(said[at : at + 16] for at in range(0, len(said), 16))),
}


@pytest.mark.parametrize("name", OF_VARIABLES)
def test_it_is_refused_wherever_it_stands_and_told_by_its_name(host: ScannedHost, name: str) -> None:
    detector = OF_VARIABLES[name].detector
    for attack, made in ATTACKS.items():
        answer = host.send([made(VALUES[name])])
        assert answer.startswith(b"HTTP/1.1 451 "), (attack, answer)
        assert b"x-pysandbox-dlp-detector: " + detector.encode() + b"\r\n" in answer, attack
        assert host.server.heard == b"", attack
    told = host.found()
    blocked = {(each["detector"], each["verdict"]) for each in told if each["verdict"] == "blocked"}
    assert blocked == {(detector, "blocked")}
    assert VALUES[name].decode() not in str(told)
    assert f"dlp.{detector}" in {each.rule for each in host.asking.session.ledger.denials()}


@pytest.mark.parametrize("at", range(25))
def test_any_sixteen_letters(host: ScannedHost, at: int) -> None:
    said = VALUES["PYSANDBOX_CANARY_GITHUB_PAT"][at : at + 16]
    for piece in (said, said[::-1], said.lower(), said.upper()):
        assert host.send([post(b"." + piece + b".")]).startswith(b"HTTP/1.1 451 "), piece
    assert host.server.heard == b""


def test_the_control_others_of_the_same_form_arrive(host: ScannedHost, tmp_path: Path) -> None:
    """They are listed for this host, but for those that are false; and without the word it is any other text."""
    other = b"ghp_A1b2C3d4E5f6G7h8J9k0A1b2C3d4E5f6G7h8"
    assert host.send([post(other)]).endswith(b"hello") and other in host.server.heard
    assert host.send([post(VALUES["AWS_ACCESS_KEY_ID"][:15])]).endswith(b"hello"), "fifteen letters are none"
    with scanned(tmp_path) as without:
        said = VALUES["AWS_SECRET_ACCESS_KEY"]
        assert without.send([post(said)]).endswith(b"hello") and said in without.server.heard


def test_also_with_monitor(tmp_path: Path) -> None:
    with scanned(tmp_path, replace(PLAN, warns=True), canaries=SAID) as host:
        said = VALUES["PYSANDBOX_CANARY_NPM_TOKEN"]
        assert host.send([post(said)]).startswith(b"HTTP/1.1 451 ") and host.server.heard == b""


def test_nor_in_a_name_that_is_asked_for() -> None:
    asked = AskedNames(["**.a.example"], scan=PLAN, names=NameScan(PLAN, SAID))
    for name, value in VALUES.items():
        said = value.decode().lower()[-16:]
        refused = asked.take(f"{said}.a.example")
        assert refused is not None, name
        assert refused.decision.rule == f"dlp.{OF_VARIABLES[name].detector}" and said not in refused.shown
    control = AskedNames(["**.a.example"], scan=ScanPlan(32, 1, (), False, 1))
    assert control.take(VALUES["AWS_SECRET_ACCESS_KEY"].decode().lower() + ".a.example") is None


def test_each_cage_is_held_to_its_own_and_only_to_its_own(tmp_path: Path) -> None:
    """Two cages of one plan at one inspector, then the first number again with other values, as after a restart."""
    name = "AWS_SECRET_ACCESS_KEY"
    first, second, third = (new_values([name]) for _ in range(3))
    assert len({each[name] for each in (first, second, third)}) == 3
    with scanned(tmp_path, PLAN) as host:
        for number, own, other in ((1, first, second), (2, second, first), (1, third, first)):
            host.asking.session.number, host.asking.session.canaries = number, own
            host.server.heard.clear()
            assert host.send([post(own[name].encode())]).startswith(b"HTTP/1.1 451 ") and host.server.heard == b""
            assert host.send([post(other[name].encode())]).endswith(b"hello"), "the control: to this cage it is a word"
        assert {each["detector"] for each in host.found()} == {"canary_aws_secret_access_key"}


def test_they_are_told_once_and_again_to_an_inspector_that_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection is held to them; none says them anew."""
    told: list[int] = []

    def counted(session: Served) -> ChannelRecord:
        told.append(session.number)
        return canaries_of(session)

    monkeypatch.setattr(inspectors, "canaries_of", counted)
    said = VALUES["AWS_SECRET_ACCESS_KEY"]
    with scanned(tmp_path, PLAN, canaries=SAID) as host:
        for _ in range(5):
            assert host.send([post(said)]).startswith(b"HTTP/1.1 451 ")
        assert told == [host.asking.session.number]
        inspector = host.asking.inspector
        died = inspector.process
        assert died is not None
        died.kill()
        assert wait_until(lambda: inspector.process not in (None, died), 20)
        wait_for_another(inspector, host.asking.net)
        assert host.send([post(said)]).startswith(b"HTTP/1.1 451 ") and host.server.heard == b""
    assert told == [host.asking.session.number] * 2


def test_a_value_has_the_form_of_its_service() -> None:
    assert len({*VALUES.values()}) == len(VALUES)
    forms = {"PYSANDBOX_CANARY_GITHUB_PAT": (b"ghp_", 40), "PYSANDBOX_CANARY_NPM_TOKEN": (b"npm_", 40),
             "PYSANDBOX_CANARY_AWS_ACCESS_KEY": (b"AKIA", 20)}  # fmt: skip
    for name, (prefix, size) in forms.items():
        assert VALUES[name].startswith(prefix) and len(VALUES[name]) == size
