"""Claim: nothing that a stranger wrote reaches the terminal as more than visible text, by whatever command it is shown.

A manifest, a recipe and a command line full of escape sequences, carriage returns, bidirectional marks and letters that
show nothing go through every command that prints them. The output is searched for the characters themselves.
"""

from __future__ import annotations

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from .conftest import Ground

# What a terminal acts on, what turns text around, what is not seen: each between two letters that are.
HOSTILE = (
    "A\x1b[2JB\x1b]0;title\x07C\rD\x08E\x9b31mF\x7fG\u202eH\u2066I\u200bJ\u200dK\ufeffL\u2028M\u00adN\u3164O\U000e0041P"
)
TOML = "".join(f"\\U{ord(letter):08x}" if not letter.isalnum() or ord(letter) > 127 else letter for letter in HOSTILE)
ALLOWED = {"\n"}

MANIFEST = f"""
[sandbox."{TOML}"]
description = "{TOML}"
recipes = ["./{TOML}.toml"]
command = ["true", "{TOML}"]
[sandbox."{TOML}".filesystem]
allow = [{{ path = "/opt/{TOML}", optional = true }}]
[sandbox."{TOML}".process]
env = {{ X = "{TOML}" }}
[[sandbox."{TOML}".host]]
domain = "a.example"
paths = ["/{TOML}"]
"""
RECIPE = f"""
[recipe]
name = "{TOML}"
description = "{TOML}"
version = "{TOML}"
match_prefix = ["/opt/{TOML}"]
[filesystem]
allow = [{{ path = "/opt/{TOML}", optional = true }}]
deny = [{{ path = "/opt/{TOML}/x", optional = true }}]
[process]
env = {{ Y = "{TOML}" }}
"""
WRONG = (
    f'["{TOML}"]\nx = 1\n', f'"{TOML}" = 1\n', f'[process]\n"{TOML}" = 1\n', f'[process]\nrun_as = "{TOML}"\n',
    f'[syscalls]\nallow_extra = ["{TOML}"]\n', f'[filesystem]\nallow = ["${TOML}"]\n', f'[[host]]\ndomain = "{TOML}"\n',
    f'[network]\nports = ["{TOML}"]\n', f'[network]\nallow_ips = ["{TOML}"]\n', f"{HOSTILE}\n",
    f'[process]\nallow_execve = ["/{TOML}"]\n',
)  # fmt: skip
COMMANDS = (
    ["up"], ["up", HOSTILE], ["up", "--dry-run"], ["up", "--dry-run", "--json"], ["up", "--trust"], ["up", "nosuch"],
    ["up", "--trust", "-v"], ["up", "--json", "--trust"],
    ["recipe", "trust", "pysandbox.toml"], ["recipe", "trust", "--yes", "pysandbox.toml"],
    ["recipe", "trust", "--yes", ".pysandbox/ours.toml"],
    ["recipe", "trust", "--json", "--yes", ".pysandbox/ours.toml"],
    ["recipe", "list"], ["recipe", "list", "--json"], ["recipe", "explain", "ours"], ["recipe", "explain", HOSTILE],
    ["recipe", "show", "-r", "ours"], ["recipe", "show", "-r", "./" + HOSTILE + ".toml"],
    ["recipe", "suggest", HOSTILE], ["recipe", HOSTILE], ["recipe", "show", "-r", HOSTILE],
    ["run", "-r", "ours", "--", "true", HOSTILE], ["run", "-r", "./" + HOSTILE + ".toml", "--", "true"],
    ["run", "--", HOSTILE], ["run", HOSTILE], ["run", "--" + HOSTILE], ["run", "-v", "--", "true", HOSTILE],
    ["run", "-v", "--allow", HOSTILE, "--", "true"], ["run", "--json", "--", HOSTILE],
    ["run", "--host", HOSTILE, "--", "true"], ["run", "--monitor", "--", "true", HOSTILE],
    ["run", "--allow-execve", f"/{HOSTILE}", "--", "true"], ["run", "--no-sandbox", "--", "true", HOSTILE],
    ["explain", "-r", "ours"], ["explain", "-r", "ours", "--json"], ["explain", HOSTILE], ["explain", "--last"],
    ["explain", "--last", "--json"], ["audit", "list"], ["audit", "list", "--json"], ["audit", "show", "--last"],
    ["audit", "show", HOSTILE], ["audit", "verify"], ["audit", "verify", "--path", HOSTILE], ["ps"], ["orphans"],
    ["kill", HOSTILE], ["logs", HOSTILE], ["top"], [HOSTILE], ["help", HOSTILE], ["init", "--repo", HOSTILE],
    ["check", HOSTILE],
)  # fmt: skip


def betrayed(output: bytes) -> list[str]:
    """The characters of an output that are no visible text."""
    text = output.decode("utf-8", "surrogateescape")
    unseen = {"\u3164"}
    return sorted({
        f"U+{ord(letter):04X}"
        for letter in text
        if letter not in ALLOWED and (unicodedata.category(letter)[0] == "C" or letter in unseen | {"\u2028", "\u2029"})
    })  # fmt: skip


@pytest.fixture
def project(ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("PYSANDBOX_AUDIT", raising=False)
    (tmp_path / "home").mkdir()
    recipes = ground.inside / ".pysandbox"
    recipes.mkdir()
    (recipes / "ours.toml").write_text(RECIPE)
    (recipes / f"{HOSTILE}.toml").write_text(RECIPE)
    (ground.inside / f"{HOSTILE}.toml").write_text(RECIPE)
    (ground.inside / "pysandbox.toml").write_text(MANIFEST)
    return ground.inside


def call(project: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "pysandbox", *arguments], cwd=project, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=60,
    )  # fmt: skip


def test_by_every_command(project: Path) -> None:
    assert betrayed(HOSTILE.encode())  # CONTROL: the search finds them
    wrong = {}
    for arguments in COMMANDS:
        done = call(project, *arguments)
        if found := betrayed(done.stdout + done.stderr):
            wrong[" ".join(arguments).encode("unicode_escape").decode()] = found
        assert b"internal error" not in done.stderr, (arguments, done.stderr)
        assert b"Traceback" not in done.stderr, (arguments, done.stderr)
    assert wrong == {}


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_by_every_error(project: Path, number: int) -> None:
    (project / ".pysandbox" / "wrong.toml").write_text(WRONG[number])
    (project / "pysandbox.toml").write_text(f'[sandbox.a]\nrecipes = ["wrong"]\ncommand = "true"\n{WRONG[number]}')
    for arguments in (["run", "-r", "wrong", "--", "true"], ["up", "--trust"], ["recipe", "list"], ["recipe", "show",
                      "-r", "wrong"], ["recipe", "trust", "--yes", ".pysandbox/wrong.toml"]):  # fmt: skip
        done = call(project, *arguments)
        assert betrayed(done.stdout + done.stderr) == [], arguments
        assert b"internal error" not in done.stderr and b"Traceback" not in done.stderr, done.stderr


def test_what_is_shown_as_toml_still_reads_back(project: Path) -> None:
    from pysandbox.policy.model import Policy

    policy = Policy(env={"X": HOSTILE}, allow=[f"/opt/{HOSTILE.replace('$', '')}"])
    assert betrayed(policy.to_toml().encode()) in ([], ["U+3164"])
    assert Policy.parse(policy.to_toml()) == policy
