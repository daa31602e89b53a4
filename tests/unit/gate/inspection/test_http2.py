"""The conversation in HTTP/2: each stream is one request, judged as one of HTTP/1.1 is, and none holds up another."""

from __future__ import annotations

import struct

import pytest
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    RequestReceived,
    StreamEnded,
    TrailersReceived,
)

from _support.http2 import GREETING, NAME, Trial, fields, frame, greeting, without_goodbye
from pysandbox.compile.plan import Contract
from pysandbox.gate.inspection.http2.frames import (
    AT_ONCE,
    CREDIT,
    DATA,
    ENHANCE_YOUR_CALM,
    FEW,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    REFUSED_STREAM,
    SETTINGS,
    FrameCutter,
    goaway,
    known_settings,
)
from pysandbox.gate.inspection.http2.side import WHOLE_WINDOW

LARGE = bytes(range(256)) * 4096  # 1 MiB
ONLY = Contract(methods=("GET", "POST"), paths=("/a/",), content_types=("application/json", "application/grpc"))


def requests(trial: Trial) -> list[dict[str, str]]:
    return [dict(each.headers or ()) for each in trial.arrived if isinstance(each, RequestReceived)]  # type: ignore[arg-type]


def test_a_request_and_its_answer_pass_and_the_way_to_another_server_does_not() -> None:
    trial = Trial().ask(1, fields())
    assert requests(trial) == [{":method": "GET", ":scheme": "https", ":authority": NAME, ":path": "/a/x"}]
    assert trial.fields_heard(1) == {":status": "200"} and trial.content(1) == b"hello"
    assert not trial.conversation.over and trial.conversation.answered == 1


def test_what_is_refused_ends_its_stream_and_no_other() -> None:
    trial = Trial(ONLY).ask(1, fields("DELETE")).ask(3, fields(path="/b")).ask(5, fields("POST", "/a/x"), b"x")
    assert [trial.fields_heard(each)[":status"] for each in (1, 3, 5)] == ["415"] * 3
    assert [each.column for each in trial.told] == ["methods", "paths", "content_types"]
    assert trial.fields_heard(1)["x-pysandbox-error"] == "contract-refused"
    assert b'methods = ["GET", "POST", "DELETE"]' in trial.content(1)
    assert trial.ask(7, fields()).content(7) == b"hello"
    assert [each[":path"] for each in requests(trial)] == ["/a/x"]


def test_a_client_of_grpc_is_refused_in_a_status_of_grpc() -> None:
    grpc = (("content-type", "application/grpc"), ("te", "trailers"))
    trial = Trial(ONLY).ask(1, fields("POST", "/b", *grpc), b"message")
    heard = trial.fields_heard(1)
    assert (heard[":status"], heard["grpc-status"]) == ("200", "7") and "path /b" in heard["grpc-message"]
    assert trial.content(1) == b"" and requests(trial) == []
    large = Trial(Contract(max_request_bytes=10)).ask(1, fields("POST", "/", *grpc), bytes(11))
    assert large.fields_heard(1)["grpc-status"] == "8"


def test_trailers_pass_in_both_directions() -> None:
    def answer(trial: Trial, event: Event) -> None:
        if isinstance(event, StreamEnded):
            number = event.stream_id or 0
            trial.server.send_headers(number, [(":status", "200"), ("content-type", "application/grpc")])
            trial.server.send_data(number, b"reply")
            trial.server.send_headers(number, [("grpc-status", "0")], end_stream=True)

    trial = Trial(answer=answer)
    trial.ask(1, fields("POST", "/", ("te", "trailers")), b"body", ends=False)
    trial.client.send_headers(1, [("x-sum", "1")], end_stream=True)
    trial.turn()
    (trailer,) = [each for each in trial.arrived if isinstance(each, TrailersReceived)]
    assert list(trailer.headers or ()) == [("x-sum", "1")] and requests(trial)[0]["te"] == "trailers"
    assert trial.content(1) == b"reply" and trial.fields_heard(1)["grpc-status"] == "0"


