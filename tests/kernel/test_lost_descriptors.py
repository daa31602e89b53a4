"""Records whose descriptors could not be passed on, or not be opened: what they are about fails, and nothing else. The
relay's thread at the dialler, the host program's end of the reader's channel and the reader's.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from _support.dialler import Dialler
from _support.sockets import PATIENCE
from pysandbox.descriptors.sockets import socket_pair
from pysandbox.gate import outbox
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.asking import Questions
from pysandbox.gate.inspection.channel import ChannelRecord, Kind, LostDescriptors
from pysandbox.gate.ledger import KINDS_KEPT
from pysandbox.gate.outbox import Outbox
from pysandbox.gate.reader import DoorReader
from pysandbox.gate.reading.host_end import HostEnd
from pysandbox.gate.reading.kinds import FIELDS, Verb
from pysandbox.gate.reading.session import LOOKED_AT


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """This process may open none, as long as it closes none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_one = os.dup(0)
    os.close(next_one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            os.dup(0)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def dialler() -> Iterator[Dialler]:
    made = Dialler()
    yield made
    made.close()


# ---- the relay's thread ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.PASS, Verb.OFFER])
def test_a_client_that_cannot_be_opened_is_one_call_that_fails(verb: Verb, dialler: Dialler) -> None:
    assert dialler.knows()
    near, client = socket.socketpair()
    with near, client:
        with no_descriptor_left():
            dialler.says(verb, 1000, dialler.cage.number, "name.example", dialler.port, b"", fds=(client.fileno(),))
            record, _ = dialler.hears()
        assert (record.kind, record.number) == (Verb.FAILED, 1000)
    server = dialler.dials()  # the channel goes on
    assert server is not None and not dialler.failed.is_set()
    server.close()


def test_a_client_that_cannot_be_opened_ends_the_connection_that_it_was_for(dialler: Dialler) -> None:
    assert dialler.knows()
    server = dialler.dials()
    assert server is not None
    number = dialler.number
    near, client = socket.socketpair()
    with near, dialler.accepts() as there:
        with no_descriptor_left():
            dialler.says(Verb.SPLICE, number, 0, b"hello", fds=(client.fileno(),))
            record, _ = dialler.hears()
        assert (record.kind, record.number) == (Verb.OVER, number)
        client.close(), server.close()
        assert near.recv(9) == b"" and there.recv(9) == b""
    again = dialler.dials()
    assert again is not None and not dialler.failed.is_set()
    again.close()


CROWDED = """
import array, json, resource, socket, sys
from _support.dialler import Dialler
dialler, said, kept = Dialler(), [], []
assert dialler.knows()
dialler.dials().close()
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))  # there is no more to be had
for _ in range(9):
    pair = socket.socketpair()
    pair[0].setblocking(False)
    kept.append(pair)
    try:
        pair[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 60))])
    except OSError as error:
        said.append(error.errno)
said.append(dialler.dials() is None)
for pair in kept:
    pair[0].close(), pair[1].close()
said.append(dialler.dials() is not None)
said.append(dialler.failed.is_set())
print(json.dumps(said), flush=True)
import os
os._exit(0)
"""


def test_where_no_descriptor_can_be_passed_on_the_call_fails_and_the_next_does_not() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", CROWDED], env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    *refused, missed, told, failed = json.loads(done.stdout)
    assert refused and set(refused) == {errno.ETOOMANYREFS}, "the control: others are refused"
    assert (missed, told, failed) == (True, True, False)


# ---- the channel ----------------------------------------------------------------------------------------------------


def test_a_record_whose_descriptor_is_lost_says_what_it_was() -> None:
    near, far = socket_pair()
    record = ChannelRecord(Verb.SPLICE, 7, (b"0", b"hello"))
    with near, far:
        with no_descriptor_left():
            channel.send(near, record, (0,))
            with pytest.raises(LostDescriptors) as lost:
                channel.receive(far, FIELDS)
        assert lost.value.record == record
        channel.send(near, record, (0,))  # the control
        received = channel.receive(far, FIELDS)
        assert received is not None and received[0] == record
        os.close(received[1][0])


@pytest.mark.parametrize("kind", [Verb.DIALLED, Verb.DOOR])
def test_the_reader_does_without_what_it_cannot_open(kind: Verb) -> None:
    async def hear() -> list[ChannelRecord]:
        near, far = socket_pair()
        with near, far:
            host = HostEnd(far, asyncio.get_running_loop(), lambda _: None)
            number, answer = host.begin(Verb.DIAL, *[b"0"] * 4)
            said = [channel.receive(near, FIELDS)]
            with no_descriptor_left():
                channel.send(near, ChannelRecord(kind, number, (b"5",) * FIELDS[kind]), (0,))
                for _ in range(20):
                    await asyncio.sleep(0)
            assert not host.gone.done()
            if kind is Verb.DIALLED:
                assert (await answer).record.kind is Verb.FAILED
            said = [channel.receive(near, FIELDS)]
            return [each[0] for each in said if each is not None]

    (told,) = asyncio.run(asyncio.wait_for(hear(), PATIENCE))
    assert told[:2] == ((Verb.LET_GO, 5) if kind is Verb.DIALLED else (Verb.UNOPENED, 1))


@pytest.mark.parametrize("times", [3, 1000], ids=["for a moment", "for long"])
def test_what_cannot_be_passed_on_is_tried_again_and_given_up_alone(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, pass_on = [0], channel.pass_on

    def short(sock: socket.socket, said: bytes, fds: tuple[int, ...] = ()) -> None:
        tries[0] += bool(fds)
        if fds and tries[0] <= times:
            raise OSError(errno.ETOOMANYREFS, "too many")
        pass_on(sock, said, fds)

    monkeypatch.setattr(channel, "pass_on", short)
    monkeypatch.setattr(outbox, "PATIENCE", 0.3)

    async def hear() -> tuple[list[int], list[int]]:
        near, far = socket_pair()
        lost: list[int] = []
        with near, far:
            box = Outbox(asyncio.get_running_loop(), near, lambda each: lost.append(each.number), pytest.fail)
            box.say(ChannelRecord(Verb.DOOR, 1, (b"1", b"dns", b"udp")), (0,))
            box.say(ChannelRecord(Verb.PING, 2))
            heard: list[int] = []
            while 2 not in heard:
                await asyncio.sleep(0.01)
                try:
                    received = channel.receive(far, FIELDS)
                except BlockingIOError:
                    continue
                assert received is not None
                heard.append(received[0].number)
                for fd in received[1]:
                    os.close(fd)
            box.close()
            return heard, lost

    heard, lost = asyncio.run(asyncio.wait_for(hear(), PATIENCE))
    assert (heard, lost) == (([1, 2], []) if times == 3 else ([2], [1]))


def test_a_second_is_waited_once_for_all_that_are_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what has no descriptors, a PING for one, is not late by a second for each record that has."""
    pass_on = channel.pass_on

    def short(sock: socket.socket, said: bytes, fds: tuple[int, ...] = ()) -> None:
        if fds:
            raise OSError(errno.ETOOMANYREFS, "too many")
        pass_on(sock, said, fds)

    monkeypatch.setattr(channel, "pass_on", short)
    monkeypatch.setattr(outbox, "PATIENCE", 0.5)

    async def hear() -> tuple[list[int], float]:
        near, far = socket_pair()
        lost: list[int] = []
        with near, far:
            loop = asyncio.get_running_loop()
            box = Outbox(loop, near, lambda each: lost.append(each.number), pytest.fail)
            begun = loop.time()
            for number in range(12):
                box.say(ChannelRecord(Verb.DOOR, number, (b"1", b"dns", b"udp")), (0,))
                box.say(ChannelRecord(Verb.PING, 100 + number))
            heard = 0
            while heard < 12:
                await asyncio.sleep(0.01)
                with suppress(BlockingIOError):
                    heard += channel.receive(far, FIELDS) is not None
            took = loop.time() - begun
            box.close()
            return lost, took / outbox.PATIENCE

    lost, patiences = asyncio.run(asyncio.wait_for(hear(), PATIENCE))
    assert lost == list(range(12))
    assert 1 <= patiences < 6


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_door_that_the_reader_never_had_is_told_to_its_cage(is_given_up: bool) -> None:
    """The control: one that it closes is over without a word."""
    cut: list[str] = []

    class Ledger:
        def cut_off(self, why: str, *, is_one_door: bool) -> None:
            cut.append(f"{why} {is_one_door}")

    class Session:
        number, ended, ledger = 1, False, Ledger()

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        made = DoorReader(loop, lambda _: None, type("Relay", (), {"ask": lambda *_: 0})())  # type: ignore[arg-type]
        made.introduce = made._requests.forget = lambda _: None  # type: ignore[method-assign]
        near, door = socket.socketpair()
        with near:
            serving = asyncio.ensure_future(made.serve(Session(), "dns", "udp", door))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            if is_given_up:
                made._not_said(ChannelRecord(Verb.DOOR, 1, (b"1", b"dns", b"udp")))
            else:
                made._take(ChannelRecord(Verb.SHUT, 1), [])
            await serving

    if is_given_up:
        with pytest.raises(OSError, match="on their way") as lost:
            asyncio.run(asyncio.wait_for(serve(), PATIENCE))
        assert lost.value.errno == errno.ETOOMANYREFS
        assert len(cut) == 1 and cut[0].endswith(" True")
    else:
        asyncio.run(asyncio.wait_for(serve(), PATIENCE))
        assert not cut


@pytest.mark.parametrize("code", sorted(channel.SHORTAGE))
def test_what_is_owed_stays_owed_while_the_kernel_is_short(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    owed = deque([ChannelRecord(Kind.CUT, 1), ChannelRecord(Kind.CUT, 2)])
    near, far = socket_pair()
    pass_on = channel.pass_on

    def short(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with near, far:
        monkeypatch.setattr(channel, "pass_on", short)
        channel.send_owed(near, owed, ChannelRecord(Kind.PING, 3))
        assert [each.number for each in owed] == [1, 2]
        monkeypatch.setattr(channel, "pass_on", pass_on)
        channel.send_owed(near, owed, ChannelRecord(Kind.PING, 3))
        heard = [channel.receive(far) for _ in range(3)]
        assert not owed and [each[0].number for each in heard if each is not None] == [1, 2, 3]
        far.close()
        with pytest.raises(OSError):
            channel.send_owed(near, owed, ChannelRecord(Kind.PING, 4))


def test_a_connection_that_is_lost_while_a_question_is_asked_is_that_one_alone() -> None:
    near, far = socket_pair()
    said: list[tuple[Kind, int]] = []
    with near, far:
        questions = Questions(far, lambda kind, number, *_: said.append((kind, number)), lambda: None, lambda *_: None)
        opened = ChannelRecord(Kind.OPEN, 7, (b"1",) * 8)
        with no_descriptor_left():
            channel.send(near, opened, (0, 0))
            channel.send(near, ChannelRecord(Kind.PING, 8))
            channel.send(near, ChannelRecord(Kind.ANSWER, 1, (b"no",)))
            assert questions.refused(5, PATIENCE, "a body", 0, b"said") == "no"
        assert said == [(Kind.ASK, 5), (Kind.PONG, 8)]
        with pytest.raises(LostDescriptors) as lost:
            questions.receive()
        assert lost.value.record == opened
        with pytest.raises(BlockingIOError):
            far.setblocking(False)
            questions.receive()


def test_the_reader_waits_for_as_many_kinds_of_refusals_as_the_host_looks_at() -> None:
    assert LOOKED_AT == KINDS_KEPT
