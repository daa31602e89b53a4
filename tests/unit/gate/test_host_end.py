"""What the host program says to the reader, beside calls that it has not answered: a number alone answers nothing."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from pysandbox.descriptors.sockets import socket_pair
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.host_end import ANSWERS, HostEnd, Received
from pysandbox.gate.reading.kinds import FIELDS, FROM_READER, WITH_DESCRIPTOR, Verb

FOR_DIALLER = {Verb.PASS, Verb.OFFER, Verb.GO, Verb.FETCH}
TO_READER = sorted(set(Verb) - FROM_READER - FOR_DIALLER | {Verb.SHUT})


def said(kind: Verb, number: int) -> ChannelRecord:
    return ChannelRecord(kind, number, (b"0",) * FIELDS[kind])


def heard(asked: int, records: list[ChannelRecord]) -> tuple[list[Verb], list[Verb]]:
    """What was obeyed, and what has answered one of `asked` calls."""

    async def hear() -> tuple[list[Verb], list[Verb]]:
        obeyed: list[Verb] = []
        near, far = socket_pair()
        with near, far, socket.socket() as fd:

            def taken(received: Received) -> Verb:
                if received.fd is not None:
                    os.close(received.fd)
                return Verb(received.record.kind)

            host = HostEnd(far, asyncio.get_running_loop(), lambda each: obeyed.append(taken(each)))
            calls = [host.begin(Verb.LOOKUP, *[b"0"] * FIELDS[Verb.LOOKUP])[1] for _ in range(asked)]
            for each in records:
                channel.send(near, each, (fd.fileno(),) if each.kind in WITH_DESCRIPTOR else (), patience=1)
            while len(obeyed) + sum(map(asyncio.Future.done, calls)) < len(records):
                await asyncio.sleep(0)
            assert not host.gone.done()
            return obeyed, [taken(await call) for call in calls if call.done()]

    return asyncio.run(asyncio.wait_for(hear(), 20))


@pytest.mark.parametrize("kind", TO_READER, ids=lambda kind: kind.name)
def test_of_all_that_is_said_only_an_answer_answers_a_call_of_its_number(kind):
    obeyed, answered = heard(64, [said(kind, 7), said(Verb.ANSWERED, 8)])
    assert obeyed == ([] if kind in ANSWERS else [kind])
    assert answered == ([kind, Verb.ANSWERED] if kind in ANSWERS else [Verb.ANSWERED])


def test_a_connection_of_the_relay_that_ends_is_no_call_that_nobody_waits_for():
    async def hear() -> tuple[list[int], list[bool]]:
        obeyed: list[int] = []
        told: list[bool] = []
        near, far = socket_pair()
        with near, far:
            host = HostEnd(far, asyncio.get_running_loop(), lambda received: obeyed.append(received.record.kind))
            number = host.ask(Verb.FETCH, lambda received: told.append(received is not None))
            for each in (said(Verb.CUT, number), said(Verb.OVER, number)):
                channel.send(near, each, (), patience=1)
            while not told:
                await asyncio.sleep(0)
        return obeyed, told

    assert asyncio.run(asyncio.wait_for(hear(), 20)) == ([Verb.CUT], [True])
