"""The policy's flags follow from its options, and a flag that is not given leaves no trace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pysandbox.cli.flags import SECTIONS, Parser, UsageError, add_policy_flags, policy_values
from pysandbox.policy.model import Grant, Policy, options

FLAGGED = [(field, described) for field, described in options() if described.flag]
SAMPLES = {
    "tuple[Grant, ...]": ("/x", (Grant("/x"),)),
    "tuple[tuple[str, str], ...]": ("A=b", (("A", "b"),)),
    "tuple[str, ...]": ("/bin/true", ("/bin/true",)),
    "tuple[int, ...]": ("32", (32,)),
    "tuple[HostRule, ...]": ("a.example:443", ("a.example:443",)),
    "int": ("32", 32),
    "int | None": ("32", 32),
    "float": ("2.5", 2.5),
    "float | None": ("2.5", 2.5),
}


@pytest.fixture(scope="module")
def parser() -> Parser:
    parser = Parser("x", "", "")
    add_policy_flags(parser, {})
    return parser


def given(parser: Parser, *arguments: str) -> dict[str, Any]:
    values: dict[str, Any] = policy_values(parser.read(list(arguments)))
    return values


def test_no_flag_gives_nothing(parser: Parser) -> None:
    assert given(parser) == {}


def test_a_word_too_many_is_no_flag() -> None:
    with pytest.raises(UsageError, match="it takes no argument 'extra'"):
        Parser("x", "", "").read(["extra"])


def test_every_section_has_a_heading() -> None:
    assert {described.section for _, described in FLAGGED} <= SECTIONS.keys()


@pytest.mark.parametrize(("field", "described"), FLAGGED, ids=lambda each: getattr(each, "name", ""))
def test_each_option_with_a_flag_can_be_given_and_gives_only_itself(parser: Parser, field: Any, described: Any) -> None:
    if field.type in ("bool", "bool | None"):
        assert given(parser, described.flag) == {field.name: True}
        return
    text, value = (described.choices[0],) * 2 if described.choices else SAMPLES[str(field.type)]
    assert given(parser, described.flag, text) == {field.name: value}
    assert given(parser, f"{described.flag}={text}") == {field.name: value}


@pytest.mark.parametrize(("field", "described"), FLAGGED, ids=lambda each: getattr(each, "name", ""))
def test_what_cannot_be_taken_back_has_no_flag_to_do_so(parser: Parser, field: Any, described: Any) -> None:
    if field.type not in ("bool", "bool | None"):
        return
    negative = f"--no-{described.flag.removeprefix('--')}"
    if described.merge == "or":
        with pytest.raises(UsageError):
            given(parser, negative)
    else:
        assert given(parser, negative) == {field.name: False}


def test_lists_are_repeatable_in_order(parser: Parser) -> None:
    assert given(parser, "--deny", "/b", "--deny", "/a") == {"deny": (Grant("/b"), Grant("/a"))}


@pytest.mark.parametrize("flag", [("--egress", "any"), ("--max-pids", "many"), ("--env", "=b"), ("--env", "")])
def test_a_value_of_the_wrong_form_is_refused(parser: Parser, flag: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=flag[0]):
        given(parser, *flag)


@pytest.mark.parametrize("text", ["/x/../y", "~/x", "$HOME/x"])
def test_an_absolute_or_expandable_path_is_left_to_the_policy(parser: Parser, text: str) -> None:
    assert given(parser, "--allow", text) == {"allow": (Grant(text),)}


def test_a_relative_path_means_what_it_means_to_the_shell(
    parser: Parser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "$a").mkdir()
    monkeypatch.chdir(tmp_path / "$a")
    here = os.getcwd().replace("$", "$$")
    assert given(parser, "--allow", "x/./y") == {"allow": (Grant(f"{here}/x/y"),)}
    assert given(parser, "--allow", "../x") == {"allow": (Grant(f"{os.path.dirname(os.getcwd())}/x"),)}
    assert given(parser, "--allow", "$HOME") == {"allow": (Grant("$HOME"),)}


def test_what_flags_give_makes_a_policy(parser: Parser) -> None:
    policy = Policy(**given(parser, "--allow", "/x", "--env", "A=b", "--memory-mb", "64", "-s"))
    assert (policy.allow, policy.env, policy.memory_mb, policy.strict) == ((Grant("/x"),), (("A", "b"),), 64, True)
