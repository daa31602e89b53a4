"""The expected Plan of some shipped recipes, one of each shape, and of the policies below, on four pretend hosts.

`--update-golden` writes tests/golden/plans anew; read the diff before you commit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import HOME, HOSTS, PROJECT, SYSTEM, grants, look, no_filter
from golden.render import render
from pysandbox.compile.compiler import compile_plan
from pysandbox.errors import CageError
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.recipe import SHIPPED

RECIPES = ("base", "generic-strict", "node", "python", "untrusted")
POLICIES = {
    "default": Policy(allow=SYSTEM),
    "workdir": Policy(allow=SYSTEM, workdir="write", run_as="self", env_passthrough=("LANG", "PATH")),
    "carved": Policy(
        allow=(*SYSTEM, *grants("/home/ann/way/set", "/home/ann/project/src", "/tmp/work")),
        allow_write=grants("/home/ann/project", "/home/ann/project/src/deep"),
        deny=grants("/home/ann/project/src/deep/er/key", "/home/ann/project/.env", "/data/set/private", "/etc/shadow"),
        mask=(*grants("/data/set/a"), Grant("/home/ann/project/absent", optional=True)),
    ),
    "doors": Policy(
        allow=SYSTEM, egress="proxy-only", ports=["8080:80", "0.0.0.0:53:53/udp"], host_loopback_ports=[5432],
        hosts=[
            {"domain": "a.example", "ports": [443], "include_subdomains": True},
            {"domain": "b.example", "direct": True},
        ],
    ),
    "private": Policy(
        allow=SYSTEM, egress="proxy-only",
        hosts=[{"domain": "a.example", "ports": [443], "include_subdomains": True,
                "private_addresses": ["10.1.0.0/16", "fd00:1::7"]}],
    ),
    "published": Policy(allow=SYSTEM, ports=["[::1]:8080:80"]),
    "direct": Policy(allow=SYSTEM, egress="direct", unsafe_direct=True, run_as="root"),
    "landlock": Policy(allow=SYSTEM, isolation="landlock", run_as="self", workdir="write"),
    "limited": Policy(allow=SYSTEM, memory_mb=512, max_pids=32, walltime_sec=60, limits_required=False,
                      address_space_gb=0, allow_execve=("/usr/bin/env",)),
    "listed": Policy(
        allow=(*SYSTEM, *grants("/opt", "/usr/local")), workdir="write", run_as="self",
        allow_execve=("/usr/bin/python3", "/opt/tool/bin/run", "/usr/bin/env", "/usr/lib/tool/*", "/tmp/*", "/absent",
                      f"{PROJECT}/build/tool", f"{PROJECT}/out/*"),
    ),
    "listed-landlock": Policy(allow=SYSTEM, isolation="landlock", run_as="self", workdir="write",
                              allow_execve=("/usr/bin/python3", f"{PROJECT}/out/*")),
    "uncaged": Policy(caged=False, walltime_sec=5),
}  # fmt: skip


def cases() -> Iterator[Any]:
    for host in HOSTS:
        for name in POLICIES:
            yield pytest.param(name, host, id=f"{name}-{host}")
        for recipe in RECIPES:
            yield pytest.param(recipe, host, id=f"{recipe}-{host}")


def policy_named(name: str) -> Policy:
    """One of the above, or a shipped recipe as a cage would use it: on top of base, expanded."""
    if name in POLICIES:
        return POLICIES[name]
    from pysandbox.policy.expand import expand
    from pysandbox.policy.recipe import with_base
    from pysandbox.policy.sources import shipped

    return expand(with_base(shipped(name).policy(Policy)), env={"HOME": HOME}, cwd=PROJECT, home=HOME)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_recipe_compiles_without_a_network(name: str) -> None:
    policy = replace(policy_named(name), egress="none")
    plan = compile_plan(policy, HOSTS["6.18"], look(policy), compile_filter=no_filter)
    assert "NET" in plan.namespaces


@pytest.mark.parametrize(("name", "host"), list(cases()))
def test_the_plan_is_the_expected_one(name: str, host: str, golden: Any) -> None:
    policy = policy_named(name)
    try:
        text = render(compile_plan(policy, HOSTS[host], look(policy), compile_filter=no_filter))
    except CageError as error:
        text = f"{type(error).__name__}: {error}\n"
    golden(f"plans/{name}-{host}.txt", text)


def test_a_host_without_user_namespaces_is_told_what_to_do() -> None:
    policy = POLICIES["default"]
    with pytest.raises(OSError, match="user namespaces") as caught:
        compile_plan(policy, HOSTS["forbids-user-namespaces"], look(policy), compile_filter=no_filter)
    assert 'isolation = "landlock"' in str(caught.value)
    assert "pysandbox check" in str(caught.value)


def test_landlock_isolation_runs_there() -> None:
    policy = replace(POLICIES["landlock"])
    plan = compile_plan(policy, HOSTS["forbids-user-namespaces"], look(policy), compile_filter=no_filter)
    assert (plan.namespaces, plan.mounts) == ((), ())
