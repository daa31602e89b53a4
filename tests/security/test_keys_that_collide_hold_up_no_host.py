"""Claim: no keys that a cage returns make the host spend time by the square of their number, whatever they are.

A dict looks for a place by its key's hash, which for a number is the number. Here are numbers whose hashes all differ,
none above 2**60, and whose first places are all taken by others: each is then looked for along the one chain that every
key goes on to, place after place, and that is as long as the dict is large. Or they have one hash and are alike to
their ends, however long they are. Python does this within one step of its interpreter: no other thread of the host
would run meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from pysandbox import CageExecutor, SandboxedError
from pysandbox.pipeline import decoder
from pysandbox.pipeline.codec import encode
from pysandbox.pipeline.decoder import BadAnswer, Shapes, decode

DIGITS = 5  # bits of a hash that each further probe takes in (CPython's PERTURB_SHIFT)
OTHERS = 0.66  # of its places a dict fills before it grows


def colliding(bits: int, count: int) -> list[int]:
    """So many numbers, after those that fill half of a chain in a dict of 2**bits places."""
    mask, chain = (1 << bits) - 1, [1]
    while len(chain) < int((1 << bits) * OTHERS) - count:
        chain.append((5 * chain[-1] + 1) & mask)
    taken, first = set(chain), set(chain[: len(chain) // 2])
    chosen, seed, found = random.Random(1), chain[: len(chain) // 2], set[int]()
    while len(found) < count:
        number = slot = chosen.choice(seed)
        shift = DIGITS
        while number >> shift or shift <= 60 - bits:
            if bits + shift <= 60:
                start = chosen.randrange(32)
                for more in range(32):
                    wider = number | ((start + more) % 32) << (bits + shift - DIGITS)
                    if (5 * slot + (wider >> shift) + 1) & mask in taken:
                        number = wider
                        break
            slot = (5 * slot + (number >> shift) + 1) & mask
            if slot not in taken:
                break
            shift += DIGITS
        if slot in first:
            found.add(number)
    return [*chain, *found]


def seconds(call: Callable[[list[int]], object], numbers: list[int]) -> float:
    began = time.thread_time()
    call(numbers)
    return time.thread_time() - began


def any_numbers(count: int) -> list[int]:
    chosen = random.Random(2)
    return [chosen.randrange(1 << 60) for _ in range(count)]


def as_keys(numbers: list[int]) -> dict[int, None]:
    return dict.fromkeys(numbers)


def as_members(numbers: list[int]) -> list[set[int] | frozenset[int]]:
    return [set(numbers), frozenset(numbers)]


def says(data: bytes) -> None:
    """As the cage's own encoder would not: the numbers were never keys there."""
    import os
    import socket
    import stat
    import struct
    import sys

    for fd in range(3, 64):
        try:
            is_socket = stat.S_ISSOCK(os.fstat(fd).st_mode)
        except OSError:
            continue
        sock = socket.socket(fileno=fd) if is_socket else None
        if sock is not None and sock.type == socket.SOCK_SEQPACKET:
            break
    call = sys._getframe(2).f_locals["record"].call
    sock.send(struct.pack("<4sHHQQ", b"psb1", 3, 1, call, len(data)))
    _, fds, _, _ = socket.recv_fds(sock, 65536, 4)
    os.pwrite(fds[0], data, 0)
    os.close(fds[0])
    sock.send(struct.pack("<4sHHQQ", b"psb1", 5, 1, call, len(data)))
    os._exit(0)


def as_dict(numbers: list[int]) -> bytes:
    """The codec's form of it, without making one here."""
    return b"d" + len(numbers).to_bytes(8, "little") + b"".join(encode(each)[0] + b"N" for each in numbers)


def test_control_these_keys_cost_a_dict_many_times_what_others_do() -> None:
    numbers = colliding(14, 1500)
    assert len(set(numbers)) == len(numbers) and max(numbers) < 1 << 60
    chosen, others = (min(seconds(as_keys, each) for _ in range(3)) for each in (numbers, any_numbers(len(numbers))))
    assert chosen > 10 * others


def test_control_as_many_others_are_an_answer() -> None:
    numbers = any_numbers(150_000)
    assert decode(encode([as_keys(numbers), *as_members(numbers)]), Shapes()) == [
        as_keys(numbers),
        *as_members(numbers),
    ]


def test_they_are_refused_and_their_host_goes_on() -> None:
    """The keys are those of one dict, or of several smaller ones, and would have taken many times as long."""
    one = as_dict(colliding(18, 9000))
    some = b"l" + (10).to_bytes(8, "little") + as_dict(colliding(16, 6000)) * 10
    for data in (one, some):
        with pytest.raises(BadAnswer, match="collide"):
            decode([data], Shapes())


def alike(length: int, count: int = 8) -> list[tuple[object, ...]]:
    """2**count keys of one hash, since that of -1 is that of -2, each of which has to be compared to its end."""
    return [("x" * length, *(-1 - (number >> bit & 1) for bit in range(count))) for number in range(1 << count)]


def test_long_keys_of_one_hash_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({hash(each) for each in alike(10)}) == 1
    monkeypatch.setattr(decoder, "PATIENCE", 0.01)
    differing = [(f"{number} {'x' * 30_000}", number) for number in range(256)]
    assert decode(encode(dict.fromkeys(differing)), Shapes()) == dict.fromkeys(differing)
    chosen = alike(30_000)
    for said in (dict.fromkeys(chosen), set(chosen)):
        with pytest.raises(BadAnswer, match="collide"):
            decode(encode(said), Shapes())


@pytest.mark.parametrize("isolate", ["cage", pytest.param("worker", marks=pytest.mark.landlock(6))])
def test_from_a_cage_they_are_the_failure_of_that_call(isolate: str) -> None:
    data = as_dict(colliding(18, 9000))
    with CageExecutor(isolate=isolate, max_workers=1, timeout=50) as executor:
        with pytest.raises(SandboxedError, match="collide"):
            executor.submit(says, data).result()
        assert executor.submit(len, "next").result() == 4
