"""What a process can hold itself to: each option alone is held or refused by name, and no third thing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import HOSTS, MODERN, PROJECT, SYSTEM, grants, look
from pysandbox.compile.confine import HELD, REFUSED, ConfinementPlan, compile_confinement, refuse_what_it_cannot_hold
from pysandbox.errors import SandboxCompileError, UnsupportedError
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Policy, options
from pysandbox.policy.option import Option
from pysandbox.policy.secret import Secret
from pysandbox.probe.facts import HostFacts
from pysandbox.shapes import Field

PREREQUISITES: dict[str, dict[str, Any]] = {"egress": {"unsafe_direct": True}}
OF_NAME: dict[str, Any] = {"on_error": "abort"}  # its other words ask for more
OF_KIND: dict[str, Any] = {
    "bool | None": True, "tuple[Grant, ...]": grants("/data"), "tuple[HostRule, ...]": (HostRule(domain="a.example"),),
    "tuple[int, ...]": (9,), "str": "x", "str | None": "x",
    "tuple[OwnDetector, ...]": ({"name": "acme_token", "pattern": "acme_[a-z]{20}"},),
    "tuple[Secret, ...]": (Secret(name="T", hosts=("a.example",), places=("basic",)),),
}  # fmt: skip
OF_ITEM: dict[str, tuple[str, ...]] = {
    "executable": ("/usr/bin/env",), "variable": ("CI",), "syscall": ("chmod",), "endpoint": ("10.0.0.1:443/tcp",),
    "port": ("8080",), "interface": ("br0",), "domain": ("a.example",), "guard": (".vscode",),
    "certificates": ("/ca.pem",), "pack": ("gitleaks",),
}  # fmt: skip


ONE_OF_ITEM = {"interface": "br7", "parent proxy": "http://proxy.example:3128", "parent credentials": "env:LOGIN"}


def sample(field: Field[Any], described: Option) -> Any:
    """A value that is not the default."""
    kind = str(field.type)
    if field.name in OF_NAME:
        return OF_NAME[field.name]
    if kind == "tuple[tuple[str, tuple[str, ...]], ...]":
        return (((*described.choices, "github_pat")[0], ("read",)),)
    if kind == "tuple[tuple[str, str], ...]":
        return (("CI", "1"),)
    if described.item and kind == "tuple[str, ...]":
        return OF_ITEM[described.item]
    if kind == "bool":
        return not field.default
    if described.choices:
        return next(each for each in described.choices[::-1] if each != field.default)
    if kind.startswith(("int", "float")):
        wanted = 1 if field.default != 1 else 2
        return max(wanted, described.minimum or 0) if field.default != described.minimum else wanted + 5
    return ONE_OF_ITEM.get(described.item) or OF_KIND[kind]


def plan_of(host: HostFacts = MODERN, **options: Any) -> ConfinementPlan:
    policy = Policy(isolation="landlock", **{"run_as": "self", **options})
    return compile_confinement(policy, host, look(policy))


ALONE = {field.name: (field, described) for field, described in options()}


@pytest.mark.parametrize("name", ALONE)
def test_an_option_is_held_or_refused_by_its_key(name: str) -> None:
    field, described = ALONE[name]
    asked = {name: sample(field, described), **PREREQUISITES.get(name, {})}
    policy = Policy(**asked)
    assert getattr(policy, name) != field.default
    if HELD.get(name, lambda _: False)(getattr(policy, name)):
        refuse_what_it_cannot_hold(policy)
        return
    with pytest.raises(SandboxCompileError) as caught:
        refuse_what_it_cannot_hold(policy)
    assert caught.value.key == described.toml_key and REFUSED.get(name, "cannot hold") in str(caught.value)


def test_the_tables_name_options_and_nothing_else() -> None:
    assert HELD.keys() | REFUSED.keys() <= ALONE.keys()
    both = HELD.keys() & REFUSED.keys()
    assert {name for name in both if HELD[name](object()) and all(map(HELD[name], ("cow", "root", True)))} == set()


def test_an_option_that_nobody_thought_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HELD, "file_size_gb")  # type: ignore[arg-type]
    with pytest.raises(SandboxCompileError, match="file_size_gb"):
        refuse_what_it_cannot_hold(Policy(file_size_gb=1))


# What shows in the plan of each option that is held; the others grant nothing, or say how much is said.
EFFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "allow": ({"allow": grants("/data")}, "landlock"),
    "allow_write": ({"allow_write": grants("/data")}, "landlock"),
    "workdir": ({"workdir": "read"}, "landlock"),
    "egress": ({"egress": "direct", "unsafe_direct": True}, "landlock"),
    "allow_execve": ({"allow": SYSTEM, "allow_execve": ("/usr/bin/env",)}, "landlock"),
    "seccomp": ({"seccomp": "seed-187"}, "seccomp"),
    "seccomp_mode": ({"seccomp_mode": "deny-list"}, "seccomp"),
    "allow_syscalls": ({"allow_syscalls": ("inotify_add_watch",)}, "seccomp"),
    "deny_syscalls": ({"deny_syscalls": ("chmod",)}, "seccomp"),
    "syscall_lists": ({"syscall_lists": (("allow", ("read", "execve")),)}, "seccomp"),
    "address_space_gb": ({"address_space_gb": 1}, "limits"),
    "open_files": ({"open_files": 20}, "limits"),
    "file_size_gb": ({"file_size_gb": 1}, "limits"),
}
SAY_ONLY = {"deny", "unguarded", "base", "unsafe_direct", "left_out", "run_as", "notifier", "isolation"}


@pytest.mark.parametrize("name", EFFECTS)
def test_what_is_held_is_in_the_plan(name: str) -> None:
    asked, part = EFFECTS[name]
    without = {key: value for key, value in asked.items() if key != name and key != "unsafe_direct"}
    assert getattr(plan_of(**asked), part) != getattr(plan_of(**without), part)


def test_every_option_that_is_held_is_above() -> None:
    assert EFFECTS.keys() | SAY_ONLY == HELD.keys()


def test_nothing_is_reached_by_name_or_network_and_signals_stay_inside() -> None:
    plan = plan_of(allow=SYSTEM, workdir="write")
    assert plan.landlock.handled_net == ("BIND_TCP", "CONNECT_TCP")
    assert plan.landlock.scoped == ("ABSTRACT_UNIX_SOCKET", "SIGNAL")
    assert all(rule.path for rule in plan.landlock.rules)
    assert any(rule.path == PROJECT for rule in plan.landlock.rules)
    assert not any("TMPDIR" in note.message for note in plan.notes)


@pytest.mark.parametrize(("host", "feature"), [
    (HOSTS["6.1"], "landlock_scope"),
    (replace(MODERN, landlock_abi=0), "landlock"),
    (replace(MODERN, landlock_abi=5), "landlock_scope"),
    (replace(MODERN, seccomp_filter=False), "seccomp_filter"),
])  # fmt: skip
def test_a_kernel_that_cannot_hold_it_is_refused_and_not_worked_around(host: HostFacts, feature: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        plan_of(host)
    assert caught.value.feature == feature


def test_other_threads_are_taken_along_from_abi_8_on() -> None:
    assert not plan_of(HOSTS["6.12"]).all_threads and not plan_of().all_threads
    assert plan_of(replace(MODERN, landlock_abi=8)).all_threads


def test_a_denial_inside_a_grant_is_refused() -> None:
    with pytest.raises(SandboxCompileError) as caught:
        plan_of(allow=grants("/data"), deny=grants("/data/set"))
    assert caught.value.key == "filesystem.deny"
