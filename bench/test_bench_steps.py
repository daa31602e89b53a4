"""The steps of a spawn, one by one, with pytest-benchmark: where the time goes.

pip install ".[bench]" && pytest bench/ --benchmark-columns=median,iqr,rounds
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.subjects import TRUE, wait_for_pool
from pysandbox import Cage, Policy
from pysandbox.compile.compiler import compile_plan
from pysandbox.launch.structs import encode_plan
from pysandbox.policy.model import Grant
from pysandbox.policy.recipe import with_base
from pysandbox.probe.facts import HostFacts, PathFacts
from pysandbox.probe.host import host_facts as probe_host
from pysandbox.probe.paths import stat_paths
from pysandbox.testing import drain

Benchmark = Callable[..., Any]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return with_base(Policy())


@pytest.fixture(scope="module")
def host() -> HostFacts:
    return probe_host()


@pytest.fixture(scope="module")
def paths(policy: Policy) -> PathFacts:
    return stat_paths(policy, cwd="/")


@pytest.fixture(scope="module")
def warm() -> Iterator[Policy]:
    policy = Policy()
    Cage(policy).run(TRUE)
    yield policy
    drain()


def test_policy_construction(benchmark: Benchmark) -> None:
    benchmark(lambda: Policy(allow=(Grant("/usr"),), allow_write=(Grant("/var/tmp"),), env=(("LANG", "C"),)))


def test_with_base(benchmark: Benchmark) -> None:
    benchmark(with_base, Policy())


def test_host_facts(benchmark: Benchmark) -> None:
    benchmark(probe_host)


def test_look(benchmark: Benchmark, policy: Policy) -> None:
    benchmark(stat_paths, policy, cwd="/")


def test_compile_plan(benchmark: Benchmark, policy: Policy, host: HostFacts, paths: PathFacts) -> None:
    benchmark(compile_plan, policy, host, paths)


def test_encode(benchmark: Benchmark, policy: Policy, host: HostFacts, paths: PathFacts) -> None:
    benchmark(encode_plan, compile_plan(policy, host, paths), host.uid, host.gid)


def test_cold_open(benchmark: Benchmark) -> None:
    def open_and_close(policy: Policy) -> None:
        with Cage(policy):
            pass

    numbers = iter(range(1_000_000))

    def unseen() -> tuple[tuple[Policy], dict[str, Any]]:
        drain()
        return (Policy(env=(("PSB_BENCH", str(next(numbers))),)),), {}

    benchmark.pedantic(open_and_close, setup=unseen, rounds=50)  # type: ignore[attr-defined]


def test_warm_run(benchmark: Benchmark, warm: Policy) -> None:
    benchmark.pedantic(lambda: Cage(warm).run(TRUE), setup=lambda: wait_for_pool(warm), rounds=200)  # type: ignore[attr-defined]


def test_session_run(benchmark: Benchmark) -> None:
    with Cage(Policy()) as cage:
        benchmark(cage.run, TRUE)
