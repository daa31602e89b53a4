"""What a configuration of git leads to is told by its kind, and every text is read, in time that grows with it."""

from __future__ import annotations

import pytest

from pysandbox.policy.git_config import named_in, variables


def test_what_leads_somewhere_is_told_by_its_kind() -> None:
    found = named_in(
        '[include]\npath=a\n[core]\nhooksPath=b\nworktree=c\nfsmonitor=true\n[diff "x"]\ntextconv=d/e -f\n'
    )
    assert (found.included, found.hooks, found.tree) == (("a",), ("b",), "c")
    assert found.programs == ("true", "d/e", "-f")


@pytest.mark.parametrize("text", ["", "[", '[a "', "[a]\nb=\\", "\\\n" * 1000, '"' * 1000, "[a]\n=x\n", "a\0b=\0"])
def test_what_is_no_configuration_leads_nowhere(text: str) -> None:
    assert named_in(text)[:3] == ((), (), ())


@pytest.mark.parametrize("piece", ["\n", " ", "[", '[a "', "a=\\\n", 'a="', "[a\n\n", "[x]a=", "a "])
def test_a_text_that_is_twice_as_long_is_looked_at_twice_as_often(piece: str) -> None:
    assert steps(piece * 400) < 3 * steps(piece * 200) + 50


def steps(text: str) -> int:
    return sum(1 for _ in variables(text))
