"""probe/accounts.py: a user whom no file knows has a name in the cage, and the host's files are shown to all others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

import pysandbox
from pysandbox import Policy, Result
from pysandbox.probe import accounts, paths

UID, GID = os.getuid(), os.getgid()


def run(argv: list[str], policy: Policy) -> Result:
    """Runs under a policy that was never compiled before: plans are kept, and the files were looked at then."""
    return pysandbox.run(argv, replace(policy, env={"FRESH": uuid4().hex}))


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host whose files know root alone; a directory service knows the caller."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:")
    monkeypatch.setattr(accounts, "_user_of", lambda uid: f"ann:x:{uid}:{GID}:Ann:/home/ann:/bin/sh")
    monkeypatch.setattr(accounts, "_group_of", lambda gid: f"staff:x:{gid}:")
    return tmp_path


def test_what_the_files_lack_is_added(etc: Path) -> None:
    made = accounts.own_accounts(str(etc))
    assert made["/etc/passwd"] == f"root:x:0:0::/root:/bin/sh\nann:x:{UID}:{GID}:Ann:/home/ann:/bin/sh\n"
    assert made["/etc/group"] == f"root:x:0:\nstaff:x:{GID}:\n"


def test_whom_the_files_know_is_not_added(etc: Path) -> None:
    (etc / "etc/passwd").write_text(f"bob:x:{UID}:0::/:\n")
    (etc / "etc/group").write_text(f"crew:x:{GID}:\n")
    assert accounts.own_accounts(str(etc)) == {}


def test_without_a_file_there_is_the_one_line(etc: Path) -> None:
    (etc / "etc/group").unlink()
    assert accounts.own_accounts(str(etc))["/etc/group"] == f"staff:x:{GID}:\n"


@pytest.mark.parametrize("name", ["a:b", "a\nroot2", "\x1b[0m"])
def test_a_name_that_no_line_can_hold_is_left_out(name: str) -> None:
    assert accounts._line((name, "x", 1, 1)) == ""


def test_the_cage_knows_its_user_by_name(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "own_accounts", lambda: accounts.own_accounts(str(etc)))
    for policy in (Policy(run_as="self"), Policy(run_as="self", hosts=["a.example"])):
        assert run(["id", "-un"], policy).stdout == "ann\n"
        assert run(["id", "-gn"], policy).stdout == "staff\n"
    assert run(["id", "-un"], Policy()).stdout != "ann\n"  # nobody, as the host's own file has it


def test_a_mask_of_the_user_s_own_wins(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "own_accounts", lambda: accounts.own_accounts(str(etc)))
    assert run(["cat", "/etc/passwd"], Policy(run_as="self", mask=["/etc/passwd"])).stdout == ""
    assert run(["cat", "/etc/passwd"], Policy(run_as="self", deny=["/etc/passwd"])).exit_code == 1