def test_each_piece_of_a_stream_passes_when_it_comes() -> None:
    trial = Trial(answer=lambda trial, event: None).ask(1, fields("POST"), b"one", ends=False)
    assert trial.content(1, trial.arrived) == b"one"
    trial.server.send_headers(1, [(":status", "200")])
    trial.server.send_data(1, b"event")
    assert trial.turn().content(1) == b"event"
    trial.client.send_data(1, b"two", end_stream=True)
    assert trial.turn().content(1, trial.arrived) == b"onetwo"


def test_large_bodies_pass_whole_by_windows() -> None:
    def answer(trial: Trial, event: Event) -> None:
        if isinstance(event, DataReceived):
            trial.server.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
        if isinstance(event, StreamEnded):
            trial.server.send_headers(event.stream_id or 0, [(":status", "200")])
            trial.left = LARGE  # type: ignore[attr-defined]
        number, left = 1, getattr(trial, "left", None)
        while left:
            room = min(trial.server.local_flow_control_window(number), 16384)
            if not room:
                break
            trial.server.send_data(number, left[:room], end_stream=len(left) <= room)
            left = trial.left = left[room:]  # type: ignore[attr-defined]

    trial = Trial(answer=answer)
    trial.client.send_headers(1, fields("POST"))
    left = LARGE
    while left:
        room = min(trial.turn().client.local_flow_control_window(1), 16384)
        trial.client.send_data(1, left[:room], end_stream=len(left) <= room)
        left = left[room:]
    trial.turn()
    assert trial.content(1, trial.arrived) == LARGE and trial.content(1) == LARGE


def test_what_nobody_reads_is_bounded_and_holds_up_no_other_stream() -> None:
    def answer(trial: Trial, event: Event) -> None:
        if isinstance(event, RequestReceived) and event.stream_id == 1:
            return  # and it never takes the body
        if isinstance(event, StreamEnded):
            greeting(trial, event)

    trial = Trial(answer=answer)
    trial.client.send_headers(1, fields("POST"))
    sent = 0
    while room := min(trial.turn().client.local_flow_control_window(1), 16384):
        trial.client.send_data(1, bytes(room))
        sent += room
    assert sent < WHOLE_WINDOW and trial.most_in_flight < WHOLE_WINDOW
    assert trial.ask(3, fields()).content(3) == b"hello"


def test_a_client_that_reads_nothing_holds_up_itself_in_bounded_memory() -> None:
    trial = Trial()
    for number in range(1, 199, 2):
        trial.client.send_headers(number, fields("DELETE" if number % 4 == 1 else "GET"), end_stream=True)
    trial.reads = False
    trial.turn()
    assert trial.most_in_flight < WHOLE_WINDOW
    trial.reads = True
    trial.turn()
    assert trial.content(197) == b"hello"


def test_a_body_that_turns_out_too_large_never_becomes_whole() -> None:
    trial = Trial(Contract(max_request_bytes=20_000)).ask(1, fields("POST"), bytes(16_000), ends=False)
    trial.client.send_data(1, bytes(10_000), end_stream=True)
    trial.turn()
    assert trial.fields_heard(1)[":status"] == "413" and trial.told[0].column == "max_request_bytes"
    assert not any(isinstance(each, StreamEnded) for each in trial.arrived)
    assert trial.resets(trial.arrived) == [(1, 8)]


def test_interim_answers_pass_and_not_without_end() -> None:
    def answer(trial: Trial, event: Event) -> None:
        if isinstance(event, StreamEnded):
            for _ in range(40 if event.stream_id == 3 else 2):
                trial.server.send_headers(event.stream_id or 0, [(":status", "103"), ("link", "</a>")])
            if event.stream_id == 1:
                greeting(trial, event)

    trial = Trial(answer=answer).ask(1, fields())
    assert sum(isinstance(each, InformationalResponseReceived) for each in trial.heard) == 2
    assert trial.ask(3, fields()).fields_heard(3)[":status"] == "502"


