"""csrc/host/relay/relay.c through gate/relay.py: pairs of sockets, one thread, nothing held."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from _support.sockets import PATIENCE, everything, exactly, fill, pair
from pysandbox.gate.tcp.relay import SocketRelay, Spliced

SOAK = 2000  # pairs


class Bench:
    """A relay, and the pairs that have ended."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.relay = SocketRelay(self.loop)
        self.ended: list[Spliced] = []
        self.held: list[socket.socket] = []

    def spliced(self, *, hold: bool = False, unix: bool = False) -> tuple[int, socket.socket, socket.socket]:
        """The number of a new pair, and the two outer ends: the client's and the server's."""
        (client, a), (b, server) = (socket.socketpair(), socket.socketpair()) if unix else (pair(), pair())
        for sock in (client, server):
            sock.settimeout(PATIENCE)
        self.held += [client, server]
        return self.relay.splice(a, b, "tag", self.ended.append, hold=hold), client, server

    def ends(self, count: int) -> list[Spliced]:
        """The pairs that have ended, when they are `count`."""

        async def wait() -> None:
            async with asyncio.timeout(PATIENCE):
                while len(self.ended) < count:
                    await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())
        return self.ended

    def close(self) -> None:
        self.relay.stop()
        for sock in self.held:
            sock.close()
        self.loop.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_bytes_pass_both_ways_and_each_end_is_passed_on_by_itself(bench: Bench, unix: bool) -> None:
    number, client, server = bench.spliced(unix=unix)
    client.sendall(b"a question")
    client.shutdown(socket.SHUT_WR)
    assert everything(server) == b"a question"
    server.sendall(b"a longer answer")
    server.close()
    assert everything(client) == b"a longer answer"
    assert bench.ends(1) == [Spliced(number, "tag", 10, 15, "closed")]


def test_many_bytes_arrive_as_they_were_sent(bench: Bench) -> None:
    _, client, server = bench.spliced()
    sent = random.Random(1).randbytes(20_000_000)

    def send() -> None:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    assert everything(server) == sent
    thread.join()


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_a_side_that_does_not_read_stops_the_other_and_what_waited_arrives(bench: Bench, unix: bool) -> None:
    _, client, server = bench.spliced(unix=unix)
    sent = fill(client)
    assert len(exactly(server, sent)) == sent
    client.sendall(b"more")
    assert exactly(server, 4) == b"more"


def test_stalled_pairs_take_no_memory_of_this_process(bench: Bench) -> None:
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    clients = [bench.spliced()[1] for _ in range(30)]
    chunk = bytes(65536)  # once: what is freed, a sanitizer keeps for a while
    before = resident()
    waiting = 0
    for client in clients:
        client.setblocking(False)
        try:
            while True:
                waiting += client.send(chunk)
        except BlockingIOError:
            pass
    assert waiting > 20_000_000
    assert resident() - before < waiting / 4


def test_a_stalled_pair_delays_nobody(bench: Bench) -> None:
    _, stuck, _ = bench.spliced()
    fill(stuck)
    _, client, server = bench.spliced()
    for _ in range(100):
        client.sendall(b"ping")
        assert exactly(server, 4) == b"ping"


def test_a_pair_in_a_flood_and_one_that_says_little_take_turns(bench: Bench) -> None:
    floods = [bench.spliced()[1:] for _ in range(4)]
    over = threading.Event()

    def flood(sender: socket.socket) -> None:
        while not over.is_set():
            sender.sendall(bytes(1 << 20))
        sender.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=flood, args=[sender]) for sender, _ in floods]
    threads += [threading.Thread(target=everything, args=[receiver]) for _, receiver in floods]
    for thread in threads:
        thread.start()
    _, client, server = bench.spliced()
    longest = 0.0
    for _ in range(50):
        began = time.monotonic()
        client.sendall(b"ping")
        assert exactly(server, 4) == b"ping"
        longest = max(longest, time.monotonic() - began)
    over.set()
    for thread in threads:
        thread.join()
    assert longest < 1, "no stall over a second"


@pytest.mark.parametrize("who", [0, 1], ids=["client", "server"])
def test_a_reset_is_passed_on_as_a_reset(bench: Bench, who: int) -> None:
    _, *ends = bench.spliced()
    ends[0].sendall(b"x")
    assert exactly(ends[1], 1) == b"x"
    ends[who].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ends[who].close()
    with pytest.raises(ConnectionResetError):
        ends[1 - who].recv(1)
    assert [each.end for each in bench.ends(1)] == ["reset"]


def test_an_answer_before_a_reset_still_arrives(bench: Bench) -> None:
    _, client, server = bench.spliced()
    client.sendall(b"x" * 1000)
    assert select.select([server], [], [], PATIENCE)[0]
    server.sendall(b"no")  # and closes with the question unread: its kernel resets
    server.close()
    assert exactly(client, 2) == b"no"
    bench.ends(1)


@pytest.mark.parametrize("reader_gone", [False, True])
def test_a_reset_ends_a_pair_that_waits_for_the_other_side(bench: Bench, reader_gone: bool) -> None:
    _, client, server = bench.spliced()
    fill(client)
    gone = server if reader_gone else client
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    assert [each.end for each in bench.ends(1)] == ["reset"]


