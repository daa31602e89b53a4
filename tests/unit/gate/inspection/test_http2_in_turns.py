"""What one client of HTTP/2 may have done in one turn, and kept, before it is another cage's turn."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress

import pytest
from h2.events import Event, RequestReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from _support.http2 import NAME, Trial, fields, greeting
from pysandbox.compile.plan import Contract
from pysandbox.dlp.detectors import founding
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


def greets_who_is_there(trial: Trial, event: Event) -> None:
    with suppress(ProtocolError):  # of a stream that was reset in the same bytes
        greeting(trial, event)


def ignored_event(_: Trial, __: Event) -> None:
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


def scan_in(cage: Room, whole: int = 1 << 20) -> ConnectionScan:
    return ConnectionScan(PlanScan({**SCANNED, "whole": whole}), NAME, (), ignored, cage, ())


def test_no_answer_is_owed_to_a_body_that_still_comes() -> None:
    """Only silence counts, whoever keeps it."""
    now = [1.0]
    trial = Trial(scan=scan_in(Room()), clock=lambda: now[0])
    trial.ask(1, fields("POST", "/a/x", ("content-length", "30000")), bytes(10_000), ends=False)
    for _ in range(2):
        now[0] += 20
        trial.client.send_data(1, b"a" * 10_000)
        trial.turn()
        assert trial.conversation.waits_since == now[0], "it came within the patience"
    now[0] += 20
    assert trial.conversation.waits_since == now[0] - 20, "and then nothing comes"
    trial.client.end_stream(1)
    trial.answer = lambda *_: None
    trial.turn()
    assert trial.conversation.waits_since == now[0], "from the end of it on"


def test_bodies_that_are_never_ended_give_their_room_to_the_one_that_waits() -> None:
    now, cage, most = [1.0], Room(1 << 20), 1 << 20
    silent, honest = (Trial(scan=scan_in(cage), clock=lambda: now[0]).turn() for _ in range(2))
    silent.ask(1, fields("POST", "/a/x", ("content-length", str(most))), bytes(80_000), ends=False)
    honest.ask(1, fields("POST", "/a/y"), bytes(100_000), ends=False)
    honest.client.end_stream(1)
    now[0] += 20
    honest.turn()
    assert not paths(honest) and not honest.conversation.is_waiting, "the control: others have the room"
    now[0] += 20
    assert silent.conversation.waits_since == 1.0
    silent.conversation.fail(504, "upstream-timeout", "no answer")
    assert not honest.conversation.is_waiting, "it is not late on account of those"
    silent.turn(), honest.turn()
    assert silent.fields_heard(1)[":status"] == "504"
    assert honest.fields_heard(1)[":status"] == "200"


def test_a_refused_stream_whose_client_takes_no_answer_comes_to_rest() -> None:
    cage, token = Room(), founding.ROWS[0].hits[0]
    trial = Trial(scan=scan_in(cage))
    trial.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    trial.ask(1, fields("POST", "/a/x"), b"a" * 4000, ends=False)
    trial.client.send_data(1, b" " + token + b" ", end_stream=True)
    trial.turn()  # which ends
    trial.client.ping(b"12345678")
    trial.turn()
    assert trial.fields_heard(1)[":status"] == "451" and not paths(trial)
    assert not trial.conversation.goes_on
    assert not cage._spared and not cage._taken


def test_a_reset_behind_heads_for_another_turn_ends_its_stream_alone() -> None:
    large = [("x-large", "%25" * 1000)]
    trial = Trial(answer=greets_who_is_there)
    trial.ask(1, fields("GET", "/a/1", *large))
    for number in range(3, 61, 2):
        trial.client.send_headers(number, fields("GET", f"/a/{number}", *large), end_stream=True)
    for number in (5, 57, 59):
        trial.client.reset_stream(number)
    said = trial.client.data_to_send()
    trial.conversation.client_said(said)
    assert trial.conversation._client.more, "the control: some wait for another turn"
    trial._server_hears()
    trial._server_says()  # an answer to what was reset
    trial.turn()
    assert {number for number in range(1, 61, 2) if trial.fields_heard(number).get(":status") != "200"} <= {5, 57, 59}
    assert trial.ask(61, fields()).fields_heard(61)[":status"] == "200", "and the connection goes on"


def test_a_request_that_is_refused_and_reset_at_once_ends_alone() -> None:
    trial = Trial(Contract(("GET",)))
    trial.client.send_headers(1, fields("POST"))
    trial.client.send_headers(3, fields("POST", "/a/x", ("expect", "100-continue"), ("content-length", "3")))
    trial.client.reset_stream(1)
    trial.client.reset_stream(3)
    assert trial.turn().ask(5, fields()).fields_heard(5)[":status"] == "200"
    assert list(trial.conversation._streams) == []


def test_a_reset_of_the_server_behind_heads_for_another_turn_ends_its_stream_alone() -> None:
    trial = Trial(answer=ignored_event)
    numbers = range(1, 61, 2)
    for number in numbers:
        trial.ask(number, fields("POST" if number == 59 else "GET"), ends=number != 59)
    for number in range(1, 59, 2):
        trial.server.send_headers(number, [(":status", "200"), ("x-large", "%25" * 1000)], end_stream=True)
    trial.server.reset_stream(59)
    trial.conversation.server_said(trial.server.data_to_send())
    assert trial.conversation._server.more, "the control: some wait for another turn"
    trial.client.send_data(59, b"more of it")
    trial.turn()
    assert [trial.fields_heard(number)[":status"] for number in range(1, 59, 2)] == ["200"] * 29
    assert [number for number, _ in trial.resets()] == [59]
    trial.answer = greeting
    assert trial.ask(61, fields()).fields_heard(61)[":status"] == "200", "and the connection goes on"


def test_what_a_server_said_before_it_hung_up_is_passed_on() -> None:
    """It ends behind many small frames, which are read in several turns."""
    trial = Trial(answer=ignored_event)
    trial.ask(1, fields()).ask(3, fields("POST"), ends=False)
    trial.server.send_headers(1, [(":status", "200")])
    for number in range(300):
        trial.server.send_data(1, b"%5d" % number)
    trial.server.send_headers(1, [("grpc-status", "0")], end_stream=True)
    trial.conversation.server_said(trial.server.data_to_send())
    assert trial.conversation._server.more, "the control: some wait for another turn"
    trial.conversation.server_ended(clean=True)
    trial.turn()
    assert trial.content(1) == b"".join(b"%5d" % number for number in range(300))
    assert 1 not in dict(trial.resets())
    assert trial.fields_heard(1)["grpc-status"] == "0"
    assert trial.fields_heard(3)[":status"] == "502", "and what it has not answered is told so"
    assert trial.goodbye == 0


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
