"""What a Python looks like on the disk, and which paths of it are granted: read, not executed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox.policy.toolchain import installation, shebang
from pysandbox.policy.toolchain.ground import Ground


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if name.endswith("/") else path.touch()
    return root


@pytest.mark.parametrize(("text", "expected"), [
    (b"#!/usr/bin/python3\n", ("/usr/bin/python3", "")),
    (b"#! /v/bin/python -I\nimport this", ("/v/bin/python", "")),
    (b"#!/usr/bin/env python3\n", ("/usr/bin/env", "python3")),
    (b"#!/usr/bin/env -S A=1 python3 -I\n", ("/usr/bin/env", "python3")),
    (b"#!/usr/bin/env -Spython3 -I\n", ("/usr/bin/env", "python3")),
    (b"#!/bin/sh\n'''exec' '/a b/bin/python' \"$0\" \"$@\"\n' '''\n", ("/a b/bin/python", "")),
    (b"#!/bin/sh\n'''exec' 'unbalanced\n", ("", "")),
    (b"#!/bin/sh\necho\n", ("/bin/sh", "")),
    (b"#!\n", None), (b"\x7fELF", None), (b"", None), (b"#!" + b"\0" * 300, None),
])  # fmt: skip
def test_a_first_line_is_read_as_the_kernel_does(tmp_path: Path, text: bytes, expected: object) -> None:
    script = tmp_path / "script"
    script.write_bytes(text)
    assert shebang.interpreter(str(script)) == expected


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", ".", "nothing", "a\0b"):
        assert shebang.interpreter(f"{tmp_path}/{name}") is None


@pytest.mark.parametrize(("text", "expected"), [
    ("home = /usr/bin\nversion = 3.12\n", "/usr/bin"), ("HOME=/a b\n", "/a b"), ("version = 3\n", ""), ("", ""),
])  # fmt: skip
def test_a_configuration_says_where_its_python_is(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "pyvenv.cfg").write_text(text)
    assert installation.home_of(str(tmp_path)) == expected
    assert installation.home_of(str(tmp_path / "other")) is None


def test_an_installation_is_known_by_its_library(tmp_path: Path) -> None:
    assert installation.libraries(str(tree(tmp_path / "a", "lib/python3.12/os.py"))) == ("lib/python3.12",)
    assert installation.libraries(str(tree(tmp_path / "b", "lib64/pypy3.10/os.py"))) == ("lib64/pypy3.10",)
    for name in ("lib/python3.12/site.py", "lib/pythons/os.py", "python3.12/os.py", "lib/python3.12/os.py/"):
        assert installation.libraries(str(tree(tmp_path / name.replace("/", "_"), name))) == ()


def test_nothing_but_the_tree_is_granted(tmp_path: Path) -> None:
    whole = tree(tmp_path / "whole", "pyvenv.cfg", "bin/python", "lib/python3.12/os.py")
    assert installation.parts(str(whole), wide=False) == ("",)
    mixed = tree(tmp_path / "mixed", "pyvenv.cfg", "bin/python", "lib/python3.12/os.py", "main.py", ".env")
    assert installation.parts(str(mixed), wide=False) == ("pyvenv.cfg", "bin", "lib")
    shared = tree(tmp_path / "shared", "bin/python3", "lib/python3.12/os.py", "etc/mine.conf", "local/mine")
    assert installation.parts(str(shared), wide=False) == ("bin", "lib")
    home = tree(tmp_path / "home", "pyvenv.cfg", "bin/mine", "lib/python3.12/os.py", "lib/mine", "lib/libpython3.so")
    assert set(installation.parts(str(home), wide=True)) == {"pyvenv.cfg", "lib/python3.12", "lib/libpython3.so"}


def test_the_ground(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "home" / "project"
    tree(home, ".ssh/id", "other/file", "project/file")
    (project / "out").symlink_to(home / "other")
    ground = Ground.of((), (), {"HOME": str(home), "VIRTUAL_ENV": str(project / "out")}, str(project), str(home))
    assert ground.is_loose(f"{project}/x") and not ground.is_loose(f"{home}/other")
    assert ground.leads_out(f"{project}/out", f"{home}/other") and not ground.leads_out(f"{project}/a", f"{project}/b")
    assert str(home / "other") not in ground.chosen
    assert ground.is_private(f"{home}/.ssh/keys") and not ground.is_private(f"{home}/.sshd")
    assert all(ground.is_wide(each) for each in ("/", str(tmp_path), str(home), f"{home}/.local"))
    assert not ground.is_wide(f"{home}/.local/share/uv")
    # In the home directory itself a cage is not expected to have written all of it.
    assert not Ground.of((), (), {"HOME": str(home)}, str(home), str(home)).is_loose(f"{home}/x")
