"""Adding to a recipe's text: what was there stays, what is added reads as a merge would have it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings

from pysandbox.errors import PolicyError
from pysandbox.policy import also
from pysandbox.policy.edit import add_to, add_to_manifest, as_also
from pysandbox.policy.manifest import parse_manifest
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import Recipe
from pysandbox.policy.sources import parse_recipe

from .strategies import POLICIES

RECIPE = """\
# ours
strict = false  # for now

[filesystem]
allow = [
    "/a",  # one, with a ] and a "
    "/b"   # two
    # the end
]
deny = ["/x"]   # never

[resources]
# nothing yet
"""


def layer(line: str) -> Any:
    return parse_recipe(line).given


def layer_of(line: str) -> Any:
    """Reads a line as a layer that says no section of its key."""
    return also.layer_of(as_also(line))


@pytest.mark.parametrize(("line", "removed", "added"), [
    ('filesystem.allow = ["/c"]', '    "/b"   # two', '    "/b",   # two\n    # the end\n    "/c"\n]'),
    ('filesystem.deny = ["/y", "/z"]', 'deny = ["/x"]', 'deny = ["/x", "/y", "/z"]   # never'),
    ('filesystem.allow_write = ["/w"]', "", 'never\nallow_write = ["/w"]\n'),
    ("resources.memory_mb = 64", "", "[resources]\n# nothing yet\nmemory_mb = 64\n"),
    ("strict = true", "strict = false", "strict = true  # for now"),
    ('network.egress = "none"', "", '\n[network]\negress = "none"\n'),
    ('isolation = "landlock"', "", 'now\nisolation = "landlock"\n'),
])  # fmt: skip
def test_a_line_goes_where_it_belongs_and_the_rest_stays(line: str, removed: str, added: str) -> None:
    edited = add_to(RECIPE, layer(line))
    assert added in edited
    gone = [each for each in RECIPE.splitlines() if each not in edited.splitlines()]
    assert all(each.startswith(removed) for each in gone) if removed else gone == []


def test_what_is_there_already_changes_nothing() -> None:
    assert add_to(RECIPE, layer('filesystem.allow = ["/b"]')) == RECIPE


def test_an_empty_file_becomes_a_recipe() -> None:
    edited = add_to("", layer('filesystem.allow = ["/c"]\nstrict = true'))
    assert parse_recipe(edited).given == {"allow": Policy(allow=["/c"]).allow, "strict": True}


def test_keys_with_their_section_in_front_get_one_more_such() -> None:
    edited = add_to('filesystem.allow = ["/a"]  # first\n', layer('filesystem.deny = ["/b"]'))
    assert edited == 'filesystem.allow = ["/a"]  # first\nfilesystem.deny = ["/b"]\n'


@pytest.mark.parametrize("text", [
    "", "# ours", 'filesystem = { allow = ["/a"] }\n', 'filesystem.allow = ["/a"]', "[network]\negress = 'proxy-only'",
    '[[host]]\ndomain = "b.example"\n', 'host = [{ domain = "b.example" }]\n', 'host = [\n]\n[filesystem]\nallow = []',
    '[[host]]\ndomain = "evil.example"\nports = [80]\n\n[process]\nallow_execve = ["/x"]  # ours',
    'strict = true\n[network]\n[filesystem]\ndeny = [\n  "/x"  # no comma\n]\n',
])  # fmt: skip
@pytest.mark.parametrize("line", [
    'host = [{ domain = "evil.example" }]', 'allow_execve = ["/usr/bin/git"]', 'allow_ips = ["203.0.113.7:443/tcp"]',
    'allow_extra = ["ptrace"]', 'filesystem.deny = ["/y"]', "strict = false",
])  # fmt: skip
def test_any_file_takes_any_line(text: str, line: str) -> None:
    edited = add_to(text, layer_of(line), "mine.toml")
    wanted = parse_recipe(text).merge(Recipe(layer_of(line))).given
    assert parse_recipe(edited).given == wanted
    assert [each for each in re.findall("#.*", text) if each not in edited] == []


@pytest.mark.parametrize("text", [
    "also = [{ process.max_pids = 3 }]\n", "also = []\n[process]\nmax_pids = 2",
    "[[also]]\nprocess.max_pids = 3  # mine",
    "process = { max_pids = 1 }  # ours\n[[also]]\nstrict = true",
])  # fmt: skip
@pytest.mark.parametrize(
    "line", ['host = [{ domain = "evil.example" }]', "max_pids = 4", 'allow_execve = ["/usr/bin/git"]']
)
def test_a_file_with_tables_of_the_kind_takes_any_line(text: str, line: str) -> None:
    edited = add_to(text, layer_of(line), "mine.toml")
    assert parse_recipe(edited).given == parse_recipe(text).merge(Recipe(layer_of(line))).given
    assert [each for each in re.findall("#.*", text) if each not in edited] == []


HOSTS = """\
# ours
[[host]]
domain = "a.example"  # the one
# reads alone
methods = ["GET"]  # no POST
ports = [8443]

