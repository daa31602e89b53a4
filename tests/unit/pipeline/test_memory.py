"""Memory for a call, where the program may make no file as large; and what is handed over where few more can be."""

from __future__ import annotations

import errno
import os
import resource
import socket
import threading

import pytest

from pysandbox.pipeline.memory import fixed_memory, hand_over


def test_a_limit_on_files_that_is_too_low_is_named() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        os.close(fixed_memory(1 << 16))  # control
        with pytest.raises(OSError, match="raise ulimit -f"):
            fixed_memory((1 << 16) + 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Crowded(socket.socket):
    """Whoever sends by it finds too many descriptors on their way."""

    def sendmsg(self, *_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, "too many")


@pytest.mark.parametrize("is_full", [False, True])
def test_what_finds_no_room_on_its_way_goes_as_the_host_s_other_messages_do(is_full: bool) -> None:
    """So that one lock is over the limit that is raised for it, whoever sends."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with near, far, Crowded(fileno=os.dup(near.fileno())) as crowded:
        reader = threading.Thread(target=lambda: [far.recv(1 << 16) for _ in range(count)])
        near.setblocking(False)
        count = 0
        while is_full:
            try:
                count += bool(near.send(bytes(1 << 12)))
            except BlockingIOError:
                break
        reader.start()
        hand_over(crowded, b"said", [0])
        reader.join(20)
        said, fds, _, _ = socket.recv_fds(far, 16, 1)
        os.close(fds[0])
    assert (said, resource.getrlimit(resource.RLIMIT_NOFILE)) == (b"said", before)
