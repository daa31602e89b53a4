"""Claim: a policy that was made of a plugin's words has a cage (COMP-26): no runtime, keyword, copy, merge or narrowing
makes it one without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from _support.apps import package
from pysandbox import Cage, Policy
from pysandbox.apps import App, Kernel
from pysandbox.apps.plugin import PluginPolicy
from pysandbox.errors import PolicyError
from pysandbox.runtime.runtime import Runtime

WORDS = {"entrypoint": ["true"], "requested_capabilities": ["exec:bash:ls", "read:fs:./data"]}


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "data").mkdir()
    return App.debug(package(**WORDS)).grant.compile_plugin(tmp_path).policy


@pytest.fixture
def bare() -> Runtime:
    return Runtime(no_sandbox=True, warm=0)


def test_control_another_policy_runs_without(bare: Runtime) -> None:
    cage = Cage(Policy(), runtime=bare)
    assert not cage.caged and cage.run(["true"]).ok


def test_control_it_runs_in_a_cage(policy: Policy) -> None:
    result = Cage(policy).run(["ls", "/proc/self/status"])
    assert result.ok and result.caged


CHANGES: dict[str, Callable[[Policy], Policy]] = {
    "as it is": lambda policy: policy,
    "narrowed": lambda policy: policy.narrow(allow_execve=("/usr/bin/bash",)),
    "merged": lambda policy: policy.merge(Policy(memory_mb=64)),
    "replaced": lambda policy: replace(policy, strict=True),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_runtime_without_cages_is_refused(policy: Policy, bare: Runtime, how: str) -> None:
    changed = CHANGES[how](policy)
    with pytest.raises(PolicyError, match="never run without a cage"):
        Cage(changed, runtime=bare)
    with pytest.raises(PolicyError, match="never run without a cage"):
        Cage(changed, runtime=bare, cwd="/").run(["true"])


def test_no_word_takes_it_away(policy: Policy) -> None:
    for attempt in (
        lambda: replace(policy, caged=False), lambda: policy.merge(Policy(caged=False)),
        lambda: policy.narrow(caged=False), lambda: PluginPolicy(caged=False),
    ):  # fmt: skip
        with pytest.raises(PolicyError):
            attempt()


def test_an_app_that_is_a_process_is_none_either(tmp_path: Path, bare: Runtime) -> None:
    for words in (WORDS, {"entrypoint": ["true"]}):
        with Kernel(tmp_path) as kernel, pytest.raises(PolicyError, match="never run without a cage"):
            App.debug(package(**words)).run(kernel, debug=True, runtime=bare)
