"""Expansion: what a path comes to, and what is refused rather than guessed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.errors import PolicyError
from pysandbox.policy.expand import expand, expand_prefixes, normal, quoted
from pysandbox.policy.model import Grant, Policy

AROUND = {
    "env": {"HOME": "/home/u", "X": "x", "ABS": "/abs/y", "EMPTY": "", "UP": "../.."},
    "cwd": "/work/proj",
    "home": "/home/pw",
}


def expanded(path: str) -> str:
    return expand(Policy(allow=[path]), **AROUND).allow[0].path


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("/usr", "/usr"),
        ("/usr//lib/./x/", "/usr/lib/x"),
        ("/a/b/../c", "/a/c"),
        ("/../../etc", "/etc"),
        ("//a", "/a"),
        ("$HOME/.cargo", "/home/u/.cargo"),
        ("${HOME}/.cargo", "/home/u/.cargo"),
        ("/a/$X.d", "/a/x.d"),
        ("/a/${X}y", "/a/xy"),
        ("$ABS", "/abs/y"),
        ("/a$$b", "/a$b"),
        ("/$$HOME", "/$HOME"),
        ("/$$$X", "/$x"),
        ("~", "/home/pw"),
        ("~/.npm", "/home/pw/.npm"),
        ("~/$X", "/home/pw/x"),
        ("/a/~", "/a/~"),
        ("src", "/work/proj/src"),
        (".", "/work/proj"),
        ("./a/../b", "/work/proj/b"),
        ("./~x", "/work/proj/~x"),
        ("$X/y", "/work/proj/x/y"),
        ("$ABS/$UP/z", "/z"),
    ],
)
def test_a_path_expands_to_its_absolute_form(path, result):
    assert expanded(path) == result


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$NOPE/..", "'NOPE' is unset or empty"), ("/a/${NOPE}", "'NOPE' is unset or empty"),
        ("$EMPTY/..", "'EMPTY' is unset or empty"), ("/a$", "a dollar sign without a name"),
        ("/a/$-b", "a dollar sign without a name"), ("/a/${}", "a dollar sign without a name"),
        ("/a/${X", "a dollar sign without a name"), ("${X:-y}", "'X:-y' is unset"), ("~root/x", "only ~ and ~/"),
        ("..", "leaves the working directory"), ("a/../../proj", "leaves the working directory"),
        ("$UP/etc", "leaves the working directory"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["allow", "allow_write", "deny", "mask", "unix_sockets", "allow_execve"])
def test_what_cannot_be_expanded_is_refused_in_every_list(name, path, message):
    entry = path if name != "allow_execve" or "/" in path or path[0] in "$~" else f"./{path}"
    with pytest.raises(PolicyError) as caught:
        expand(Policy(**{name: [entry]}), **AROUND)
    assert message in caught.value.message
    assert caught.value.key in (f"filesystem.{name}", f"process.{name}", f"network.{name}")


def test_the_home_directory_of_nobody_is_refused_only_where_it_is_named():
    nobody = AROUND | {"home": ""}
    assert expand(Policy(allow=["/a"]), **nobody).allow == (Grant("/a"),)
    with pytest.raises(PolicyError, match="no home directory"):
        expand(Policy(allow=["~/x"]), **nobody)


def test_entries_that_come_to_the_same_path_become_one_and_stay_required():
    policy = expand(Policy(deny=[Grant("$HOME/a", True), "/home/u/b/../a"]), **AROUND)
    assert policy.deny == (Grant("/home/u/a"),)


def test_a_tree_of_executables_stays_a_tree():
    assert expand(Policy(allow_execve=["$HOME/bin/*", "./run"]), **AROUND).allow_execve == (
        "/home/u/bin/*",
        "/work/proj/run",
    )


def test_the_variables_of_the_cage_are_not_paths_and_stay_as_written():
    policy = Policy(env={"A": "$NOPE"}, env_passthrough=["HOME"])
    assert expand(policy, **AROUND) == policy


def test_a_prefix_whose_variable_is_unset_is_left_out_and_a_malformed_one_refused():
    assert expand_prefixes(["$NOPE/x", "$HOME/.cargo", "/nix/"], **AROUND) == ("/home/u/.cargo", "/nix")
    with pytest.raises(PolicyError, match=r"recipe\.match_prefix"):
        expand_prefixes(["$"], **AROUND)


COMPONENTS = st.lists(st.text(st.sampled_from("ab.$~*{}"), max_size=3), max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.lists(COMPONENTS.map(lambda parts: "/" + "/".join(parts)), max_size=3))
def test_a_quoted_policy_expands_to_what_it_was(paths):
    literal = Policy(allow=[normal(path) for path in paths])
    assert expand(quoted(literal), env={}, cwd="/", home="") == literal
    assert Policy.parse(quoted(literal).to_toml()) == quoted(literal)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "..", ".", ""]), max_size=8))
def test_a_relative_path_never_leaves_the_working_directory(parts):
    path = "/".join(["a", *parts])
    try:
        result = expand(Policy(allow=[path]), env={}, cwd="/w/d", home="").allow[0].path
    except PolicyError:
        assert ".." in parts
    else:
        assert result == "/w/d" or result.startswith("/w/d/")


@settings(max_examples=100, deadline=None)
@given(COMPONENTS)
def test_the_normal_form_is_absolute_and_normal(parts):
    result = normal("/" + "/".join(parts))
    assert result.startswith("/")
    assert normal(result) == result
    assert result == "/" or not {"", ".", ".."} & set(result[1:].split("/"))