def test_what_the_client_says_waits_while_a_pair_is_held_and_the_server_speaks_at_once(bench: Bench) -> None:
    (client, a), (b, server) = pair(), pair()
    bench.held += [client, server]
    with a.dup() as first:
        number = bench.relay.splice(a, b, None, bench.ended.append, hold=True)
        server.sendall(b"220 ready")
        assert exactly(client, 9) == b"220 ready"
        client.sendall(b"EHLO")
        client.shutdown(socket.SHUT_WR)
        assert exactly(first, 4) == b"EHLO"
        assert not select.select([server], [], [], 0.1)[0]
    bench.relay.release(number, b"EHLO")
    assert everything(server) == b"EHLO"
    server.close()
    assert everything(client) == b""
    assert bench.ends(1)[0] == Spliced(number, None, 4, 9, "closed")


def test_what_was_read_goes_first_however_much_it_is(bench: Bench) -> None:
    number, client, server = bench.spliced(hold=True)
    said = random.Random(2).randbytes(200_000)
    client.sendall(b"and the rest")
    bench.relay.release(number, said)
    bench.relay.release(number, b"twice")  # is nothing
    client.shutdown(socket.SHUT_WR)
    assert everything(server) == said + b"and the rest"


def test_a_held_client_that_resets_ends_its_pair(bench: Bench) -> None:
    _, client, _ = bench.spliced(hold=True)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert [each.end for each in bench.ends(1)] == ["reset"]


def test_a_cut_resets_both_also_when_the_socket_is_open_elsewhere(bench: Bench) -> None:
    (client, a), (b, server) = pair(), pair()
    bench.held += [client, server]
    with a.dup():
        number = bench.relay.splice(a, b, None, bench.ended.append, hold=True)
        thread = threading.Thread(target=bench.relay.cut, args=[number])
        thread.start()
        for sock in (client, server):
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        thread.join()
        assert [each.end for each in bench.ends(1)] == ["cut"]
        client.close()  # an event of the descriptor that is open still finds nobody
        _, other, end = bench.spliced()
        other.sendall(b"x")
        assert exactly(end, 1) == b"x"
    bench.relay.cut(number)
    bench.relay.release(number, b"")


def test_urgent_bytes_stay_in_their_place(bench: Bench) -> None:
    _, client, server = bench.spliced()
    client.sendall(b"ab")
    client.send(b"!", socket.MSG_OOB)
    client.sendall(b"cd")
    client.shutdown(socket.SHUT_WR)
    assert everything(server) == b"ab!cd"


def test_waiting_pairs_cost_no_time(bench: Bench) -> None:
    """Where one side of a pair has hung up epoll would report it for ever."""
    _, client, server = bench.spliced()
    client.shutdown(socket.SHUT_WR)
    assert everything(server) == b""
    fill(server)
    server.shutdown(socket.SHUT_WR)
    _, unix, other = bench.spliced(unix=True)
    fill(unix)
    unix.close()
    _, gone, _ = bench.spliced(hold=True, unix=True)
    gone.close()
    before = time.process_time()
    select.select([other], [], [other], 0)
    threading.Event().wait(0.4)
    assert time.process_time() - before < 0.1
    assert not bench.ended


def test_stop_cuts_what_is_left_and_a_later_pair_is_refused(bench: Bench) -> None:
    _, client, server = bench.spliced()
    bench.relay.stop()
    assert [each.end for each in bench.ended] == ["cut"]
    for sock in (client, server):
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    with pytest.raises(OSError, match="has ended"):
        bench.spliced()
    bench.relay.stop()


def test_thousands_of_pairs_with_random_ends_leave_no_descriptor(bench: Bench) -> None:
    dice = random.Random(3)
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for start in range(0, SOAK, 100):
        with ExitStack() as ends:
            made = [bench.spliced(hold=dice.random() < 0.2, unix=dice.random() < 0.3) for _ in range(100)]
            bench.held.clear()
            for number, client, server in made:
                ends.enter_context(client)
                ends.enter_context(server)
                _something_happens(bench, dice, number, client, server)
                bench.relay.release(number, b"")
        assert len(bench.ends(start + 100)) == start + 100
    assert len({each.number for each in bench.ended}) == SOAK
    assert len(os.listdir("/proc/self/fd")) <= before


def _something_happens(
    bench: Bench, dice: random.Random, number: int, client: socket.socket, server: socket.socket
) -> None:
    for _ in range(dice.randrange(4)):
        speaker = dice.choice([client, server])
        try:
            match dice.randrange(6):
                case 0 | 1:
                    speaker.send(bytes(dice.randrange(1, 100_000)), socket.MSG_DONTWAIT)
                case 2:
                    speaker.shutdown(socket.SHUT_WR)
                case 3:
                    speaker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                case 4:
                    bench.relay.cut(number)
                case 5:
                    bench.relay.release(number, bytes(dice.randrange(10)))
        except OSError:
            pass  # it has been cut meanwhile
