"""A fix says one thing in three ways: at the end of any file, as a flag, in Python. Each is read back by its reader."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.cli.flags import Parser, add_policy_flags, policy_values
from pysandbox.errors import PolicyError
from pysandbox.handlers import fix
from pysandbox.policy.also import as_flag, as_python, as_toml, layer_of
from pysandbox.policy.manifest import parse_manifest
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS, Policy
from pysandbox.policy.sources import parse_recipe

from .strategies import POLICIES

GIVEN: list[dict[str, Any]] = [
    {"hosts": ["evil.example"]}, {"hosts": [{"domain": "a.example", "ports": [80, 443]}]},
    {"allow_execve": ["/usr/bin/git", "/opt/a b/c"]}, {"allow_ips": ["[2001:db8::1]:53/udp"]},
    {"allow_syscalls": ["ptrace"]}, {"scm_rights": "allow"}, {"allow_host_loopback": True},
    {"host_loopback_ports": [8080]}, {"unix_sockets": ["/run/x.sock"]}, {"allow": ["/srv/data"]},
    {"allow_write": ["~/x y", "$HOME/z"]}, {"max_pids": 64}, {"egress": "proxy-only", "hosts": ["evil.example"]},
]  # fmt: skip
FILES = [
    "", "# ours", "[[host]]\ndomain = 'x.example'", "host = [{ domain = 'x.example' }]\n",
    "[process]\nallow_execve = ['/a']\n", "process = { allow_execve = ['/a'] }",
    "network.allow_ips = []\n[syscalls]\nprofile = 'default'",
    "[recipe]\nname = 'mine'\n", "[[also]]\nprocess.max_pids = 3\n[also.network]\nallow_ips = []\n",
]  # fmt: skip


def flags(text: str) -> dict[str, Any]:
    parser = Parser("pysandbox run", "", "")
    add_policy_flags(parser, {})
    return policy_values(parser.read(shlex.split(text)))


def said(layer: dict[str, Any]) -> Policy:
    return Policy(**layer)


@pytest.mark.parametrize("layer", GIVEN, ids=str)
def test_the_text_the_flag_and_the_expression_say_the_same(layer: dict[str, Any]) -> None:
    text = as_toml(layer)
    assert Policy(**layer_of(text)) == said(layer)
    assert Policy(**flags(as_flag(text))) == said(layer)
    names = {"policy": Policy(), "Policy": Policy, "dataclasses": dataclasses}
    assert eval(as_python(text), names) == said(layer)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("layer", GIVEN, ids=str)
def test_it_stands_at_the_end_of_any_recipe_and_is_merged_over_it(file: str, layer: dict[str, Any]) -> None:
    before, whole = parse_recipe(file).given, parse_recipe(f"{file}\n{as_toml(layer)}\n").given
    assert whole == merge_layers(MERGE_WORDS, before, layer_of(as_toml(layer)))
    twice = parse_recipe(f"{file}\n{as_toml(layer)}\n\n{as_toml({'allow': ['/x']})}").given
    assert twice == merge_layers(MERGE_WORDS, whole, {"allow": Policy(allow=["/x"]).allow})


MANIFESTS = [
    "[sandbox.a]\nrecipes = ['base']\ncommand = 'x'\n[sandbox.b]\nrecipes = ['base']\ncommand = 'y'\n"
    "[[sandbox.b.host]]\ndomain = 'x.example'\n",
    "[sandbox]\na = { recipes = ['base'], command = 'x' }\nb = { recipes = ['base'], command = 'y' }\n",
    "sandbox.a = { recipes = ['base'], command = 'x' }\nsandbox.b.recipes = ['base']\nsandbox.b.command = 'y'\n"
    "[pipeline.p]\nstages = ['a']\n",
]


@pytest.mark.parametrize("file", MANIFESTS)
@pytest.mark.parametrize("layer", GIVEN, ids=str)
def test_it_stands_at_the_end_of_any_manifest_for_all_of_it_or_for_one(file: str, layer: dict[str, Any]) -> None:
    before = {name: each.overrides for name, each in parse_manifest(file).sandboxes.items()}
    header, _, rest = as_toml(layer).partition("\n")
    for named, text in (
        (("a", "b"), f"{header}\n{rest}\n"), (("b",), f"{header}\nsandbox = ['b']\n{rest}\n"),
    ):  # fmt: skip
        after = {name: each.overrides for name, each in parse_manifest(f"{file}\n{text}").sandboxes.items()}
        merged = {name: merge_layers(MERGE_WORDS, each, layer_of(as_toml(layer))) for name, each in before.items()}
        assert after == {name: merged[name] if name in named else before[name] for name in before}


def test_one_sandbox_may_have_its_own() -> None:
    text = MANIFESTS[0] + "[[sandbox.a.also]]\nprocess.max_pids = 5\n"
    given = {name: dict(each.overrides) for name, each in parse_manifest(text).sandboxes.items()}
    assert given["a"] == {"max_pids": 5} and "max_pids" not in given["b"]


@pytest.mark.parametrize(("file", "message"), [
    ("also = 3", "also: must be a list of tables"), ("also = [3]", "also.0: must be a table"),
    ("[[also]]\nnothing = 1", "2: also.0.nothing: no such key"),
    ("[[also]]\n[also.recipe]\nname = 'x'", "also.0.recipe"),
    ("[[also]]\n[[also.also]]\nstrict = true", "also.0.also"),
    ("strict = true\n[[also]]\nmax_pids = 1", "also.0.max_pids"),
    ("[also]\nstrict = true", "also: must be a list of tables"),
])  # fmt: skip
def test_what_is_no_such_table_is_refused_where_it_stands(file: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_recipe(file)
    assert message in str(caught.value)


@pytest.mark.parametrize(("table", "message"), [
    ("sandbox = ['c']", "no such sandbox"), ("sandbox = []", "is empty"), ("nothing = 1", "no such key"),
])  # fmt: skip
def test_in_a_manifest_too(table: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_manifest(f"{MANIFESTS[0]}\n[[also]]\n{table}\n", "pysandbox.toml")
    assert message in str(caught.value) and "pysandbox.toml:11: also.0" in str(caught.value)


@given(st.text(max_size=20))
def test_whatever_a_cage_has_called_its_program(name: str) -> None:
    text = fix.of_program(f"/{name}")
    if text:
        assert len(text.splitlines()) == 2 and text.replace("\n", "").isprintable()
        assert Policy(**flags(as_flag(text))) == Policy(**layer_of(text))
        assert eval(as_python(text), {"policy": Policy(), "Policy": Policy}) == Policy(**layer_of(text))
        assert as_python(text).isascii() and as_python(text).isprintable()


@given(POLICIES)
def test_whatever_can_be_given(policy: Policy) -> None:
    text = as_toml(policy.explicit) if policy.explicit else ""
    if text:
        assert dict(parse_recipe(text).given) == policy.explicit


@pytest.mark.parametrize("text", [
    "", "nothing", "[[also]]", "[[also]]\n", "[[also]]\nnothing = 1", "[[also]]\nstrict = true\n\n", "strict = true",
    "[[also]]\nstrict = true\n[process]",
    "\n[[also]]\nstrict = true", "[[also]]\n# no\n", "[[also]] # no\nstrict = true",
])  # fmt: skip
def test_what_is_not_one_table_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        layer_of(text)
    assert as_flag(text) == as_python(text) == ""


@pytest.mark.parametrize(
    "layer",
    [
        {"caged": False},
        {"hosts": [{"domain": "a.example", "direct": True}]},
        {"allow": ["relative"]},
        {"allow": [{"path": "/x", "optional": True}]},
    ],
)
def test_what_no_flag_says_has_none(layer: dict[str, Any]) -> None:
    assert as_flag(as_toml(layer)) == ""
