"""What one client of HTTP/2 may have done in one turn, and kept, before it is another cage's turn."""

from __future__ import annotations

import itertools
import json

import pytest
from h2.events import RequestReceived

from _support.http2 import NAME, Trial, fields
from pysandbox.gate.inspection import room
from pysandbox.gate.inspection.http2.frames import goaway
from pysandbox.gate.inspection.room import Room
from pysandbox.gate.inspection.scanning import ConnectionScan, PlanScan
from pysandbox.gate.inspection.secrets import ConnectionSecrets, SecretSet

SECRET = {"name": "A", "placeholder": "a" * 40, "value": "v" * 40, "hosts": [NAME], "places": ["basic"]}
SCANNED = {"depth": 32, "whole": 1 << 20, "scopes": (), "warns": False, "budget": 1 << 40, "detectors": ()}


def paths(trial: Trial) -> list[str]:
    """Where the requests that have arrived lead to."""
    return [str(dict(each.headers or ())[":path"]) for each in trial.arrived if isinstance(each, RequestReceived)]  # type: ignore[call-overload]


def ignored(_: object) -> None:
    return


def test_a_head_that_few_bytes_stand_for_is_read_in_a_turn_of_its_own() -> None:
    """A field that the table of the compression knows is one byte in each request after the first."""
    large = [("x-large", "%25" * 1300)] * 15  # as much as the table keeps (RFC 7541, 4.2), and a head may say
    held = SecretSet(json.dumps([SECRET, {**SECRET, "name": "B", "placeholder": "b" * 40}]).encode())
    trial = Trial(secrets=ConnectionSecrets(held, NAME, secure=True))
    trial.ask(1, fields("GET", "/a/x", *large))
    for number in range(3, 23, 2):
        trial.client.send_headers(number, fields("GET", f"/a/{number}", *large), end_stream=True)
    said = trial.client.data_to_send()
    assert len(said) < 10_000, "the control: it is few bytes"

    begun = []
    trial.conversation.client_said(said)
    while trial.conversation.goes_on:
        begun.append(len(trial.conversation._streams))
        trial.conversation.go_on()
    assert begun[0] <= 2 and all(after - before <= 2 for before, after in itertools.pairwise(begun))
    trial.turn()
    assert [trial.fields_heard(number)[":status"] for number in range(1, 23, 2)] == ["200"] * 11


def test_a_goodbye_behind_heads_for_another_turn_takes_none_of_them_away() -> None:
    large = ("x-large", "a" * 40_000)
    trial = Trial()
    for number in (1, 3, 5):
        trial.client.send_headers(number, fields("GET", f"/a/{number}", large), end_stream=True)
    trial.conversation.client_said(trial.client.data_to_send() + goaway(0, 0))
    trial.turn()
    assert paths(trial) == ["/a/1", "/a/3", "/a/5"]


@pytest.mark.parametrize(
    "name", ["content_length", "transfer_encoding", "content_type", "content_encoding", "keep_alive"]
)
def test_a_field_that_servers_may_read_as_the_framing_is_refused(name: str) -> None:
    trial = Trial().ask(1, fields("POST", "/a/x", (name, "7")), b"content")
    assert not paths(trial)


def test_no_answer_is_owed_to_a_body_that_still_comes() -> None:
    now = [1.0]
    scan = ConnectionScan(PlanScan(SCANNED), NAME, (), ignored, Room(), ())
    trial = Trial(scan=scan, clock=lambda: now[0])
    trial.ask(1, fields("POST", "/a/x", ("content-length", "30000")), bytes(10_000), ends=False)
    for _ in range(2):
        now[0] += 31
        assert not trial.conversation.is_waiting, "nothing of it was sent yet"
        trial.client.send_data(1, b"a" * 10_000)
        trial.turn()
    trial.client.end_stream(1)
    trial.answer = lambda *_: None
    trial.turn()
    assert trial.conversation.waits_since == now[0], "from the end of it on"


def test_the_beginnings_of_many_bodies_need_room_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SPARED", 200_000)
    cage = Room(100_000)
    trials = [Trial(scan=ConnectionScan(PlanScan(SCANNED), NAME, (), ignored, cage, ())) for _ in range(2)]
    for trial in trials:
        for number in range(1, 21, 2):
            trial.ask(number, fields("POST", "/a/x"), bytes(20_000), ends=False)
    kept = sum(len(each.sent.body._kept.content) for trial in trials for each in trial.conversation._streams.values())
    assert 200_000 <= kept <= 200_000 + 100_000 + 20_000, "what has not gone in waits where it is counted"
    assert sum(trial.conversation.in_flight for trial in trials) + kept >= 400_000
    for trial in trials:
        for number in range(1, 21, 2):
            trial.client.reset_stream(number)
        trial.turn()
    assert cage.spares(60_000), "and all of it is given back"
    assert (cage._all_spared, cage._left) == (0, 100_000)
