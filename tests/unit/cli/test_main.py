"""The front door: which command is meant, which exit code comes out, and what is imported on the way."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys

import pytest

from pysandbox.cli import check
from pysandbox.cli.main import COMMANDS, main


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"], ["help", "help"]])
def test_help_lists_every_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "Usage:" in printed
    assert all(f"  {name}" in printed for name in COMMANDS)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "help"])
def test_each_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([name, "--help"], ["help", name]):
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert printed.lower().startswith(f"usage: pysandbox {name}")
        assert "Examples:" in printed


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert main([flag]) == 0
    name, version = capsys.readouterr().out.split()
    assert name == "pysandbox"
    assert version == importlib.metadata.version("pysandbox")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no command given"),
        (["rnu"], "unknown command 'rnu', did you mean \"run\"?"),
        (["ls"], "to run a program: pysandbox run -- ls"),
        (["--verzion"], 'did you mean "--version"?'),
        (["help", "chekc"], 'did you mean "check"?'),
        (["check", "--josn"], 'did you mean "--json"?'),
        (["run", "-V"], "pysandbox --version"),
        (["setup", "--pasta-path", "/x"], "no cage needs pasta"),
        (["commit", "--force"], "--on-conflict force"),
        (["up", "-m"], "--monitor"),
        (["run", "-m", "--strict", "--", "ls"], "--monitor"),
        (["explain", "-m", "1g"], "--memory-mb"),
    ],
)
def test_wrong_usage_is_one_line_and_125(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 125
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("pysandbox: error: ")
    assert words in line
    assert captured.out == ""


@pytest.mark.parametrize(
    "rest", [[], ["nosuch"], ["--nosuch"], ["check", "--nosuch"], ["run"], ["run", "--nosuch"], ["help", "nosuch"]]
)
def test_with_verbose_every_error_of_usage_is_a_line_of_json(
    rest: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-v", *rest]) == 125
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(each)["event"] for each in lines][-1:] == ["cli.error"]


def test_verbose_is_heard_before_and_after_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[list[str], bool]] = []

    def listen(rest: list[str], verbose: bool) -> int:
        heard.append((rest, verbose))
        return 0

    monkeypatch.setattr(check, "main", listen)
    main(["-v", "check"])
    main(["check", "-v"])
    assert heard == [([], True), (["-v"], False)]


class ClosedStdout:
    """A standard output whose reader has gone, on a descriptor of its own."""

    def __init__(self) -> None:
        self.fd = os.open(os.devnull, os.O_WRONLY)

    def fileno(self) -> int:
        return self.fd

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_reader_that_has_gone_is_the_exit_code_of_a_broken_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = ClosedStdout()
    monkeypatch.setattr(sys, "stdout", closed)
    assert main(["--help"]) == 128 + 13
    monkeypatch.undo()
    os.close(closed.fd)
    assert capsys.readouterr().err == ""


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(rest: list[str], verbose: bool) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "main", interrupted)
    assert main(["check"]) == 130


def test_a_bug_of_ours_is_125_and_its_traceback_needs_verbose(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(rest: list[str], verbose: bool) -> int:
        raise RuntimeError("no")

    monkeypatch.setattr(check, "main", broken)
    assert main(["check"]) == 125
    assert "Traceback" not in capsys.readouterr().err
    assert main(["-v", "check"]) == 125
    assert "Traceback" in capsys.readouterr().err
