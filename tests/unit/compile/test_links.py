"""Which links on the way to a grant are followed, by where they lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, PROJECT, TREE, grants, look, no_filter, notes_of, plan_of
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.notes import GRANT_SKIPPED
from pysandbox.errors import CageError, SandboxCompileError
from pysandbox.policy.model import Grant, Policy

OUT = f"{PROJECT}/link"
PLANTED = f"{TREE}\n{PROJECT}/link -> /data/set\n{PROJECT}/near -> src\n{PROJECT}/gone -> absent\n/opt/link -> tool\n"
KEYS = {"allow": "filesystem.allow", "allow_write": "filesystem.allow_write", "unix_sockets": "network.unix_sockets"}


def planned(cwd: str = PROJECT, written: tuple[str, ...] = (), **options: Any) -> Any:
    policy = Policy(**options)
    paths = replace(look(policy, cwd=cwd, tree=PLANTED), written=written)
    return compile_plan(policy, MODERN, paths, compile_filter=no_filter)


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize("path", [OUT, "link", f"{PROJECT}/src/../link", f"{PROJECT}/link/a", f"{PROJECT}/near"])
@pytest.mark.parametrize("word", KEYS)
def test_a_grant_through_a_link_below_the_working_directory_is_refused(word: str, path: str, isolation: str) -> None:
    with pytest.raises(SandboxCompileError, match="leads through") as caught:
        planned(isolation=isolation, run_as="self", **{word: grants(path)})
    assert caught.value.key == KEYS[word]
    assert "write where it leads to: '/" in str(caught.value)


@pytest.mark.parametrize("word", ["allow", "allow_write", "deny", "mask"])
def test_so_is_one_in_a_writable_grant_wherever_that_is(word: str) -> None:
    wide = {"allow_write": grants(PROJECT, "/data")}
    both = {**wide, word: (*wide.get(word, ()), *grants(OUT))}
    with pytest.raises(SandboxCompileError, match="leads through"):
        planned(cwd="/", **both)
    planned(cwd="/", **{word: grants(OUT)})  # CONTROL: nobody writes there


def test_and_one_that_an_earlier_cage_of_the_program_may_have_written() -> None:
    with pytest.raises(SandboxCompileError, match="leads through"):
        planned(cwd="/", written=(PROJECT,), allow=grants(OUT))
    planned(cwd="/", written=("/data",), allow=grants(OUT))  # CONTROL


def test_an_optional_grant_is_left_out_with_a_note() -> None:
    plan = planned(allow=(Grant(OUT, optional=True),))
    assert any("leads through" in each for each in notes_of(plan, GRANT_SKIPPED))
    assert not any(step.target == "/data/set" for step in plan.mounts)


@pytest.mark.parametrize("target", ["gone", "link"])
def test_a_denial_is_refused_only_if_it_would_deny_something(target: str) -> None:
    with pytest.raises(CageError, match="leads through"):
        planned(allow=grants("/data"), workdir="write", deny=grants(target))
    if target == "link":
        planned(deny=grants(target))


@pytest.mark.parametrize(
    ("path", "cwd"),
    [("/bin", PROJECT), ("/etc/localtime", "/etc"), ("/home/ann/way/set", PROJECT), ("/home/ann/way/set", "/home/ann"),
     ("/opt/link", "/opt"), ("/tmp/shortcut", PROJECT), ("/bin", "/")],
)  # fmt: skip
def test_a_link_of_the_host_s_is_followed(path: str, cwd: str) -> None:
    assert notes_of(planned(cwd=cwd, allow=grants(path)), GRANT_SKIPPED) == []


def test_the_target_can_always_be_named() -> None:
    assert any(step.target == "/data/set" for step in plan_of(Policy(allow=grants("/data/set"))).mounts)
