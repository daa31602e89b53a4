"""`pysandbox setup` up to the point where tools are run: who is asked, who is refused, what is printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox.cli import setup
from pysandbox.probe.features import Host
from pysandbox.setup import apparmor, install
from pysandbox.setup.target import InstallTarget, find_target

Answer = Callable[[str], str]


class Stream:
    def __init__(self, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """An AppArmor host."""
    enabled = tmp_path / "sys/module/apparmor/parameters/enabled"
    enabled.parent.mkdir(parents=True)
    enabled.write_text("Y\n")
    return Host(root=str(tmp_path))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """We are root, in an environment with a Python of its own; what is carried out is only written down."""
    calls: list[str] = []

    def note(what: str) -> Callable[..., None]:
        return lambda mac, files, target: calls.append(f"{what} {mac} {' '.join(files)}")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(setup, "is_shared", lambda target: False)
    monkeypatch.setattr(install, "install", note("install"))
    monkeypatch.setattr(install, "remove", note("remove"))
    return calls


def terminals(monkeypatch: pytest.MonkeyPatch, stdin: bool, stdout: bool, answer: str | None = None) -> None:
    monkeypatch.setattr(sys, "stdin", Stream(stdin))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: stdout)

    def ask(question: str) -> str:
        assert answer is not None, f"asked: {question}"
        return answer

    monkeypatch.setattr("builtins.input", ask)


def put_policy(host: Host, text: str) -> None:
    file = Path(host.root + apparmor.FILE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_host_without_a_security_module_needs_no_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert setup.main([], False, Host(root=str(tmp_path))) == 0
    assert "No policy is needed" in capsys.readouterr().out


def test_without_a_terminal_nothing_is_asked(host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    terminals(monkeypatch, stdin=False, stdout=False)
    assert setup.main([], False, host) == 0
    assert done == [f"install AppArmor {host.root}{apparmor.FILE}"]


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("", 125), ("n", 125), ("what?", 125)])
def test_at_a_terminal_the_policy_is_shown_and_only_yes_installs_it(
    host: Host,
    done: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    code: int,
) -> None:
    terminals(monkeypatch, stdin=True, stdout=True, answer=answer)
    assert setup.main([], False, host) == code
    assert len(done) == (code == 0)
    assert apparmor.policy(find_target()) in capsys.readouterr().out


def test_a_policy_that_replaces_another_is_shown_as_a_diff(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_policy(host, apparmor.policy(find_target()).replace("  mqueue,\n", "  nothing,\n"))
    terminals(monkeypatch, stdin=True, stdout=True, answer="y")
    assert setup.main([], False, host) == 0
    printed = capsys.readouterr().out.splitlines()
    changed = [line for line in printed if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changed == ["-  nothing,", "+  mqueue,"]


def test_a_question_that_nobody_would_see_needs_yes(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminals(monkeypatch, stdin=True, stdout=False)
    assert setup.main([], False, host) == 125
    assert done == []
    assert "--yes" in capsys.readouterr().err
    assert setup.main(["--yes"], False, host) == 0
    assert len(done) == 1


def test_the_installed_policy_is_left_alone_unless_forced(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_policy(host, apparmor.policy(find_target()))
    terminals(monkeypatch, stdin=False, stdout=False)
    assert setup.main([], False, host) == 0
    assert (done, "installed (" in capsys.readouterr().out) == ([], True)
    assert setup.main(["--force"], False, host) == 0
    assert len(done) == 1


def test_removing_asks_too_and_removes_what_is_there(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert setup.main(["--remove"], False, host) == 0
    assert done == []  # nothing was installed
    put_policy(host, "anything\n")
    terminals(monkeypatch, stdin=True, stdout=True, answer="n")
    assert setup.main(["--remove"], False, host) == 125
    terminals(monkeypatch, stdin=True, stdout=True, answer="y")
    assert setup.main(["--remove"], False, host) == 0
    assert done == [f"remove AppArmor {host.root}{apparmor.FILE}"]


def test_without_root_the_command_to_run_is_named(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert setup.main(["--force"], False, host) == 125
    assert f"sudo {sys.executable} -P -m pysandbox setup --force" in capsys.readouterr().err
    assert done == []


def test_an_interpreter_that_everybody_uses_is_refused_until_it_is_named(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "is_shared", lambda target: True)
    terminals(monkeypatch, stdin=False, stdout=False)
    assert setup.main([], False, host) == 125
    said = capsys.readouterr().err
    assert "venv --copies" in said
    assert f"--interpreter {find_target().interpreter}" in said
    assert done == []
    assert setup.main(["--interpreter", sys.executable], False, host) == 0
    assert len(done) == 1


def test_a_dry_run_prints_the_policy_and_needs_nobody_s_leave(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert setup.main(["--dry-run"], False, host) == 0
    assert apparmor.policy(find_target()) in capsys.readouterr().out
    assert setup.main(["--dry-run", "--mac", "selinux"], False, host) == 0
    assert "type pysandbox_t," in capsys.readouterr().out
    assert done == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mac", "apparmor"],
        ["--remove", "--force"],
        ["--remove", "--dry-run"],
        ["--interpreter", "/absent"],
        ["--yess"],
    ],
)
def test_flags_that_make_no_sense_together_are_refused(
    arguments: list[str], host: Host, done: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert setup.main(arguments, False, host) == 125
    assert "pysandbox setup --help" in capsys.readouterr().err
    assert done == []


def test_a_failure_of_the_tools_is_one_line(
    host: Host, done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(mac: str, files: dict[str, str], target: InstallTarget) -> None:
        raise install.SetupError("not found: apparmor_parser (package apparmor)")

    monkeypatch.setattr(install, "install", fail)
    terminals(monkeypatch, stdin=False, stdout=False)
    assert setup.main([], False, host) == 125
    assert capsys.readouterr().err.count("\n") == 1
