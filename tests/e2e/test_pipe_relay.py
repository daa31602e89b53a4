"""launch/relay.py, PipeRelay: a thread without Python from a pipe to a pipe or a file (csrc/host/relay/outflow.c)."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from _support.hosts import comes_true
from pysandbox.launch.relay import PipeRelay

PATIENCE = 10.0
MEGABYTE = 1 << 20


class Stream:
    """What a command writes to, a relay, and the pipe of the host's behind it."""

    def __init__(self, *, widens: bool = False) -> None:
        source, self.inside = os.pipe()
        self.out, self.target = os.pipe()
        self.relay = PipeRelay(source, self.target, widens=widens)
        self.relay.serve()

    def close(self) -> None:
        for fd in (self.inside, self.out, self.target):
            with suppress(OSError):
                os.close(fd)

    def read_all(self) -> bytes:
        """To the end of both."""
        os.close(self.target)
        os.close(self.inside)
        with open(os.dup(self.out), "rb") as file:
            return file.read()


@pytest.fixture
def stream() -> Iterator[Stream]:
    made = Stream()
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[Stream]:
    made = Stream()
    yield made
    made.close()


def fill(fd: int) -> int:
    os.set_blocking(fd, False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            count += os.write(fd, b"x" * 4096)
    return count


def test_what_was_written_has_arrived_when_it_is_flushed(stream: Stream) -> None:
    for number in range(200):
        os.write(stream.inside, b"%d\n" % number)
        assert stream.relay.wait_flushed(PATIENCE)
        assert os.read(stream.out, 100) == b"%d\n" % number


@pytest.mark.parametrize("blocking", [True, False])
def test_a_flood_arrives_whole_and_in_order(stream: Stream, blocking: bool) -> None:
    os.set_blocking(stream.target, blocking)  # a flag of the open file, which the relay has in common with the host
    said = b"".join(b"%07d\n" % number for number in range(MEGABYTE))
    inside = os.dup(stream.inside)

    def write() -> None:
        with open(inside, "wb", buffering=0) as file:
            rest = memoryview(said)
            while rest:
                rest = rest[file.write(rest) :]

    writer = threading.Thread(target=write)
    writer.start()
    assert stream.read_all() == said
    writer.join()
    assert stream.relay.failure is None


def test_whoever_writes_hears_that_nobody_reads(stream: Stream) -> None:
    os.close(stream.out)

    def is_broken() -> bool:
        try:
            os.write(stream.inside, b"anything")
        except BrokenPipeError:
            return True
        return False

    assert comes_true(is_broken)
    assert stream.relay.wait_flushed(0) and stream.relay.failure is None


def test_nobody_is_waited_for_longer_than_he_may(stream: Stream) -> None:
    fill(stream.target)
    os.write(stream.inside, b"more")
    assert not stream.relay.wait_flushed(0.05)
    while os.read(stream.out, MEGABYTE)[-4:] != b"more":
        pass
    assert stream.relay.wait_flushed(PATIENCE)


def test_a_stream_that_nobody_reads_holds_up_no_other(stream: Stream, other: Stream) -> None:
    fill(stream.target)
    fill(stream.inside)
    os.write(other.inside, b"goes on")
    assert other.relay.wait_flushed(PATIENCE)
    assert os.read(other.out, 100) == b"goes on"


def test_it_closes_its_ends_when_the_last_writer_is_gone(stream: Stream, other: Stream) -> None:
    for each, said in ((stream, b""), (other, b"something")):
        os.write(each.inside, said)
        assert each.read_all() == said
        assert each.relay.wait_flushed(0)


def test_a_forked_copy_has_relays_of_its_own(stream: Stream) -> None:
    child = os.fork()
    if child == 0:
        own = Stream()
        os.write(own.inside, b"of the copy")
        os._exit(0 if own.relay.wait_flushed(PATIENCE) and os.read(own.out, 100) == b"of the copy" else 1)
    assert os.waitpid(child, 0)[1] == 0
    os.write(stream.inside, b"of the original")
    assert stream.relay.wait_flushed(PATIENCE) and os.read(stream.out, 100) == b"of the original"


def test_a_relay_that_is_not_made_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source, end = os.pipe()
    before = len(os.listdir("/proc/self/fd"))

    def fails(fd: int) -> int:
        raise OSError(24, "too many")

    monkeypatch.setattr(os, "dup", fails)
    with pytest.raises(OSError, match="too many"):
        PipeRelay(source, end)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(source)
    os.close(end)


# ---- between two stages --------------------------------------------------------------------------------------------


@pytest.fixture
def between() -> Iterator[Stream]:
    made = Stream(widens=True)
    yield made
    made.close()


def threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def turns(thread: str) -> int:
    """How often it has waited."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_a_stream_that_flows_is_moved_on_in_large_parts(between: Stream) -> None:
    before, writes = threads(), 8192
    with subprocess.Popen(["cat"], stdin=between.out, stdout=subprocess.DEVNULL) as reader:
        for _ in range(writes):
            os.write(between.inside, bytes(8192))
        waited = max(turns(each) for each in threads() - before)
        size = fcntl.fcntl(between.inside, fcntl.F_GETPIPE_SZ)
        reader.kill()
    assert size == MEGABYTE and 0 < waited < writes // 8


def test_what_trickles_after_a_flood_is_not_held_back(between: Stream) -> None:
    reader = os.dup(between.out)
    flood = threading.Thread(target=lambda: [os.write(between.inside, bytes(8192)) for _ in range(512)])
    flood.start()
    for _ in range(512 * 2):
        left = 4096
        while left:
            left -= len(os.read(reader, left))
    flood.join()
    for number in range(50):
        os.write(between.inside, b"%d\n" % number)
        assert os.read(reader, 100) == b"%d\n" % number
    os.close(reader)


# ---- to a file ---------------------------------------------------------------------------------------------------


class FileStream(Stream):
    """What a command writes to, a relay, and a file of the host's behind it, to which others append too."""

    def __init__(self, path: Path) -> None:
        source, self.inside = os.pipe()
        self.path, self.target = path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.out = os.dup(self.target)
        self.relay = PipeRelay(source, self.target, is_pipe=False)
        self.relay.serve()


def test_a_file_holds_what_was_written_when_it_is_flushed(tmp_path: Path) -> None:
    stream = FileStream(tmp_path / "log")
    said = ""
    for number in range(200):
        os.write(stream.inside, b"%d\n" % number)
        assert stream.relay.wait_flushed(PATIENCE)
        os.write(stream.out, b"host\n")  # appended as well: nobody overwrites anybody
        said += f"{number}\nhost\n"
        assert stream.path.read_text() == said
    stream.close()


def test_a_flood_to_a_file_arrives_whole(tmp_path: Path) -> None:
    stream = FileStream(tmp_path / "log")
    said = b"".join(b"%07d\n" % number for number in range(MEGABYTE // 2))
    with open(os.dup(stream.inside), "wb") as file:
        file.write(said)
    assert stream.relay.wait_flushed(PATIENCE) and stream.relay.failure is None
    assert stream.path.read_bytes() == said
    stream.close()


def test_a_disk_that_is_full_is_told_and_holds_up_nobody() -> None:
    stream = FileStream(Path("/dev/full"))
    os.write(stream.inside, b"anything")
    assert comes_true(lambda: stream.relay.failure is not None)
    assert "could not be written: No space left on device" in str(stream.relay.failure)
    with pytest.raises(BrokenPipeError):
        while True:
            os.write(stream.inside, b"more")
    assert stream.relay.wait_flushed(0)
    stream.close()
