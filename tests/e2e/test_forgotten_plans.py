"""A host that makes policy after policy: what the inspector knew of them goes, and nothing of what a cage needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, Runtime
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.known_plans import KEPT

READ = ["cat", "/.pysandbox-ca.pem"]


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    made = Runtime(warm=0)
    yield made
    made.drain()


def policy(number: int) -> Policy:
    return Policy(hosts=[{"domain": f"api{number}.example", "methods": ["GET"]}])


def run_others(runtime: Runtime, count: int = KEPT + 4) -> None:
    for number in range(count):
        assert Cage(policy(1000 + number), runtime=runtime).run(["true"]).ok
    runtime.wait_idle()


def inspector_of(runtime: Runtime) -> InspectorProcess:
    inspector = runtime.shared.find(InspectorProcess)
    assert inspector is not None
    return inspector


def files_of(runtime: Runtime) -> list[Path]:
    """What is trusted, on the host."""
    return list(Path(trusted(runtime, 1)).parent.iterdir())


def trusted(runtime: Runtime, number: int) -> str:
    net = runtime.prepare(policy(number), os.getcwd()).plan.net
    assert net is not None
    return inspector_of(runtime).trust(net)


def test_policies_of_cages_that_have_ended_are_forgotten(runtime: Runtime) -> None:
    run_others(runtime, 2 * KEPT)
    assert len(inspector_of(runtime)._plans) == KEPT
    assert len(files_of(runtime)) <= KEPT + 1


def test_one_run_after_the_other_trusts_the_same(runtime: Runtime) -> None:
    run = partial(Cage(policy(1), runtime=runtime).run, READ)
    assert run().stdout == run().stdout


def test_what_a_cage_trusts_stays_for_as_long_as_it_lives(runtime: Runtime) -> None:
    with Cage(policy(1), runtime=runtime) as cage:
        before = trusted(runtime, 1)
        run_others(runtime)
        assert trusted(runtime, 1) == before
        assert cage.run(READ).stdout == Path(before).read_text()
    runtime.wait_idle()
    run_others(runtime)
    assert not os.path.exists(before)
    assert Cage(policy(1), runtime=runtime).run(READ).stdout == Path(trusted(runtime, 1)).read_text()


def test_what_waits_is_not_opened_for_nothing(runtime: Runtime) -> None:
    """A cage that waits holds what it trusts: it is taken, however many others come first."""
    assert Cage(policy(1), runtime=runtime).run(["true"]).ok
    runtime.prewarm(policy(1), 1)
    before = trusted(runtime, 1)
    run_others(runtime)
    assert runtime.is_warm(policy(1), os.getcwd())
    assert Cage(policy(1), runtime=runtime).run(READ).stdout == Path(before).read_text()
    assert trusted(runtime, 1) == before
