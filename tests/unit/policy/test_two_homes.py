"""What a policy takes away below `~` is taken away in both homes, where $HOME is not the user database's; what it
grants is there alone."""

from __future__ import annotations

import pytest

from pysandbox.policy.expand import expand
from pysandbox.policy.model import Policy
from pysandbox.policy.option import Grant

HOME, CWD = "/home/ann", "/srv/project"


def denied(home: str | None, *paths: str) -> list[str]:
    env = {} if home is None else {"HOME": home}
    policy = Policy(deny=[Grant(each) for each in paths], allow=["~/data"])
    made = expand(policy, env=env, cwd=CWD, home=HOME)
    assert [each.path for each in made.allow] == [f"{HOME}/data"]
    return [each.path for each in made.deny]


@pytest.mark.parametrize("given", [None, "", HOME, f"{HOME}/", "/home/../home/ann", "/"])
def test_one_home_is_named_once(given: str | None) -> None:
    assert denied(given, "~/.ssh", "~", "/etc/x") == [f"{HOME}/.ssh", HOME, "/etc/x"]


@pytest.mark.parametrize(("given", "other"), [
    ("/root", "/root"), ("/github/home/", "/github/home"), (".", CWD), ("own", f"{CWD}/own"), ("../x", "/srv/x"),
])  # fmt: skip
def test_another_home_is_denied_as_well(given: str, other: str) -> None:
    assert denied(given, "~/.ssh", "~", "/etc/x") == [f"{HOME}/.ssh", HOME, "/etc/x", f"{other}/.ssh", other]


def test_its_letters_are_no_pattern_and_no_variable() -> None:
    assert denied("/a$HOME*", "~/.s*")[1] == "/a$HOME[*]/.s*"


def test_what_is_taken_away_there_need_not_be_there() -> None:
    made = expand(Policy(deny=["~/.ssh"]), env={"HOME": "/root"}, cwd=CWD, home=HOME)
    assert [each.optional for each in made.deny] == [False, True]


def test_a_mask_is_one_of_these() -> None:
    made = expand(Policy(mask=["~/.netrc"]), env={"HOME": "/root"}, cwd=CWD, home=HOME)
    assert [each.path for each in made.mask] == [f"{HOME}/.netrc", "/root/.netrc"]
