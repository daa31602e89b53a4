"""Which interpreter and which cage-init a policy is about."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pysandbox.setup.target import InstallTarget, find_target, is_shared

INIT = "/opt/app/lib/pysandbox/cage-init"


def test_the_target_of_this_program_is_the_file_that_runs() -> None:
    target = find_target()
    assert os.path.samefile(target.interpreter, "/proc/self/exe")
    assert os.access(target.init, os.X_OK)


def test_a_link_is_followed_to_what_a_security_module_sees(tmp_path: Path) -> None:
    real = tmp_path / "python3.11"
    real.touch()
    (tmp_path / "python").symlink_to(real)
    assert find_target(str(tmp_path / "python")).interpreter == str(real.resolve())


@pytest.mark.parametrize("letter", ['"', "*", "{", "}", "\n", " ", "@", "\\", "(", "^", "\x1b", ",", "#"])
def test_a_path_that_would_be_read_as_policy_is_refused(letter: str) -> None:
    InstallTarget("/opt/app/bin/python3", INIT)  # the control
    with pytest.raises(ValueError, match="plain name"):
        InstallTarget(f"/opt/a{letter}b/bin/python3", INIT)
    with pytest.raises(ValueError, match="plain name"):
        InstallTarget("/opt/app/bin/python3", f"/opt/a{letter}b/cage-init")


def test_a_path_that_is_not_absolute_is_refused() -> None:
    with pytest.raises(ValueError, match="plain name"):
        InstallTarget("python3", INIT)


def test_the_interpreter_of_the_system_is_shared_and_one_below_its_own_prefix_is_not() -> None:
    assert is_shared(InstallTarget("/usr/bin/python3.11", INIT))
    assert is_shared(InstallTarget("/somewhere/else/bin/python3", INIT))
    assert not is_shared(InstallTarget(f"{os.path.realpath(sys.prefix)}/bin/python3", INIT))
