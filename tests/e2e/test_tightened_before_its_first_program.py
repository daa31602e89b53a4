"""A command before its first exec is a child of cage-init that is not dumpable, so that its descriptors are not listed.
Whoever tightens the cage then takes away what it may reach, and not its life.
"""

from __future__ import annotations

import threading

import pytest

from pysandbox import Cage, CallEvent, Context, Policy

RUNS = 40


@pytest.mark.parametrize("policy", [Policy(), Policy(isolation="landlock", run_as="self")], ids=["full", "landlock"])
def test_a_callback_tightens_at_the_first_exec(policy: Policy) -> None:
    asked: list[str] = []

    def nothing_more(event: CallEvent, ctx: Context) -> None:
        asked.append(event.category)
        ctx.restrict_network([])

    result = Cage(policy, policy_fn=nothing_more, watch=("exec", "network")).run(["echo", "hi"])
    assert (result.exit_code, result.stdout, asked) == (0, "hi\n", ["exec"])


def test_the_host_tightens_while_commands_start() -> None:
    over = threading.Event()
    with Cage(Policy(), watch=("network",)) as cage:

        def tighten() -> None:
            while not over.is_set():
                cage.context.restrict_network([])

        other = threading.Thread(target=tighten)
        other.start()
        try:
            codes = [cage.run(["true"]).exit_code for _ in range(RUNS)]
        finally:
            over.set()
            other.join()
    assert codes == [0] * RUNS
