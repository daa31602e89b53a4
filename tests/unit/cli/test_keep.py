"""What of a command line and of its surroundings decides that a plan is kept, and that a kept one still holds."""

from __future__ import annotations

import os
import site
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.cli import keep
from pysandbox.cli.keep import IN_THE_PLAN, is_all_in_the_plan, may_be_kept, split, stamp
from pysandbox.compile.environ import OWN
from pysandbox.launch import native
from pysandbox.policy.model import Policy, options


@pytest.mark.parametrize(
    ("arguments", "flags", "argv"),
    [
        ([], [], []),
        (["ls", "-l"], [], ["ls", "-l"]),
        (["ls", "--", "x"], [], ["ls", "--", "x"]),
        (["-r", "x", "--", "ls", "-l"], ["-r", "x"], ["ls", "-l"]),
        (["--", "ls", "--", "x"], [], ["ls", "--", "x"]),
        (["-r", "x", "ls"], ["-r", "x", "ls"], []),
        (["-r", "x", "--"], ["-r", "x"], []),
    ],
)
def test_flags_end_where_the_launcher_says_they_end(arguments: list[str], flags: list[str], argv: list[str]) -> None:
    assert split(arguments) == (flags, argv)


@pytest.mark.parametrize(
    ("arguments", "command", "kept"),
    [
        (["--strict", "--", "ls"], None, True),
        (["ls", "-l"], "ls", True),
        (["--strict", "ls", "--", "x"], "ls", False),  # the launcher would take x for the command
        (["--strict", "ls"], "ls", False),
        ([], None, False),
    ],
)
def test_a_plan_is_kept_where_its_command_line_finds_it(arguments: list[str], command: str | None, kept: bool) -> None:
    assert may_be_kept(Namespace(command=command, strict=None), arguments) is kept


def test_each_option_is_of_a_plan_alone_or_keeps_it_from_being_kept() -> None:
    """By the declarations: a value of an option that has an effect elsewhere is Python's to see to."""
    assert is_all_in_the_plan(Policy())
    for field, described in options():
        policy: Any = SimpleNamespace(caged=True, explicit={field.name: object()}, env_passthrough=())
        assert is_all_in_the_plan(policy) is described.in_plan, field.name
    both: Any = SimpleNamespace(caged=True, explicit=dict.fromkeys(("hosts", "allow", "secrets")), env_passthrough=())
    assert "allow" in IN_THE_PLAN and not is_all_in_the_plan(both)
    uncaged: Any = SimpleNamespace(caged=False, explicit={}, env_passthrough=())
    assert not is_all_in_the_plan(uncaged)


@pytest.mark.parametrize("name", sorted(OWN))
def test_a_variable_that_python_works_out_is_not_passed_through_by_a_launcher(name: str) -> None:
    assert is_all_in_the_plan(Policy(env_passthrough=("LANG",)))
    assert not is_all_in_the_plan(Policy(env_passthrough=("LANG", name)))


@pytest.mark.parametrize(
    ("flags", "typed", "found"),
    [
        ([], [], {}),
        (["--env", "A=1"], [("A", "1")], {"A": (1, 0)}),
        (["--env=A=1"], [("A", "1")], {"A": (0, 6)}),
        (["--env", "A=1", "--env", "B=2"], [("A", "1"), ("B", "2")], {"A": (1, 0), "B": (3, 0)}),
        (["--env", "A=1", "--env", "A=2"], [("A", "1"), ("A", "2")], {"A": (3, 0)}),
        (["--env", "A="], [("A", "")], {"A": (1, 0)}),
        (["--env", "A=é"], [("A", "é")], {"A": (1, 0)}),
        (["--env=A=é"], [("A", "é")], {"A": (0, 6)}),
        (["--env", "A"], [("A", None)], {}),  # passed through
        (["--env", "PATH=/x"], [("PATH", "/x")], None),
        (["--en", "A=1x"], [("A", "1")], None),  # written in another way than is looked for
        (["--env", "XA=1"], [("A", "1")], None),
    ],
)
def test_a_value_that_was_typed_is_kept_as_its_place_among_the_flags(
    flags: list[str], typed: list[tuple[str, str | None]], found: dict[str, tuple[int, int]] | None
) -> None:
    env = {name: value for name, value in typed if value is not None}
    prepared: Any = SimpleNamespace(plan=SimpleNamespace(env=tuple(env.items())))
    assert keep._given(Namespace(env=typed), prepared, flags) == found


def test_a_stamp_is_another_with_whatever_changes_a_file_or_its_name(tmp_path: Path) -> None:
    file = tmp_path / "file"
    stamps = [stamp(str(file))]
    assert stamps == [()]
    file.symlink_to(tmp_path / "nowhere")
    stamps.append(stamp(str(file)))
    assert stamps[-1]  # a link that leads nowhere is a name
    file.unlink()
    file.write_text("one")
    stamps.append(stamp(str(file)))
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_text("more")
    os.utime(file, ns=times)
    stamps.append(stamp(str(file)))
    os.utime(file, ns=(times[0], times[1] + 1))
    stamps.append(stamp(str(file)))
    (tmp_path / "other").write_text("more")
    os.utime(tmp_path / "other", ns=(times[0], times[1] + 1))
    os.replace(tmp_path / "other", file)
    stamps.append(stamp(str(file)))
    assert len(set(stamps)) == len(stamps)


def test_where_another_installation_would_come_first_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours = os.path.dirname(native.PACKAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/before", ours, "/after"])
    monkeypatch.setattr(site, "getusersitepackages", lambda: "/of/the/user")

    def looked_at() -> list[str]:
        return list(keep._where_another_would_come_first())

    before = [f"{each}/pysandbox/__init__.py" for each in (tmp_path, "/before")]
    for enabled, more in ((True, ["/of/the/user/pysandbox/__init__.py"]), (False, []), (None, [])):
        monkeypatch.setattr(site, "ENABLE_USER_SITE", enabled)
        assert looked_at() == [*before, *more]
    monkeypatch.setattr(sys, "path", ["/before", "/after"])  # ours is found in some other way
    assert looked_at() == [f"{each}/pysandbox/__init__.py" for each in ("/before", "/after")]
