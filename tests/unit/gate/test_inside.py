"""gate/inside.py: descriptors become sockets, all or none."""

from __future__ import annotations

import os
import socket

import pytest

from pysandbox.gate.published.inside import as_sockets


def test_all_are_closed_when_one_is_none() -> None:
    before = len(os.listdir("/proc/self/fd"))
    one, other = socket.socketpair()
    read, write = os.pipe()
    os.close(write)
    with pytest.raises(OSError, match="socket"):
        as_sockets({"a": one.detach(), "not one": read, "b": other.detach()})
    assert len(os.listdir("/proc/self/fd")) == before


def test_each_has_its_key() -> None:
    one, other = socket.socketpair()
    made = as_sockets({1: one.detach(), 2: other.detach()})
    made[1].send(b"x")
    assert made[2].recv(1) == b"x"
    for each in made.values():
        each.close()
