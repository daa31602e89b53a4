"""Claim: when the inspector is killed, or what it says is garbage, what it served is cut, and nothing is let through
unseen: the next one holds the same, and after that hosts with a contract are closed."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import ssl
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest

from _support.inspected import Asking, Server, ask, inspector_process, request, wait_for_another
from pysandbox.compile.plan import Contract
from pysandbox.events import Event
from pysandbox.gate import confined
from pysandbox.gate import inspector as inspector_module
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord, Kind
from pysandbox.gate.inspection.serving import HeldPlan
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.trusted import plan_of

from .harness import wait_until

GET = Contract(methods=("GET",))
ODD_WORDS = b"\x1b]0;x\x07\r\n"


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


def test_it_says_where_it_failed_and_nothing_of_what_it_worked_on(asking: Asking, events: list[Event]) -> None:
    """The control: the exception has the stranger's word in its message."""
    said = json.loads(plan_of(asking.net, 99).said) | {"upstream_scheme": "swordfish"}
    with pytest.raises(KeyError, match="swordfish"):
        HeldPlan(json.dumps(said).encode(), ssl.SSLContext)
    near = asking.inspector._channel
    assert near is not None
    with tempfile.TemporaryFile() as file:
        file.write(json.dumps(said).encode())
        file.flush()
        channel.send(near, ChannelRecord(Kind.PLAN, 99), (file.fileno(),))
    assert wait_until(lambda: len(events) == 1, 20)
    reason = str(events[0].data["reason"])
    assert reason.startswith("the inspector of TLS: it has ended with exit code 1: /")
    assert reason.endswith("; KeyError") and "serving.py:" in reason and " in _learn; " in reason
    assert "swordfish" not in reason and reason.isprintable()


def test_whoever_has_taken_it_over_says_one_line_at_its_end(
    events: list[Event], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined, "STARTER", f"import os; os.write(2, {ODD_WORDS!r} * 5000)")
    with inspector_process(events) as inspector, pytest.raises(OSError, match="exit code 0"):
        Asking(inspector, GET, str(tmp_path / "api.example.pem"))
    assert events
    for each in events:
        reason = str(each.data["reason"])
        assert reason.isascii() and reason.isprintable() and "\\x1b]0;x\\x07" in reason and len(reason) < 5000


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


def test_one_that_nobody_could_listen_to_is_ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    inspector = InspectorProcess(lambda _: None)
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched, inspector._lock:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="new thread"):
            inspector._ensure()
    assert (inspector.process, len(os.listdir("/proc/self/fd"))) == (None, before)
    with inspector._lock:  # the control, and the next one serves
        inspector._ensure()
    assert inspector.process is not None and inspector.retire()