def test_a_server_that_leaves_answers_what_it_has_and_gives_back_the_rest() -> None:
    trial = Trial(answer=lambda trial, event: None).ask(1, fields()).ask(3, fields())
    trial.conversation.server_said(goaway(1, 0))
    trial.server.send_headers(1, [(":status", "200")], end_stream=True)
    trial.turn()
    assert trial.fields_heard(1) == {":status": "200"} and trial.resets() == [(3, REFUSED_STREAM)]
    assert trial.conversation.over


def test_as_many_requests_are_sent_at_once_as_the_server_takes() -> None:
    trial = Trial(answer=lambda trial, event: None)
    trial.server.update_settings({3: 1})
    trial.turn().ask(1, fields()).ask(3, fields(path="/second"))
    assert [each[":path"] for each in requests(trial)] == ["/a/x"]
    trial.server.send_headers(1, [(":status", "200")], end_stream=True)
    assert [each[":path"] for each in requests(trial.turn())] == ["/a/x", "/second"]


def test_the_server_that_hangs_up_or_is_late_costs_a_status() -> None:
    now = [1.0]
    trial = Trial(answer=lambda trial, event: None, clock=lambda: now[0]).ask(1, fields())
    now[0] = 2.0
    trial.ask(3, fields())
    assert trial.conversation.is_waiting and trial.conversation.waits_since == 1.0
    trial.conversation.fail(504, "upstream-timeout", "late")
    assert trial.turn().fields_heard(1)[":status"] == "504" and trial.conversation.waits_since == 2.0
    trial.conversation.server_ended(clean=False)
    assert trial.turn().fields_heard(3)[":status"] == "502" and trial.conversation.over


def test_what_failed_before_the_first_request_is_told_to_it() -> None:
    trial = Trial()
    trial.conversation.fail(502, "upstream-tls", "its certificate is not accepted")
    assert not trial.conversation.over
    assert trial.ask(1, fields()).fields_heard(1)["x-pysandbox-error"] == "upstream-tls"
    assert trial.conversation.over and trial.arrived == trial.arrived[:2] and requests(trial) == []


def test_a_server_that_hangs_up_between_requests_ends_the_connection() -> None:
    trial = Trial().ask(1, fields())
    trial.conversation.server_ended(clean=True)
    assert trial.conversation.over and trial.turn().goodbye == 0


def test_a_stream_that_its_client_takes_back_is_taken_back_from_the_server() -> None:
    trial = Trial(answer=lambda trial, event: None).ask(1, fields("POST"), b"x", ends=False)
    trial.client.reset_stream(1, 8)
    trial.turn()
    assert trial.resets(trial.arrived) == [(1, 8)] and not trial.conversation.is_waiting


# ---- what makes no sense -----------------------------------------------------------------------------------------