# the other
[[host]]
domain = "b.example"
methods = ["GET"]
"""


@pytest.mark.parametrize(("line", "changed"), [
    ('domain = "a.example", methods = ["GET", "PUT"], ports = [8443]',
     {'methods = ["GET"]  # no POST': 'methods = ["GET", "PUT"]  # no POST'}),
    ('domain = "a.example", methods = ["GET"], ports = [8443], websocket = true',
     {"ports = [8443]": "ports = [8443]\nwebsocket = true"}),
    ('domain = "a.example", ports = [8443]', {'methods = ["GET"]  # no POST\n': ""}),
])  # fmt: skip
def test_of_a_block_only_the_key_that_differs_is_written(line: str, changed: dict[str, str]) -> None:
    wanted = HOSTS
    for old, new in changed.items():
        wanted = wanted.replace(old, new, 1)
    assert add_to(HOSTS, layer(f"host = [{{ {line} }}]")) == wanted


def test_of_blocks_in_a_list_too() -> None:
    text = 'host = [{ domain = "a.example", methods = ["GET"] }, # one\n {domain="b.example"}] # two\n'
    edited = add_to(text, layer('host = [{ domain = "a.example", methods = ["GET", "PUT"] }]'))
    assert edited == text.replace('["GET"]', '["GET", "PUT"]')


TWO = "[sandbox.a]\nrecipes = ['base']\ncommand = 'x'\n# mine\n[sandbox.b]\nrecipes = ['base']\ncommand = 'y'\n"


@pytest.mark.parametrize(
    "more", ["", "[[sandbox.b.host]]\ndomain = 'x.example'", "[sandbox.a.process]\nmax_pids = 3\n"]
)
@pytest.mark.parametrize(
    "line", ['host = [{ domain = "evil.example" }]', "max_pids = 4", 'allow_execve = ["/usr/bin/git"]']
)
def test_of_a_manifest_one_sandbox_takes_it(more: str, line: str) -> None:
    edited = add_to_manifest(TWO + more, layer_of(line), "a", "pysandbox.toml")
    before, after = parse_manifest(TWO + more).sandboxes, parse_manifest(edited).sandboxes
    assert after["b"] == before["b"] and edited.startswith(TWO + more)
    assert after["a"].overrides == Recipe(before["a"].overrides).merge(Recipe(layer_of(line))).given
    assert add_to_manifest(edited, layer_of(line), "a") == edited


@pytest.mark.parametrize(("line", "whole"), [
    ('allow_execve = ["/x"]', '[[also]]\nprocess.allow_execve = ["/x"]'),
    ('process.allow_execve = ["/x"]', '[[also]]\nprocess.allow_execve = ["/x"]'),
    ("strict = true", "[[also]]\nstrict = true"), ("[[also]]\nstrict = true", "[[also]]\nstrict = true"),
    ("", ""), ("nothing", ""), ("nothing = 1", ""),
])  # fmt: skip
def test_a_fix_that_an_earlier_version_recorded_is_read_still(line: str, whole: str) -> None:
    assert as_also(line) == whole


@given(POLICIES, POLICIES)
@settings(max_examples=60, deadline=None)
def test_the_result_reads_as_the_merge(first: Policy, second: Policy) -> None:
    try:
        text = first.to_toml()
        edited = add_to(text, second.explicit)
    except PolicyError:
        return  # a name that TOML cannot hold, or a layout that is left alone
    wanted = Recipe(first.explicit).merge(Recipe(second.explicit)).given
    read = parse_recipe(edited).given
    assert {name: read[name] for name in wanted} == dict(wanted)
