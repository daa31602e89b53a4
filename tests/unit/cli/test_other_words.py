"""What is said of a word of another program: it names flags and commands that there are."""

from __future__ import annotations

import re
import shlex

import pytest

from pysandbox.cli import main, run
from pysandbox.cli.other_words import COMMANDS, FLAGS

ADVISED = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
KNOWN = frozenset(name for action in run.parser().declared() for name in action.option_strings)


@pytest.mark.parametrize("word", FLAGS)
def test_what_is_advised_for_a_flag_is_one(word: str) -> None:
    assert word not in KNOWN
    assert not [each for each in FLAGS if each.startswith("-v")]
    advised = set(ADVISED.findall(re.sub(r"(?:pysandbox|run --) .*?(?=;|$)", "", FLAGS[word])))
    assert advised - {"-p"} <= KNOWN, word


@pytest.mark.parametrize("word", COMMANDS)
def test_what_is_advised_for_a_command_is_one(word: str) -> None:
    name, *rest = shlex.split(COMMANDS[word])
    assert word not in main.COMMANDS
    assert name in main.COMMANDS or name == "--version"
    if name == "run":
        namespace, argv = run.read_arguments(rest)
        assert argv and namespace.monitor is (True if "--monitor" in rest else None)


@pytest.mark.parametrize(("word", "told"), [
    ("shell", "that is pysandbox run -- bash -i"), ("stats", "that is pysandbox top"),
    ("rnu", 'did you mean "run"?'), ("echo", "to run a program: pysandbox run -- echo"),
])  # fmt: skip
def test_an_unknown_command_is_told_what_was_meant(capsys: pytest.CaptureFixture[str], word: str, told: str) -> None:
    assert main.main([word, "hi"]) == 125
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--no-sandboxes", "--nosandbox", "--unsafe-direc", "--unshare-direct"])
def test_no_misspelt_flag_is_led_out_of_the_cage(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    """`--nosound`, of firejail, was told `did you mean "--no-sandbox"?`."""
    assert main.main(["run", flag, "--", "true"]) == 125
    told = capsys.readouterr().err
    assert "unknown flag" in told and not re.search(r'mean "--(no-sandbox|unsafe-direct)"', told)
