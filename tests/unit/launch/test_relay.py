"""launch/relay.py: what happens to output on its way when a call of the host's fails. (That it arrives: tests/e2e.)"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from _support.hosts import comes_true
from pysandbox.launch import relay
from pysandbox.launch.relay import InputFeed, OutputRelay

PATIENCE = 10.0


def failing(number: int, times: int, then: Any) -> Any:
    """`then`, after so many failures."""
    left = [times]

    def call(*arguments: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return then(*arguments)

    return call


class Poller:
    """A poll that fails; of the relay's own thread alone."""

    def __init__(self, poll: Any) -> None:
        self.poll = poll

    def register(self, *_: object) -> None:
        pass


def served(monkeypatch: pytest.MonkeyPatch, target: Path, poll: Any) -> tuple[int, OutputRelay, threading.Thread]:
    """The writing end, and a relay with the thread that serves it."""
    source, end = os.pipe()
    with target.open("wb") as file:
        made = OutputRelay(source, file.fileno())
    monkeypatch.setattr(relay.select, "poll", lambda: Poller(poll))
    thread = threading.Thread(target=made._run)
    monkeypatch.setattr(relay, "start_new_thread", lambda run, arguments: thread.start())
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    made.serve()
    return end, made, thread


def is_broken(end: int) -> bool:
    try:
        os.write(end, b"anything")
    except BrokenPipeError:
        return True
    return False


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN, errno.EINTR], ids=errno.errorcode.get)
def test_a_moment_s_want_is_waited_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int) -> None:
    end, made, thread = served(monkeypatch, tmp_path / "out", failing(number, 3, lambda: [(0, 1)]))
    os.write(end, b"all of it")
    os.close(end)
    assert comes_true(lambda: (tmp_path / "out").read_bytes() == b"all of it" and made.source < 0)
    thread.join(PATIENCE)


def test_a_relay_that_cannot_go_on_lets_nobody_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever writes hears of it: a pipe that nobody empties would hold a command for ever."""
    end, made, thread = served(monkeypatch, tmp_path / "out", failing(errno.EBADF, 1000, None))
    assert comes_true(lambda: made.source < 0 and is_broken(end))
    thread.join(PATIENCE)  # what it raises is silenced for as long as this test lasts
    os.close(end)


def test_a_relay_that_is_not_made_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source, end = os.pipe()
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "set_blocking", failing(errno.ENOMEM, 1, None))
    with pytest.raises(OSError, match="memory"):
        OutputRelay(source, end)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(source)
    os.close(end)


def test_input_is_not_cut_short_by_a_moment_s_want(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"all of it")
    source, sink = os.pipe()
    monkeypatch.setattr(os, "pread", failing(errno.ENOMEM, 2, os.pread))
    with (tmp_path / "in").open("rb") as file:
        InputFeed(file.fileno(), sink)._run()
    with open(source, "rb") as fed:
        assert fed.read() == b"all of it"
