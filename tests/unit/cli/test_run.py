"""`pysandbox run` against a cage that runs nothing: what it asks for, what it answers with, what it says."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from pysandbox.cli import perform, run
from pysandbox.cli.main import main as pysandbox_main
from pysandbox.cli.policy_of import policy_of
from pysandbox.errors import CageError, StartError, UnsupportedError
from pysandbox.events import Event
from pysandbox.policy.model import Grant

Cage = Any  # FakeCage of conftest.py


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


# ---- the command and its flags -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "argv"),
    [
        (["--", "ls", "-la"], ["ls", "-la"]),
        (["ls", "-la"], ["ls", "-la"]),
        (["--strict", "ls", "--strict"], ["ls", "--strict"]),
        (["--", "--json"], ["--json"]),
        (["--", "sh", "-c", "x", "--", "y"], ["sh", "-c", "x", "--", "y"]),
        (["sh", "-c", "x", "--", "y"], ["sh", "-c", "x", "--", "y"]),
        (["--", "--"], ["--"]),
        (["--allow", "/x", "--", "printf", ""], ["printf", ""]),
    ],
)
def test_the_command_is_passed_on_word_for_word(cage: Cage, arguments: list[str], argv: list[str]) -> None:
    assert run.main(arguments, False, cage) == 0
    assert cage.argv == argv


@pytest.mark.parametrize("arguments", [[], ["--"], ["--json"], ["--json", "--"], ["--", ""], [""]])
def test_no_command_is_an_error_of_usage(cage: Cage, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run.main(arguments, False, cage) == 125
    (line,) = lines(capsys)
    assert line.startswith("pysandbox: error: no command given")
    assert cage.argv == []


def test_an_unknown_flag_starts_nothing_and_suggests_one(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--memroy-mb=64", "--", "ls"], False, cage) == 125
    (line,) = lines(capsys)
    assert 'did you mean "--memory-mb"?' in line
    assert cage.argv == []


def test_an_abbreviated_flag_is_not_guessed(cage: Cage) -> None:
    assert run.main(["--memory-m", "64", "--", "ls"], False, cage) == 125


@pytest.mark.parametrize(
    "flags",
    [
        ["--egress", "some"],
        ["--memory-mb", "lots"],
        ["--memory-mb", "1"],
        ["--env", "=NO_NAME"],
        ["--allow", ""],
        ["--timeout", "0"],
        ["--timeout", "nan"],
        ["--json", "--pty"],
        ["-r", "no-such-recipe"],
        ["-r", "/absent/policy.toml"],
    ],
)
def test_a_wrong_value_starts_nothing_and_is_one_line(
    cage: Cage, capsys: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    assert run.main([*flags, "--", "ls"], False, cage) == 125
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("pysandbox: error: ")
    assert cage.argv == []


# ---- the policy ----------------------------------------------------------------------------------------------


def test_the_directory_at_hand_is_writable_and_the_user_stays_himself(cage: Cage) -> None:
    run.main(["--", "ls"], False, cage)
    assert (cage.policy.workdir, cage.policy.run_as, cage.caged) == ("write", "self", True)


def test_flags_reach_the_policy(cage: Cage) -> None:
    flags = [
        "--allow",
        "/a",
        "--allow",
        "/b",
        "--memory-mb",
        "64",
        "--env",
        "A=b=c",
        "-s",
        "--no-base",
        "--grace",
        "0.5",
    ]
    run.main([*flags, "--", "ls"], False, cage)
    policy = cage.policy
    assert policy.allow == (Grant("/a"), Grant("/b"))
    assert (policy.memory_mb, policy.env, policy.strict, policy.base) == (64, (("A", "b=c"),), True, False)
    assert policy.grace_sec == 0.5


def test_a_recipe_outranks_our_defaults_and_a_flag_outranks_the_recipe(cage: Cage, tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('[filesystem]\nworkdir = "none"\nallow = ["/a"]\n[process]\nrun_as = "nobody"\n')
    run.main(["-r", str(recipe), "--", "ls"], False, cage)
    assert (cage.policy.workdir, cage.policy.run_as) == ("none", "nobody")
    run.main(["-r", str(recipe), "--workdir", "read", "--allow", "/b", "--", "ls"], False, cage)
    assert (cage.policy.workdir, cage.policy.allow) == ("read", (Grant("/a"), Grant("/b")))


def test_a_flag_can_go_back_to_a_default_that_a_recipe_had_left(cage: Cage, tmp_path: Path) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text('[filesystem]\nworkdir = "cow"\n')
    run.main(["-r", str(recipe), "--workdir", "none", "--", "ls"], False, cage)
    assert cage.policy.workdir == "none"


def test_later_recipes_win(cage: Cage, tmp_path: Path) -> None:
    for name, size in (("a.toml", 32), ("b.toml", 64)):
        (tmp_path / name).write_text(f"[resources]\nmemory_mb = {size}\n")
    run.main(["-r", str(tmp_path / "a.toml"), "-r", str(tmp_path / "b.toml"), "--", "ls"], False, cage)
    assert cage.policy.memory_mb == 64


def test_no_sandbox_has_the_last_word_and_says_so(
    cage: Cage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text("caged = true\n")
    assert run.main(["-r", str(recipe), "--no-sandbox", "--", "ls"], False, cage) == 0
    assert cage.caged is False
    (line,) = lines(capsys)
    assert "NO CAGE" in line


def test_a_recipe_that_asks_for_no_cage_is_just_as_loud(
    cage: Cage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "r.toml"
    recipe.write_text("caged = false\n")
    run.main(["-r", str(recipe), "--", "ls"], False, cage)
    (line,) = lines(capsys)
    assert "NO CAGE" in line


def test_a_caged_run_says_nothing(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    run.main(["--", "ls"], False, cage)
    assert lines(capsys) == []


def test_verbose_away_from_a_terminal_speaks_json_lines(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    cage.on_spawn = lambda: cage.sink(Event("cage.note", {"key": "landlock", "reason": "no\nsuch thing"}))
    run.main(["-v", "--", "ls"], False, cage)
    (line,) = lines(capsys)
    assert json.loads(line) == {"event": "cage.note", "key": "landlock", "reason": "no\nsuch thing"}


def test_events_are_silent_unless_asked_for(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    cage.on_spawn = lambda: cage.sink(Event("cage.note", {"key": "landlock", "reason": "none"}))
    run.main(["--", "ls"], False, cage)
    assert lines(capsys) == []


def test_what_is_left_of_the_cage_is_collected_last(cage: Cage) -> None:
    run.main(["--", "ls"], False, cage)
    assert cage.drained_after == ["wait", "close"]


def test_what_is_left_of_a_cage_that_did_not_start_is_collected_too(cage: Cage) -> None:
    cage.raises = CageError("no")
    run.main(["--", "ls"], False, cage)
    assert cage.drained_after == []


# ---- the ending ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 42, 124, 137])
def test_the_exit_code_is_the_commands_own(cage: Cage, code: int) -> None:
    cage.result_fields = {"exit_code": code}
    assert run.main(["--", "ls"], False, cage) == code


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (StartError("exec", errno.ENOENT, "sl"), 127, "'sl' was not found in the cage"),
        (StartError("exec", errno.ENOTDIR, "sl"), 127, "'sl' was not found in the cage"),
        (StartError("exec", errno.EACCES, "sl"), 126, "'sl' cannot be executed in the cage (EACCES"),
        (StartError("exec", errno.ENOEXEC, "sl"), 126, "'sl' cannot be executed in the cage (ENOEXEC"),
        (StartError("chdir", errno.ENOENT, "/x"), 125, "chdir: ENOENT"),
        (StartError("uid_map", errno.EPERM), 125, "uid_map: EPERM"),
        (UnsupportedError("no user namespaces", feature="user_namespaces", fix="as root: x"), 125, "as root: x"),
        (CageError("something else"), 125, "something else"),
        (OSError(errno.EMFILE, "Too many open files"), 125, "Too many open files"),
    ],
)
def test_a_failure_to_start_is_one_line_and_its_own_exit_code(
    cage: Cage, capsys: pytest.CaptureFixture[str], error: Exception, code: int, words: str
) -> None:
    cage.raises = error
    assert run.main(["--", "sl"], False, cage) == code
    (line,) = lines(capsys)
    assert line.startswith("pysandbox: error: ")
    assert words in line


def test_an_error_message_cannot_draw_on_the_terminal(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    cage.raises = CageError("a\x1b[2Jb\nc")
    run.main(["--", "ls"], False, cage)
    assert lines(capsys) == ["pysandbox: error: a\\x1b[2Jb\\nc"]


def test_our_own_bug_is_exit_code_125_and_not_the_commands(cage: Cage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perform, "_run", lambda *_: 1 / 0)
    assert pysandbox_main(["run", "--", "ls"]) == 125


# ---- signals and the clock -----------------------------------------------------------------------------------


def kill_us(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_us_ends_the_command_and_is_our_exit_code(cage: Cage, number: int) -> None:
    cage.ended, cage.on_spawn = False, lambda: kill_us(number)
    assert run.main(["--", "ls"], False, cage) == 128 + number
    assert cage.process.calls == [signal.Signals(number).name, "wait", "close"]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGINT])
def test_a_signal_that_asks_for_no_end_is_passed_on_and_no_more(cage: Cage, number: int) -> None:
    cage.ended, cage.obeys = False, False
    cage.on_spawn = lambda: kill_us(number)
    assert run.main(["--timeout", "0.05", "--grace", "0", "--", "ls"], False, cage) == 124
    assert cage.process.calls == [signal.Signals(number).name, "SIGTERM", "kill", "wait", "close"]


def test_three_interrupts_in_a_second_are_meant(cage: Cage) -> None:
    cage.ended, cage.obeys = False, False
    read: list[int] = []

    def interrupt() -> None:
        kill_us(signal.SIGINT)
        read.append(1)

    cage.on_spawn = lambda: [interrupt() for _ in range(3)] and None
    assert run.main(["--grace", "3600", "--", "ls"], False, cage) == 130
    assert cage.process.calls[-3:] == ["kill", "wait", "close"]


def test_a_command_that_ignores_sigterm_is_killed_after_its_grace(cage: Cage) -> None:
    cage.ended, cage.obeys, cage.on_spawn = False, False, lambda: kill_us(signal.SIGTERM)
    assert run.main(["--grace", "0", "--", "ls"], False, cage) == 143
    assert cage.process.calls == ["SIGTERM", "kill", "wait", "close"]


def test_a_second_signal_does_not_wait_for_the_grace(cage: Cage) -> None:
    cage.ended, cage.obeys = False, False
    cage.on_spawn = lambda: kill_us(signal.SIGTERM, signal.SIGINT)
    assert run.main(["--grace", "3600", "--", "ls"], False, cage) == 143
    assert cage.process.calls == ["SIGTERM", "kill", "wait", "close"]


def test_the_handlers_of_the_caller_come_back(cage: Cage) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)]
    run.main(["--", "ls"], False, cage)
    after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)]
    assert after == before
    assert signal.set_wakeup_fd(-1) == -1


def test_an_ignored_signal_stays_ignored(cage: Cage) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        cage.on_spawn = lambda: kill_us(signal.SIGHUP)
        assert run.main(["--", "ls"], False, cage) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert cage.process.calls == ["wait", "close"]


def test_out_of_time_is_124_and_sigterm_first(cage: Cage) -> None:
    cage.ended = False
    assert run.main(["--timeout", "0.001", "--", "ls"], False, cage) == 124
    assert cage.process.calls == ["SIGTERM", "wait", "close"]


# ---- --json --------------------------------------------------------------------------------------------------


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out)
    return loaded


def test_json_is_one_document_that_holds_the_output(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    cage.output, cage.result_fields = (b"out\n", b"err\xff"), {"exit_code": 3}
    assert run.main(["--json", "--", "ls"], False, cage) == 3
    seen = document(capsys)
    assert (seen["stdout"], seen["stderr"], seen["exit_code"], seen["ok"]) == ("out\n", "err\ufffd", 3, False)
    assert seen["truncated"] is False


def test_json_keeps_no_more_than_the_policy_says(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    cage.output = (b"x", b"")
    run.main(["--json", "--output-mb", "0", "--", "ls"], False, cage)
    seen = document(capsys)
    assert (seen["stdout"], seen["truncated"]) == ("", True)


def test_json_tells_of_a_command_that_we_ended(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    cage.ended = False
    assert run.main(["--json", "--timeout", "0.001", "--", "ls"], False, cage) == 124
    assert (seen := document(capsys))["reason"] == "timeout"
    assert seen["exit_code"] == 124
    cage.on_spawn = lambda: kill_us(signal.SIGTERM)
    assert run.main(["--json", "--", "ls"], False, cage) == 143
    assert document(capsys)["reason"] == "cancelled"


def test_json_tells_of_a_failure_to_start(cage: Cage, capsys: pytest.CaptureFixture[str]) -> None:
    cage.raises = StartError("exec", errno.ENOENT, "sl")
    assert run.main(["--json", "--", "sl"], False, cage) == 127
    seen = document(capsys)
    assert (seen["exit_code"], seen["reason"], seen["argv"]) == (127, "error", ["sl"])


def test_without_json_the_streams_are_inherited(cage: Cage) -> None:
    run.main(["--", "ls"], False, cage)
    assert cage.options == {"stdin": 0}


def test_with_json_only_the_output_is_ours(cage: Cage) -> None:
    run.main(["--json", "--", "ls"], False, cage)
    assert cage.options == {"stdin": 0, "stdout": -1, "stderr": -1}


# ---- the pty -------------------------------------------------------------------------------------------------


def test_a_pty_is_given_only_where_all_three_streams_are_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace, _ = run.read_arguments(["ls"])
    for terminals, wanted in (({0, 1, 2}, True), ({0, 1}, False), ({1, 2}, False), (set(), False)):
        monkeypatch.setattr(os, "isatty", lambda fd, there=terminals: fd in there)
        assert run.wants_pty(namespace) is wanted


def test_flags_decide_on_the_pty_before_the_terminal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal in (True, False):
        monkeypatch.setattr(os, "isatty", lambda fd, there=terminal: there)
        assert run.wants_pty(run.read_arguments(["--pty", "ls"])[0]) is True
        assert run.wants_pty(run.read_arguments(["--no-pty", "ls"])[0]) is False
        assert run.wants_pty(run.read_arguments(["--json", "ls"])[0]) is False


def test_a_command_with_a_pty_is_told_which_terminal_it_has() -> None:
    extra = {"env_passthrough": ("LANG",)}
    assert set(policy_of([], command=["ls"], extra=extra, pty=True).policy.env_passthrough) == {"TERM", "LANG"}
    assert policy_of([], command=["ls"], extra=extra).policy.env_passthrough == ("LANG",)
