"""The port: whatever bytes come, there is an answer or an end; and the client says what the table says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _support.apps import package
from pysandbox.apps import App, Kernel, client, wire
from pysandbox.apps.denials import REASONS, DenialLog
from pysandbox.apps.dispatch import Dispatch
from pysandbox.apps.machine import STATUS
from pysandbox.apps.opcodes import EFFECTS, OPCODES
from pysandbox.apps.port import PortEnded, RequestDispatch

ALL = ["fs.use", "chan.use", "win.manage", "input.route"]


def port(kernel: Kernel, ticks: int = 1000) -> tuple[RequestDispatch, DenialLog]:
    log = DenialLog(1000)
    grant = App.debug(package(requested_capabilities=ALL)).grant
    return RequestDispatch(Dispatch(grant, kernel, log), ticks), log


def asked(requests: RequestDispatch, opcode: str, *operands: object) -> tuple[str, list[object]]:
    status, values = wire.parse(requests.answer(wire.record(OPCODES[opcode].number, operands)))
    return client.STATUSES[status], values


def test_the_client_knows_the_opcodes_and_the_statuses_of_the_table() -> None:
    assert {"NOP": 0, **{name: row.number for name, row in EFFECTS.items()}} == client.OPCODES
    assert client.STATUSES[1:5] == REASONS
    assert [STATUS[each] for each in client.STATUSES] == list(range(6))


VALUES = st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"])) | st.binary()


@given(st.integers(0, 255), st.lists(VALUES | st.integers(0, 2**64 - 1).map(wire.HandleNumber), max_size=5))
def test_a_record_is_read_as_it_was_written(head: int, values: list[object]) -> None:
    found, read = wire.parse(wire.record(head, tuple(values)))
    assert (found, read, list(map(type, read))) == (head, values, list(map(type, values)))


@given(st.binary(max_size=80) | st.builds(lambda n, rest: bytes((n, 2)) + rest, st.integers(0, 45), st.binary()))
def test_any_bytes_have_an_answer_or_end_the_app(request: bytes) -> None:
    with Kernel() as kernel:
        requests, _ = port(kernel)
        try:
            status, _ = wire.parse(requests.answer(request))
        except PortEnded:
            return
        assert status < len(client.STATUSES)


@pytest.mark.parametrize(
    "request_",
    [
        b"", b"\x00", b"\x01\x00", b"\xff\x00", bytes((24, 1)), bytes((24, 0)), bytes((24, 2)) + wire.packed("docs"),
        bytes((24, 1)) + wire.packed("docs")[:-1], bytes((24, 1)) + wire.packed("docs") + b"s", b"\x00\x01x",
        bytes((24, 1)) + b"s\xff\xff\xff\xff", bytes((24, 1)) + b"s\x01\0\0\0\xff", bytes((24, 1)) + b"i\0\0",
        wire.record(24, (wire.HandleNumber(1),)), wire.record(0, (1,)), wire.record(6, ()), wire.record(1, (1, 1)),
        b"\x00\x00" + b"x" * 65_536,
    ],
    ids=lambda value: value[:12].hex(),
)  # fmt: skip
def test_what_is_no_request_ends_the_app(request_: bytes) -> None:
    with Kernel() as kernel, pytest.raises(PortEnded, match="trap: "):
        port(kernel)[0].answer(request_)


def test_a_handle_has_a_type_of_its_own() -> None:
    with Kernel() as kernel:
        requests, log = port(kernel)
        _, (handle,) = asked(requests, "WIN_CREATE", "title")
        assert type(handle) is wire.HandleNumber
        assert asked(requests, "WIN_FOCUS", handle) == ("ok", [])
        assert asked(requests, "WIN_FOCUS", int(handle)) == ("denied_handle_owner", [])
        assert asked(requests, "WIN_FOCUS", str(handle)) == ("denied_handle_owner", [])
        assert asked(requests, "FS_CLOSE", handle) == ("invalid_handle_kind", [])
        assert asked(requests, "WIN_CLOSE", handle) == ("ok", [])
        assert asked(requests, "WIN_FOCUS", handle) == ("denied_handle_owner", [])
        assert len(log) == 4


def test_every_request_is_a_tick() -> None:
    with Kernel() as kernel:
        requests, log = port(kernel, ticks=2)
        assert asked(requests, "NOP") == ("ok", [])
        assert asked(requests, "FS_LIST", "secret") == ("denied_scope", [])
        assert log[0].tick == 2
        with pytest.raises(PortEnded, match="ticks"):
            requests.answer(wire.record(0, ()))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1.0, None, True, [1]])
def test_the_client_sends_what_the_port_carries_alone(value: object) -> None:
    with pytest.raises((TypeError, OverflowError)):
        wire.packed(value)