BAD_HEADS = {
    "another host": (fields(authority="other.example"), "403"),
    "host beside authority": (fields("GET", "/", ("host", "other.example")), "400"),
    "userinfo": (fields(authority=f"user@{NAME}"), "403"),
    "another port": (fields(authority=f"{NAME}:8443"), "403"),
    "scheme": ([*fields()[:1], (":scheme", "http"), *fields()[2:]], "400"),
    "method": (fields("GET /x HTTP/1.1\r\nHost: a"), "400"),
    "path with a space": (fields(path="/a b"), "400"),
    "path with a line": (fields(path="/a\r\nx: y"), "400"),
    "a line in a value": (fields("GET", "/", ("x", "a\r\nhost: other.example")), "400"),
    "a zero in a value": (fields("GET", "/", ("x", "a\0b")), "400"),
    "a space in a name": (fields("GET", "/", ("x y", "a")), "400"),
    "a colon in a name": (fields("GET", "/", ("x:y", "a")), "400"),
    "a length and no body": (fields("POST", "/", ("content-length", "5")), "400"),
    "connect": ([(":method", "CONNECT"), (":authority", NAME)], "400"),
    "extended connect": ([*fields("CONNECT"), (":protocol", "websocket")], "400"),
    "chunked": (fields("POST", "/", ("transfer-encoding", "chunked")), "400"),
    "upgrade": (fields("GET", "/", ("upgrade", "websocket")), "400"),
    "connection": (fields("GET", "/", ("connection", "x-secret")), "400"),
    "te": (fields("GET", "/", ("te", "gzip")), "400"),
    "no path": ([each for each in fields() if each[0] != ":path"], "400"),
    "empty path": (fields(path=""), "400"),
    "upper case": (fields("GET", "/", ("X-Upper", "a")), "400"),
    "pseudo-header after a field": ([("x", "y"), *fields()], "400"),
    "pseudo-header twice": ([*fields(), (":path", "/b")], "400"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_HEADS)
def test_a_head_with_two_readings_never_arrives(name: str) -> None:
    """It is refused on its stream, or ends the connection."""
    said, status = BAD_HEADS[name]
    trial = Trial()
    trial.client.config.validate_outbound_headers = trial.client.config.normalize_outbound_headers = False
    trial.ask(1, said)
    assert requests(trial) == []
    ended = trial.conversation.over and not trial.fields_heard(1)
    assert ended or trial.fields_heard(1)[":status"] == status


@pytest.mark.parametrize("length", ["1", "30", "+5", "5, 5", "0x5"])
def test_a_length_that_lies_never_becomes_a_whole_request(length: str) -> None:
    trial = Trial()
    trial.client.config.validate_outbound_headers = False
    trial.ask(1, fields("POST", "/", ("content-length", length)), b"12345")
    assert not any(isinstance(each, StreamEnded) for each in trial.arrived)


def flood(*said: bytes) -> tuple[Trial, int | None]:
    """Raw frames after the greeting; the code of the goodbye."""
    trial = Trial()
    heard = bytearray()
    for each in (GREETING, *said):
        trial.conversation.client_said(each)
        while trial.conversation.goes_on:
            trial.conversation.go_on()
            heard += trial.conversation.to_client
            trial.conversation.to_client.clear()
        heard += trial.conversation.to_client
        trial.conversation.to_client.clear()
    return trial, without_goodbye(bytes(heard))[1]


ASKED = b"\x82\x87\x84\x41\x0b" + NAME.encode()  # GET / in HPACK
FLOODS = {
    "ping": frame(PING, 0, 0, bytes(8)) * (CREDIT + 9),
    "settings": frame(SETTINGS, 0, 0) * (CREDIT + 9),
    "priority": frame(PRIORITY, 0, 3, bytes(5)) * (CREDIT + 9),
    "unknown frames": frame(0x77, 0, 0, bytes(5)) * (CREDIT + 9),
    "empty data": frame(HEADERS, 4, 1, ASKED) + frame(DATA, 0, 1) * (CREDIT + 9),
    "window updates": frame(8, 0, 0, struct.pack("!I", 1)) * (CREDIT + 9),
    "rapid reset": b"".join(
        frame(HEADERS, 5, number, ASKED) + frame(3, 0, number, struct.pack("!I", 8)) for number in range(1, 801, 2)
    ),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends_the_connection_and_a_few_do_not(name: str) -> None:
    trial, code = flood(FLOODS[name])
    assert (trial.conversation.over, code) == (True, ENHANCE_YOUR_CALM)
    trial.conversation.go_on()  # as a connection does at each of its turns
    assert not trial.conversation.to_client
    _, code = flood(FLOODS[name][: len(FLOODS[name]) // 40 // 9 * 9])
    assert code is None or name in ("rapid reset", "settings"), code


def test_content_in_small_pieces_is_taken_in_short_turns() -> None:
    """And in long ones again, once there is more of it."""
    cutter, one, large = FrameCutter(preface=False), frame(DATA, 0, 1, b"x"), frame(DATA, 0, 1, bytes(100))
    buffer, taken = bytearray(one * 200 + large * 200), [0]
    while buffer:
        left = len(buffer)
        cutter.take(buffer)
        taken.append(left - len(buffer))
    assert taken[1] == AT_ONCE * len(one) and taken[2:12] == [FEW * len(one)] * 10
    assert max(taken[-3:]) == AT_ONCE * len(large)


BLOCK = frame(HEADERS, 1, 1, ASKED)  # without an end
BROKEN = {
    "no preface": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "too long a frame": GREETING + frame(DATA, 0, 1, bytes(16385)),
    "a block that never ends": GREETING + BLOCK + frame(9, 0, 1, bytes(16384)) * 5,
    "empty continuations": GREETING + BLOCK + frame(9, 0, 1) * 300,
    "another frame in a block": GREETING + BLOCK + frame(PING, 0, 0, bytes(8)),
    "data on no stream": GREETING + frame(DATA, 0, 1, b"x"),
    "an even stream": GREETING + frame(HEADERS, 5, 2, ASKED),
    "an older stream": GREETING + frame(HEADERS, 5, 9, ASKED) + frame(HEADERS, 5, 3, ASKED),
    "a window that overflows": GREETING + frame(8, 0, 0, struct.pack("!I", 0x7FFFFFFF)),
    "no HPACK": GREETING + frame(HEADERS, 5, 1, b"\xff" * 9),
    "a push": GREETING + frame(5, 4, 1, struct.pack("!I", 2) + ASKED),
    "a bomb": GREETING + frame(HEADERS, 4, 1, b"\x40\x01x\x7f\xa1\x1e" + b"a" * 4000 + b"\xbe" * 9000),
    "a goodbye of two bytes": GREETING + frame(GOAWAY, 0, 0, b"xx"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_http2_ends_the_connection(name: str) -> None:
    trial = Trial()
    heard = bytearray()
    trial.conversation.client_said(BROKEN[name])
    while trial.conversation.goes_on:
        trial.conversation.go_on()
    heard += trial.conversation.to_client
    assert trial.conversation.over and without_goodbye(bytes(heard))[1] not in (None, 0), bytes(heard)
    assert trial.conversation.in_flight < 1 << 17
    assert bytes(trial.conversation.to_server).count(b"\x82\x87\x84") == 0


def test_what_nobody_knows_is_not_remembered_and_no_table_grows() -> None:
    """65,536 settings would be 40 MB in the library, and a table of 4 GiB would be made of what is sent."""
    entries = b"".join(struct.pack("!HI", key, 1) for key in range(9, 2700)) + struct.pack("!HI", 1, 0xFFFFFFFF)
    said = known_settings(frame(SETTINGS, 0, 0, entries))
    assert said == frame(SETTINGS, 0, 0, struct.pack("!HI", 1, 4096))
    assert known_settings(frame(SETTINGS, 1, 0)) == frame(SETTINGS, 1, 0)
    odd = frame(SETTINGS, 0, 0, bytes(7))
    assert known_settings(odd) == odd

    trial = Trial()
    trial.client.update_settings({1: 1 << 30})
    trial.ask(1, fields())
    for number in range(3, 60, 2):
        trial.ask(number, fields(path=f"/{number}"))
    assert trial.content(59) == b"hello"


def test_a_server_that_makes_no_sense_is_a_502() -> None:
    for said in (b"HTTP/1.1 200 OK\r\n\r\n", frame(PING, 0, 0, bytes(8)) * 3000, frame(5, 4, 1, bytes(4) + ASKED)):
        trial = Trial(answer=lambda trial, event: None).ask(1, fields())
        trial.conversation.server_said(frame(SETTINGS, 0, 0) + said)
        while trial.conversation.goes_on:
            trial.conversation.go_on()
        trial.reads = True
        trial._client_hears()
        assert trial.fields_heard(1)[":status"] == "502", said[:20]
        assert not trial.turn().conversation.goes_on
