"""What serves a detached cage: one look may bring several things at once, and one of them may undo another."""

from __future__ import annotations

import os
import selectors
import socket
from typing import Any

import pytest

from pysandbox import shim
from pysandbox.shim import Shim, Spooled


def test_a_talk_that_was_hung_up_on_in_the_same_look_is_nobody_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "MOST_TALKS", 1)
    listener = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made: Any = Shim.__new__(Shim)
    made._selector, made._talks, made._key = selectors.DefaultSelector(), {}, "key"
    silent, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made._talks[silent] = False
    made._selector.register(silent, selectors.EVENT_READ, lambda: made._on_message(silent))
    its_end.send(b"at last")
    (key, _), *_ = made._selector.select(0)
    assert made._make_room() and silent not in made._talks, "somebody else has come"
    key.data()
    for each in (*listener, its_end, made._selector):
        each.close()


def test_an_output_that_had_nothing_for_once_is_not_at_its_end() -> None:
    read, write = os.pipe()
    file = os.memfd_create("output")
    with open(read, "rb", buffering=0) as source:
        spooled = Spooled(source, file, 100)
        assert not spooled.move() and not spooled.is_over
        os.write(write, b"said")
        assert spooled.move() and not spooled.is_over
        os.close(write)
        assert not spooled.move() and spooled.is_over
    assert os.pread(file, 10, 0) == b"said"
    os.close(file)
