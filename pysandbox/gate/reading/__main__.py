"""START HERE: the process that reads what cages say. It takes a channel from the host program, does everything once,
gives everything up, and only then looks at its first byte.

What it gives up (csrc/host/confine): every file, every way to make a socket, a connection, a process or a program, and
every signal to another. What it keeps is the channel to the host program, the doors and connections that come through
it, accept4(2), and a pipe for its last words. It ends with the channel.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys

import h11

from pysandbox._native import lib
from pysandbox.gate import refusal
from pysandbox.gate.http import forward
from pysandbox.gate.http import messages as http
from pysandbox.gate.last_words import say_last_words
from pysandbox.gate.own_limits import set_own_limits
from pysandbox.gate.reading.repeats import RepeatSelector
from pysandbox.gate.reading.serving import Reader
from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp import inspected
from pysandbox.policy.names import canonical

LOADED = forward, inspected, refusal  # what is imported only where a connection needs it


def main(channel_fd: int, dials_fd: int) -> None:
    host, dials = socket.socket(fileno=channel_fd), socket.socket(fileno=dials_fd)
    set_own_limits()
    selector = RepeatSelector()
    loop = asyncio.SelectorEventLoop(selector)
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(lambda *_: None)  # what strangers say is told nowhere
    _rehearse()
    reader = Reader(host, dials, loop, selector)
    gc.freeze()
    if failed := lib.psb_confine_reader():
        raise OSError(-failed, f"the reader cannot confine itself: {os.strerror(-failed)}")
    say_last_words()
    loop.run_until_complete(reader.run())
    os._exit(0)


def _rehearse() -> None:
    """Does everything once, because nothing can be loaded later: modules, codecs."""
    canonical("xn--bcher-kva.example"), canonical("b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example")
    asked = h11.Connection(h11.SERVER)
    asked.receive_data(b"GET http://host.example/ HTTP/1.1\r\nHost: host.example\r\n\r\n")
    asked_for = asked.next_event()
    assert isinstance(asked_for, h11.Request)
    http.absolute_target(asked_for)
    asked.send(http.blocked("rehearsed", Decision(False, "host", ""))[0])
    http.refusal(502, "upstream-unreachable", "rehearsed")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
