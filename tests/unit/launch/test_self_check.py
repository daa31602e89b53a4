"""A damaged installation is found before anything is started."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from pysandbox.errors import StartError
from pysandbox.launch import native
from pysandbox.runtime import self_check
from pysandbox.runtime.runtime import Runtime

PROGRAMS = ("INIT_PATH", "UNCAGED_INIT_PATH")


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of one of the programs, in the place of the original."""
    copy = tmp_path / "program"
    shutil.copy(getattr(native, request.param), copy)
    monkeypatch.setattr(native, request.param, str(copy))
    return copy


def test_a_whole_installation_passes() -> None:
    Runtime(warm=0).self_check()


def test_a_program_that_is_missing_is_found_when_the_runtime_is_made(program: Path) -> None:
    Runtime(warm=0)  # the control
    program.unlink()
    with pytest.raises(StartError) as error:
        Runtime(warm=0)
    assert (error.value.errno, error.value.filename) == (errno.ENOENT, str(program))
    assert "reinstall" in str(error.value)


def test_a_program_that_cannot_be_executed_is_found_when_the_runtime_is_made(program: Path) -> None:
    program.chmod(0o644)
    with pytest.raises(StartError) as error:
        Runtime(warm=0)
    assert error.value.errno == errno.EACCES


def test_a_program_of_another_build_is_found_by_the_self_check(program: Path) -> None:
    runtime = Runtime(warm=0)
    runtime.self_check()  # the control: a copy is as good
    content = program.read_bytes()
    assert content.count(native.abi()) == 1
    program.write_bytes(content.replace(native.abi(), native.abi()[::-1]))
    with pytest.raises(StartError, match="other sources") as error:
        runtime.self_check()
    assert error.value.errno == errno.ENOEXEC


def test_a_recipe_that_is_missing_is_found_by_the_self_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(self_check, "shipped_file", lambda name: str(tmp_path / name))
    with pytest.raises(StartError) as error:
        Runtime(warm=0).self_check()
    assert os.path.dirname(str(error.value.filename)) == str(tmp_path)


def test_both_programs_are_one_and_name_their_build() -> None:
    assert len(native.abi()) == 64
    assert Path(native.INIT_PATH).read_bytes() == Path(native.UNCAGED_INIT_PATH).read_bytes()
