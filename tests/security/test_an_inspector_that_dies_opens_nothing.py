"""Claim: when the inspector is killed, or what it says is garbage, what it served is cut, and nothing is let through
unseen: the next one holds the same, and after that hosts with a contract are closed."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from _support.inspected import Asking, Server, ask, request, wait_for_another
from pysandbox.compile.plan import Contract
from pysandbox.events import Event
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


def _has_told(asking: Asking, events: list[Event], times: int) -> bool:
    return len(asking.ended) == len(events) == times


def _pid(inspector: InspectorProcess) -> int:
    process = inspector.process
    assert process is not None
    return process.pid
