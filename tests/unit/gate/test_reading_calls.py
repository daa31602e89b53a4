"""Calls of the reader that wait for the host program: however many cages wait there, another one's are begun."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

from _support.gate import net_plan
from pysandbox.gate.reading.serving import CALLS_AT_ONCE
from pysandbox.gate.reading.session import RemoteSession
from pysandbox.gate.requests import MOST_CALLS
from pysandbox.gate.rules import GateRules
from pysandbox.gate.shares import Account
from pysandbox.gate.tcp.target import DialTarget


class NobodyAnswers:
    """Whoever dials for the reader, of which nobody hears anything."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    async def dial(self, *_: object) -> Any:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.under_way -= 1


def test_cages_that_wait_leave_the_host_program_room_for_another_s_calls():
    async def run() -> None:
        dialling: Any = NobodyAnswers()
        calls, descriptors = Account(lambda: CALLS_AT_ONCE), Account(lambda: 1 << 20)
        none: Any = None
        rules = pickle.dumps(GateRules.of(net_plan("*.test")))
        sessions = [
            RemoteSession(number, rules, False, none, dialling, descriptors, calls, none) for number in range(6)
        ]
        crowd = [asyncio.ensure_future(each.dial(DialTarget("a.test", 443))) for each in sessions[:5] * 1024]
        await asyncio.sleep(0)
        before = dialling.under_way
        late = asyncio.ensure_future(sessions[5].dial(DialTarget("b.test", 443)))
        await asyncio.sleep(0)
        assert dialling.under_way == before + 1
        for each in (late, *crowd):
            each.cancel()
        await asyncio.gather(late, *crowd, return_exceptions=True)
        assert dialling.under_way == calls.taken == 0
        assert dialling.most <= CALLS_AT_ONCE < MOST_CALLS

    asyncio.run(run())
