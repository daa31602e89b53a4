"""Claim: nothing runs of an exec that a callback has allowed but what it was asked about: by the same name, with the
same arguments, of the same file, and for a script by the same interpreter. Whoever puts something else in its place
between the last look and the kernel's own is killed before the first instruction, and that is on record.

That moment is too short to be met by chance alone. So the host itself changes something in it: the file, as an attack;
and each part of what the kernel is held against, one at a time, so that no other part hides that it is looked at.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pysandbox import Cage
from pysandbox.handlers.shebang import Image
from pysandbox.supervise import wire
from pysandbox.supervise.context import Context
from pysandbox.supervise.policy_fn import CallEvent

from .conftest import Ground
from .harness import policy

CHANGED = "changed while it was decided"
PARTS: dict[str, Callable[[Image], Image]] = {
    "name": lambda image: image._replace(name=image.name.replace(b"tool", b"loot")),
    "arguments": lambda image: image._replace(arguments=image.arguments.replace(b"ran", b"run"), script=b""),
    "fewer arguments": lambda image: image._replace(arguments=image.arguments[:-4], script=b""),
    "more arguments": lambda image: image._replace(arguments=image.arguments + b"more\0", script=b""),
    "device": lambda image: image._replace(program_device=image.program_device + 1, device=image.device + 1),
    "inode": lambda image: image._replace(program_inode=image.program_inode + 1, inode=image.inode + 1),
}
OF_A_SCRIPT: dict[str, Callable[[Image], Image]] = {
    "arguments": lambda image: image._replace(script=image.script.replace(b"ran", b"run")),
    "device": lambda image: image._replace(device=image.device + 1),
    "inode": lambda image: image._replace(inode=image.inode + 1),
    "no script": lambda image: image._replace(script=b""),
}


def allow_all(event: CallEvent, context: Context) -> None:
    """Has no objection."""


@pytest.fixture
def tool(ground: Ground) -> Path:
    """A program that says its arguments; `other`, beside it, makes a file of that name."""
    shutil.copy("/bin/echo", ground.inside / "tool")
    shutil.copy("/usr/bin/touch", ground.inside / "other")
    return ground.inside / "tool"


@pytest.fixture
def script(ground: Ground) -> Path:
    (ground.inside / "tool").write_text('#!/bin/sh\necho "$1"\n')
    (ground.inside / "tool").chmod(0o755)
    return ground.inside / "tool"


def ran(tool: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Image], Image]) -> tuple[str, list[str]]:
    """What it said, and by which rules something of it was refused; `change` comes after the last look."""
    execute = wire.execute

    def change_first(notifier: Any, pending: int, expected: bytes, image: Image, record: Any) -> None:
        execute(notifier, pending, expected, change(image) if image.name.endswith(b"/tool") else image, record)

    monkeypatch.setattr(wire, "execute", change_first)
    with Cage(policy(allow_write=[str(tool.parent)]), policy_fn=allow_all, watch=("exec",), cwd=tool.parent) as cage:
        result = cage.run(["/bin/sh", "-c", '"$0" ran; exit 0', str(tool)], timeout=60)
        return str(result.stdout), [each.rule for each in cage.denials]


def test_control_what_was_judged_runs(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(tool, monkeypatch, lambda image: image) == ("ran\n", [])


def test_control_a_script_that_was_judged_runs(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(script, monkeypatch, lambda image: image) == ("ran\n", [])


@pytest.mark.parametrize("how", ["replaced", "linked"])
def test_attack_a_file_that_is_put_in_its_place_never_runs(
    tool: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    tool.with_name("link").symlink_to("other")

    def swap(image: Image) -> Image:
        os.replace(tool.with_name("link" if how == "linked" else "other"), tool)
        return image

    assert ran(tool, monkeypatch, swap) == ("", [CHANGED])
    assert not tool.with_name("ran").exists()
    subprocess.run([tool, "ran"], cwd=tool.parent, check=True, timeout=60)
    assert tool.with_name("ran").exists(), "the control: it was there to be run"


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_held_against_what_the_kernel_has(tool: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    assert ran(tool, monkeypatch, PARTS[part]) == ("", [CHANGED])


@pytest.mark.parametrize("part", OF_A_SCRIPT)
def test_each_part_of_a_script_is_held_against_what_the_kernel_has(
    script: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    assert ran(script, monkeypatch, OF_A_SCRIPT[part]) == ("", [CHANGED])
