"""Claim: `on_exit = "commit"` writes nothing that programs of the host are known to run, load or follow later, whatever
name or spelling a cage gives it: a compiled file in place of a source that was looked at, a link over another link,
`.GIT/config`.
"""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import time
from pathlib import Path

import pytest

from _support.projects import enter_project
from pysandbox import Cage, Policy

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SOURCE = "VALUE = 'reviewed'\n"
COMPILED = """
import importlib.util, marshal, os, sys
state = os.stat("mod.py")
code = compile("VALUE = 'evil'", "mod.py", "exec")
head = importlib.util.MAGIC_NUMBER + bytes(4) + int(state.st_mtime).to_bytes(4, "little")
data = head + state.st_size.to_bytes(4, "little") + marshal.dumps(code)
os.makedirs("__pycache__", exist_ok=True)
open(importlib.util.cache_from_source("mod.py"), "wb").write(data)
"""
SEEN = {  # a command in the cage, and what of it a reader must see
    "a compiled file": "echo x > mod.pyc",
    "a compiled file under another name": "mkdir __pycache__; echo x > x; ln -s ../x __pycache__/mod.cpython-311.pyc",
    "a link that is called as the compiled files are": "ln -s data __pycache__",
    "a library among them": "mkdir __pycache__; echo x > __pycache__/mod.so",
    "a build's": "mkdir build; echo x > build/x.o",
    "a link over a link": "ln -s . l; ln -s l/../victim report.txt",
    "a link over one of the host": "ln -s data/secret report.txt",
    "a link to one of the host": "ln -s data report.txt",
    "a link over a link to one of the host": "ln -s data d; ln -s d/secret report.txt",
    "a library": "echo x > _speedup.so; echo x > libx.so.1",
    "git's, in capitals": "mkdir .GIT; echo x > .GIT/config",
    "git's hook, in both": "mkdir -p .gIt/hooks; echo x > .gIt/hooks/pre-commit",
    "git's, with a letter nobody sees": "mkdir -p '.g\u200cit'; echo x > '.g\u200cit/config'",
    "git's, by its short name": "mkdir -p GIT~1; echo x > GIT~1/config",
    "direnv's, in capitals": "echo x > .Envrc",
    "an editor's, in capitals": "mkdir .VSCODE; echo x > .VSCODE/tasks.json",
    "ours, in capitals": "echo x > pysandbox.TOML",
    "a debugger's": "echo x > .pdbrc",
    "a package manager's": "mkdir -p .yarn/releases; echo x > .yarn/releases/yarn.cjs",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = enter_project(tmp_path, monkeypatch, "old\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    Path("data").symlink_to("../outside")
    Path("inside").mkdir()
    Path("mod.py").write_text(SOURCE)
    return made


def action(script: str) -> str:
    with Cage(Policy(workdir="cow", on_exit="commit", allow=[sys.prefix, sys.base_prefix])) as cage:
        cage.run(["sh", "-c", script]).check()
    outcome = cage.workspace.outcome
    cage.workspace.abort()
    return f"{outcome.action}: {outcome.reason}" if outcome is not None else "deferred"


def value() -> str:
    """What the host's interpreter imports."""
    code = "import sys; sys.path.insert(0, '.'); import mod; print(mod.VALUE)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_control_the_compiled_file_is_what_the_host_imports(project: Path) -> None:
    assert value() == "reviewed"
    subprocess.run([sys.executable, "-c", COMPILED], check=True)
    assert value() == "evil" and Path("mod.py").read_text() == SOURCE


@pytest.mark.parametrize("before", [False, True])
def test_a_compiled_file_of_python_s_is_left_out(project: Path, before: bool) -> None:
    if before:
        py_compile.compile("mod.py")
        assert value() == "reviewed" and os.listdir("__pycache__")
        time.sleep(0.1)
    assert action(f"{sys.executable} -c '{COMPILED}'; echo fine > notes") == "committed: "
    assert value() == "reviewed" and Path("notes").read_text() == "fine\n"
    assert action(f"{sys.executable} -c '{COMPILED}'") == "nothing: "
    assert value() == "reviewed"


def test_control_the_link_over_a_link_leads_out(project: Path) -> None:
    Path("victim").write_text("inside")
    (project.parent / "victim").write_text("outside")
    Path("l").symlink_to("inside")
    Path("report.txt").symlink_to("l/../victim")
    assert Path("report.txt").read_text() == "inside"
    os.replace("data", "l")
    assert Path("report.txt").read_text() == "outside"


@pytest.mark.parametrize("script", [
    "echo fine > notes", "ln -s inside l; ln -s l/x report.txt", "ln -s notes report.txt",
    "mkdir build; echo x > build/x", "mkdir -p a/b; ln -s ../../notes a/b/up", "echo x > .GITX",
])  # fmt: skip
def test_control_what_is_neither_is_committed(project: Path, script: str) -> None:
    assert action(script) == "committed: "


@pytest.mark.parametrize("script", SEEN.values(), ids=SEEN)
def test_it_is_kept_and_named(project: Path, script: str) -> None:
    before = sorted(os.listdir("."))
    assert action(script).startswith("kept: nothing was committed, since somebody must look at")
    assert sorted(os.listdir(".")) == before
