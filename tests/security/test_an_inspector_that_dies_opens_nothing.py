"""Claim: when the inspector is killed, or what it says is garbage, what it served is cut, and nothing is let through
unseen: the next one holds the same, and after that hosts with a contract are closed."""

from __future__ import annotations

import errno
import os
import signal
import socket
from functools import partial
from pathlib import Path

import pytest

from _support.inspected import Asking, Server, ask, inspector_process, request, wait_for_another
from pysandbox.compile.plan import Contract
from pysandbox.events import Event
from pysandbox.gate import inspector as inspector_module
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord, Kind
from pysandbox.gate.inspector import InspectorProcess

from .harness import wait_until

GET = Contract(methods=("GET",))


@pytest.fixture
def asking(inspector: InspectorProcess, server: Server, tmp_path: Path) -> Asking:
    return Asking(inspector, GET, str(tmp_path / "api.example.pem"))


def test_while_it_lives_each_request_is_held_to_the_block(asking: Asking, server: Server) -> None:
    """The control."""
    with asking.client(server) as tls:
        assert ask(tls, request()).endswith(b"hello")
        assert ask(tls, request("DELETE", "/x")).startswith(b"HTTP/1.1 415")
    assert b"DELETE" not in server.heard
    assert asking.refused() == [("http", "host.methods")]


def test_killed_it_is_replaced_once_and_then_nothing_goes_through(
    inspector: InspectorProcess, asking: Asking, server: Server, events: list[Event]
) -> None:
    for times in (1, 2):
        with asking.client(server) as tls:
            assert ask(tls, request()).endswith(b"hello")
            os.kill(_pid(inspector), signal.SIGKILL)
            with pytest.raises(OSError):
                assert ask(tls, request()) == b""
                raise ConnectionError
        assert wait_until(partial(_has_told, asking, events, times), 20)
        if times == 1:
            wait_for_another(inspector, asking.net)
    with pytest.raises(OSError, match="not started again"):
        inspector.trust(asking.net)
    with pytest.raises(OSError), asking.client(server):
        pass
    assert asking.ended == [True, True]
    assert all(each.type == "gatekeeper.failed" for each in events)


def test_one_that_ends_at_its_start_is_told_at_once_with_how(
    events: list[Event], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspector_module, "MODULE", "no_module_of_this_name")
    with inspector_process(events) as inspector, pytest.raises(OSError, match="exit code 1") as told:
        Asking(inspector, GET, str(tmp_path / "api.example.pem"))
    assert told.value.errno == errno.ESHUTDOWN, "not as one that is silent for long"


def test_a_plan_that_could_not_be_sent_is_sent_again(
    inspector: InspectorProcess, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, short = channel.send, [True]

    def once(near: socket.socket, record: ChannelRecord, fds: tuple[int, ...] = (), patience: float = 0.0) -> None:
        if record.kind is Kind.PLAN and short.pop():
            raise OSError(errno.ETOOMANYREFS, "too many")
        send(near, record, fds, patience)

    monkeypatch.setattr(channel, "send", once)
    with pytest.raises(OSError, match="too many"):
        Asking(inspector, GET, str(tmp_path / "api.example.pem"))
    short.append(False)
    with Asking(inspector, GET, str(tmp_path / "api.example.pem")).client(server) as tls:
        assert ask(tls, request()).endswith(b"hello")


def _has_told(asking: Asking, events: list[Event], times: int) -> bool:
    return len(asking.ended) == len(events) == times


def _pid(inspector: InspectorProcess) -> int:
    process = inspector.process
    assert process is not None
    return process.pid
