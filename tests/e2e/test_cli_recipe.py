"""`pysandbox recipe` as users have it: list, show, explain, suggest, trust; text for people, JSON for programs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODULE = [sys.executable, "-m", "pysandbox"]
LIMIT = 60  # seconds after which a test is stuck
WIDE = '[filesystem]\nallow = ["/srv"]\n'

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def call(project: Path, tmp_path: Path) -> Call:
    """Runs `pysandbox` with these arguments in an empty project, for a user with an empty home."""
    (tmp_path / "home").mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    env["HOME"] = str(tmp_path / "home")

    def call(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        settings: dict[str, Any] = {"cwd": project, "env": env, "stdin": subprocess.DEVNULL, "timeout": LIMIT}
        return subprocess.run([*MODULE, *arguments], capture_output=True, text=True, **settings | options)

    return call


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def mine(project: Path, name: str, text: str) -> Path:
    path = project / ".pysandbox" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# ---- list --------------------------------------------------------------------------------------------------------


def test_list_names_every_recipe_its_calls_the_search_path_and_the_baseline(call: Call, project: Path) -> None:
    text = call("recipe", "list").stdout
    assert "+ptrace +memfd_create" in text
    assert "Services" in text and "Tools" in text
    assert f"{project}/.pysandbox" in text
    listed = document(call("recipe", "list", "--json"))
    names = [row["name"] for row in listed["recipes"]]
    assert {"base", "python", "service:github", "tool:gh"} <= set(names)
    baseline = listed["baseline"]
    assert f"Baseline: {baseline['allowed']} allowed, {baseline['denied']} denied" in text
    assert (baseline["denied"], baseline["source"]) == (18, "shipped profile baseline")


def test_list_shows_a_baseline_of_the_users_with_its_exact_counts(call: Call, tmp_path: Path) -> None:
    recipes = tmp_path / "home" / ".config" / "pysandbox" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "default.toml").write_text('[syscalls]\nallow = ["read", "write"]\ndeny = ["acct"]\n')
    (recipes / "odd.toml").write_text('[recipe]\ndescription = "red \\u001b[31m"\n[syscalls]\ndeny_extra = ["bpf"]\n')
    done = call("recipe", "list")
    assert f"Baseline: 2 allowed, 1 denied system calls ({recipes}/default.toml)" in done.stdout
    assert "-bpf" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_printed_baseline_is_a_baseline(call: Call, tmp_path: Path) -> None:
    printed = call("recipe", "show", "--baseline")
    lists = tomllib.loads(printed.stdout)["syscalls"]
    before = document(call("recipe", "list", "--json"))["baseline"]
    assert (len(lists["allow"]), len(lists["deny"])) == (before["allowed"], before["denied"])
    recipes = tmp_path / "home" / ".config" / "pysandbox" / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "default.toml").write_text(printed.stdout)
    after = document(call("recipe", "list", "--json"))["baseline"]
    assert after == {**before, "source": f"{recipes}/default.toml"}
    assert call("run", "--", "/usr/bin/python3", "-c", "print(1)").stdout == "1\n"


# ---- show --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "recipes", [[], ["python"], ["elixir"], ["node", "service:npm", "generic-strict"], ["example"]]
)
def test_what_show_prints_is_a_recipe_for_the_same_policy(call: Call, project: Path, recipes: list[str]) -> None:
    flags = [word for name in recipes for word in ("-r", name)]
    shown = call("recipe", "show", *flags)
    parsed = tomllib.loads(shown.stdout)
    assert "strict" in parsed and "egress" in parsed["network"] and "seccomp_mode" in parsed["syscalls"]
    (project / "saved.toml").write_text(shown.stdout)
    again = document(call("recipe", "show", "-r", "saved.toml", "--json"))
    assert again["digest"] == document(call("recipe", "show", *flags, "--json"))["digest"]


def test_show_takes_names_as_the_other_actions_do(call: Call) -> None:
    """What came first was a command, and the base alone was shown, whatever was named."""
    named = document(call("recipe", "show", "untrusted", "python", "--json"))
    assert named["digest"] == document(call("recipe", "show", "-r", "untrusted", "-r", "python", "--json"))["digest"]
    assert [each["name"] for each in named["layers"]] == ["base", "untrusted", "python"]


def test_show_includes_what_a_command_calls_for_and_never_executes_it(call: Call, tmp_path: Path) -> None:
    program = tmp_path / "home" / ".cargo" / "bin" / "tool"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/executed\n")
    program.chmod(0o755)
    layers = document(call("recipe", "show", "-r", "python", "--json", "--", str(program), "--json"))["layers"]
    assert [(each["name"], each["why"]) for each in layers] == [
        ("base", "base"), ("cargo", "detected"), ("python", "asked"),
    ]  # fmt: skip
    assert not (tmp_path / "executed").exists()


# ---- explain and suggest -----------------------------------------------------------------------------------------


def test_explain_says_what_a_recipe_does(call: Call, project: Path) -> None:
    text = call("recipe", "explain", "opencode").stdout
    for line in ("Read-only:", "~/.config/opencode (if it exists)", "Writable:", "Denied:", "~/.ssh (if it exists)",
                 "api.anthropic.com", "HOME (set)", "CARGO_HOME (unset)", "max_pids: 256"):  # fmt: skip
        assert line in text, line
    assert "below:" in call("recipe", "explain", "cargo").stdout
    assert document(call("recipe", "explain", "--json", "cargo"))["match_prefix"][0].endswith("/home/.cargo")


def test_suggest_proposes_by_name_and_by_place(call: Call, tmp_path: Path) -> None:
    assert "-r python" in call("recipe", "suggest", "python3.11").stdout
    assert "-r node-build" in call("recipe", "suggest", "--", "npm", "install", "--global").stdout
    assert call("recipe", "suggest", "zork").stdout == "No matching recipes for 'zork'\n"
    program = tmp_path / "home" / ".cargo" / "bin" / "zork"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    assert "used without being asked for" in call("recipe", "suggest", str(program)).stdout
    assert document(call("recipe", "suggest", "--json", "zork"))["recipes"] == []


# ---- trust -------------------------------------------------------------------------------------------------------


def test_trust_shows_the_difference_and_asks(call: Call, project: Path) -> None:
    path = mine(project, "ours.toml", WIDE)
    refused = call("run", "-r", "ours", "--", "true")
    assert refused.returncode == 125
    assert f"pysandbox recipe trust {path}" in refused.stderr
    silent = call("recipe", "trust", str(path))
    assert silent.returncode == 125
    assert "--yes" in silent.stderr
    assert '+    "/srv",' in silent.stdout
    assert "grants more in: filesystem.allow" in silent.stdout
    assert call("run", "-r", "ours", "--", "true").returncode == 125
    assert call("recipe", "trust", "--yes", str(path)).returncode == 0
    assert call("run", "-r", "ours", "--", "true").returncode == 0
    assert document(call("recipe", "trust", "--revoke", "--json", str(path)))["trusted"] is False
    assert call("run", "-r", "ours", "--", "true").returncode == 125


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 125), (b"\n", 125)])
def test_at_a_terminal_the_answer_counts(call: Call, project: Path, answer: bytes, code: int) -> None:
    path = mine(project, "ours.toml", WIDE)
    master, slave = pty.openpty()
    try:
        os.write(master, answer)
        done = call("recipe", "trust", str(path), stdin=slave)
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == code
    assert "[y/N]" in done.stderr


# ---- what is wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["recipe", "lst"], 'did you mean "list"?'),
        (["recipe", "list", "--jsn"], 'did you mean "--json"?'),
        (["recipe", "explain", "pythn"], 'did you mean "python"?'),
        (["recipe", "show", "pythn"], 'did you mean "python"?'),
        (["recipe", "suggest"], "no command given"),
        (["recipe", "show", "-r", "./absent.toml"], "cannot be read"),
        (["recipe", "trust", "absent.toml"], "cannot be read"),
        (["run", "-r", "broken", "--", "touch", "ran"], "broken.toml:2: filesystem.alow: no such key"),
        (["run", "-r", "unset", "--", "touch", "ran"], "NO_SUCH_VARIABLE"),
        (["run", "-r", "types", "--", "touch", "ran"], "types.toml:2: process.max_pids: must be a whole number"),
        (["run", "-r", "folder", "--", "touch", "ran"], "is a directory, not a file"),
    ],
)
def test_bad_input_is_one_line_exit_125_and_nothing_runs(
    call: Call, project: Path, arguments: list[str], words: str
) -> None:
    mine(project, "broken.toml", "[filesystem]\nalow = []")
    mine(project, "types.toml", '[process]\nmax_pids = "many"')
    mine(project, "unset.toml", '[filesystem]\ndeny = ["$NO_SUCH_VARIABLE/x"]')
    (project / ".pysandbox" / "folder.toml").mkdir()
    done = call(*arguments)
    assert done.returncode == 125
    (line,) = done.stderr.splitlines()
    assert words in line
    assert not (project / "ran").exists()


def test_hosts_that_are_not_held_yet_are_left_out_and_named_each_time(call: Call) -> None:
    for _ in range(2):  # the second time the plan is a kept one
        started = call("run", "-r", "service:aws", "--", "true")
        assert started.returncode == 0
        (line,) = started.stderr.splitlines()
        assert "not held yet" in line and "--host NAME opens one name of it" in line
        unscanned = call("run", "-r", "service:npm", "--allow-ip", "192.0.2.7", "--", "true")
        assert "not held beside network.allow_ips" in unscanned.stderr and unscanned.returncode == 0
    assert call("run", "-r", "service:npm", "--", "true").stderr == ""


def test_the_same_scan_in_a_file_of_one_s_own_is_refused_by_name(call: Call, project: Path) -> None:
    own = '[[host]]\ndomain = "registry.npmjs.org"\nallow_credentials = ["npm_token"]\n'
    (project / "own.toml").write_text(own)
    refused = call("run", "-r", "own.toml", "-r", "service:pypi", "--", "true")
    assert refused.returncode == 125
    assert "host.allow_credentials" in refused.stderr and "leave it out" in refused.stderr


def test_a_recipe_that_closes_the_network_beside_one_that_names_hosts_says_so(call: Call, project: Path) -> None:
    team = "team.toml"
    (project / team).write_text('[[host]]\ndomain = "a.example"\n')
    told = call("run", "-r", team, "-r", "pytest", "--", "true")
    assert told.returncode == 0
    (line,) = told.stderr.splitlines()
    assert "no way out" in line and "--egress proxy-only opens one" in line
    assert call("run", "-r", team, "-r", "pytest", "--egress", "proxy-only", "--", "true").stderr == ""
    strict = call("run", "-r", team, "-r", "untrusted", "--", "true")
    assert strict.returncode == 0 and "--egress proxy-only opens one" in strict.stderr
    opened = call("run", "-r", team, "-r", "untrusted", "--egress", "proxy-only", "--", "true")
    assert opened.returncode == 0 and "no way out" not in opened.stderr
    (project / team).write_text('[network]\nallow_ips = ["192.0.2.7"]\n')  # nothing scans what is sent to addresses
    closed = call("run", "-r", team, "-r", "untrusted", "--", "true")
    assert closed.returncode == 0 and "proxy-only" not in closed.stderr


# ---- check and diff ----------------------------------------------------------------------------------------------


def test_check_says_what_cannot_be_carried_out_and_where(call: Call, project: Path) -> None:
    good = mine(project, "good.toml", WIDE)
    bad = mine(project, "bad.toml", "[filesystem]\nalow = []\n")
    absent = mine(project, "absent.toml", '[[host]]\ndomain = "a.example"\nallow_credentials = ["npm_token"]\n')
    assert (call("recipe", "check", "python", str(good)).stdout, 0) == (f"python: ok\n{good}: ok\n", 0)
    done = call("recipe", "check", str(good), str(bad), str(absent))
    assert done.returncode == 1
    assert f"{good}: ok" in done.stdout
    assert f"{bad}:2: filesystem.alow: no such key" in done.stdout
    assert "host.allow_credentials" in done.stdout and str(absent) in done.stdout
    runs = call("recipe", "check", "service:aws", "claude-code")
    assert runs.returncode == 0 and runs.stdout.count(": ok; not held yet: ") == 1
    assert "claude-code: ok\n" in runs.stdout
    checked = json.loads(call("recipe", "check", "--json", str(bad)).stdout)["checked"]
    assert len(checked[str(bad)]) == 1


def test_check_reads_a_manifest_without_running_or_trusting_it(call: Call, project: Path) -> None:
    path = project / "pysandbox.toml"
    path.write_text('[sandbox.a]\nrecipes = ["python"]\ncommand = ["touch", "made"]\n')
    done = call("recipe", "check", str(path))
    assert (done.returncode, done.stdout) == (0, f"{path}: ok\n")
    path.write_text('[sandbox.a]\nrecipes = ["none-such"]\ncommand = ["touch", "made"]\n')
    done = call("recipe", "check", str(path))
    assert done.returncode == 1 and "none-such" in done.stdout
    assert not (project / "made").exists()


def test_diff_says_what_the_other_grants(call: Call, project: Path) -> None:
    one, other = mine(project, "one.toml", WIDE), mine(project, "other.toml", "strict = true\n")
    done = call("recipe", "diff", str(other), str(one))
    assert done.returncode == 1
    assert '+    "/srv",' in done.stdout and "grants more in: " in done.stdout and "grants less in: " not in done.stdout
    assert call("recipe", "diff", str(one), str(one)).stdout == ""
    back = json.loads(call("recipe", "diff", "--json", str(one), str(other)).stdout)
    assert "filesystem.allow" in back["grants_less"] and back["grants_more"] == []
