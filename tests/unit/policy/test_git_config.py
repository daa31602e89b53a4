"""What a configuration of git leads to is told by its kind, and every text is read, in time that grows with it."""

from __future__ import annotations

import time

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


@pytest.mark.parametrize("piece", ["[a" + " " * 1000, '[a "' + "b" * 1000, "[" + "\n" * 1000, "[a\n" * 300])
def test_the_time_for_a_text_grows_with_it(piece: str) -> None:
    """By CPU time, eight times the text: in the square of it that would be sixty-four times."""
    long = piece[:3] + piece[3:] * 8 if piece.count("[") == 1 else piece * 8
    assert cost(long * 4) < 28 * cost(piece * 4) + 0.001


def cost(text: str) -> float:
    def once() -> float:
        began = time.process_time()
        for _ in range(5):
            named_in(text)
        return time.process_time() - began

    return min(once() for _ in range(5))


def test_each_word_is_told_once_and_as_a_shell_reads_it() -> None:
    assert named_in("[core]\npager = a a b a\n[pager]\nlog = b c").programs == ("a", "b", "c")
    assert "my dir/x" in named_in("[core]\nsshCommand = my\\\\ dir/x -v").programs
    assert "my dir/x" in named_in("[gpg]\nprogram = my dir/x").programs
    assert "my dir/x" in named_in("[core]\nsshCommand = 'my dir/x' -v").programs


@pytest.mark.parametrize("key", [
    '[gpg "ssh"]\ndefaultKeyCommand', "[core]\nalternateRefsCommand", '[trailer "x"]\ncmd', '[trailer "x"]\ncommand',
])  # fmt: skip
def test_what_git_runs_besides_is_a_program(key: str) -> None:
    assert named_in(f"\ufeff{key} = a/b\r\n").programs == ("a/b",)
