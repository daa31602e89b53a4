"""Claim: what a cage writes where its host program imports from takes the place of none of the modules that the
program, or this package, imports later; and what every start of the interpreter would run is read-only there, or told.

A program that lies in the directory that it grants is the ordinary case: Python looks for modules there first.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import pysandbox

from .conftest import Ground
from .harness import caged, policy, program

PLANT = """
    import os, sys
    os.mkdir("old")
    for name in NAMES:
        for path in (name + ".py", name + "/__init__.py"):
            try:
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                with open(path, "w") as file:
                    file.write("open(%r, 'a').write('planted ' + __name__ + chr(10)); raise ImportError" % SIGN)
            except OSError:
                pass
        if LINKED:
            os.rename(name + ".py", "old/" + name)
            os.rename(name, "old/" + name + ".d")
            os.symlink("old/" + name, name + ".py")
            os.symlink("old/" + name + ".d", name)
"""
HOST = """
import sys
from pysandbox import Cage, Policy, UnsupportedError
with Cage(Policy(allow_write=("{project}",), run_as="self")) as cage:
    assert cage.run({plant!r}, cwd="{project}").ok
    if {ours}:
        try:
            cage.restrict_network([])
        except UnsupportedError:
            cage.stats()
    else:
        import socket, wave
    import helper
"""

# What reads at the doors, and what looks into TLS, are processes that begin behind the cage that has planted.
CONFINED = """
from pysandbox import Cage, Policy, run
with Cage(Policy(allow_write=("{project}",), run_as="self")) as cage:
    assert cage.run({plant!r}, cwd="{project}").ok
done = run(["getent", "hosts", "refused.test"], Policy(hosts=[{{"domain": "allowed.test", "methods": ["GET"]}}]))
print([each.target for each in done.denials])
"""
NAMES = ("socket", "wave", "selectors", "array", "h11", "asyncio", "queue", "struct", "cryptography", "OpenSSL")


def host(
    ground: Ground, *, ours: bool, linked: bool, plant: bool = True, text: str = HOST, missing: Sequence[str] = ()
) -> tuple[subprocess.CompletedProcess[str], str]:
    """A program in the very directory that its cage may write; what was imported of the cage's."""
    project, sign = ground.inside, ground.outside / "sign"
    sign.parent.mkdir(exist_ok=True)
    names = [*NAMES, *missing] if plant else []
    argv = program(PLANT, NAMES=names, SIGN=str(sign), LINKED=linked)
    script = text.format(project=project, plant=argv, ours=ours)
    (project / "agent.py").write_text(script)
    (project / "helper.py").write_text("print('helped')")
    done = subprocess.run([sys.executable, "agent.py"], cwd=project, capture_output=True, text=True, timeout=120)
    return done, sign.read_text() if sign.exists() else ""


def test_control_python_imports_what_lies_beside_the_program(ground: Ground) -> None:
    sign = ground.outside / "sign"
    sign.parent.mkdir(exist_ok=True)
    (ground.inside / "wave.py").write_text(f"open({str(sign)!r}, 'w').write('imported')")
    (ground.inside / "agent.py").write_text("import wave")
    subprocess.run([sys.executable, "agent.py"], cwd=ground.inside, check=True, timeout=60)
    assert sign.read_text() == "imported"


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("ours", [True, False])
def test_the_program_goes_on_with_the_modules_that_it_has(ground: Ground, ours: bool, linked: bool) -> None:
    done, imported = host(ground, ours=ours, linked=linked)
    assert (imported, done.returncode, done.stdout) == ("", 0, "helped\n"), done.stderr


@pytest.mark.parametrize("linked", [False, True], ids=["files", "links"])
def test_its_confined_processes_begin_with_the_modules_that_there_were(ground: Ground, linked: bool) -> None:
    done, imported = host(ground, ours=False, linked=linked, text=CONFINED)
    assert (done.stdout, imported) == ("['refused.test']\n", ""), done.stderr


# A library that may be missing, as this package asks for it and as the program does.
OPTIONAL = """
from pysandbox import Cage, Policy
from pysandbox.gate import confined
with Cage(Policy(allow_write=("{project}",), run_as="self")) as cage:
    assert cage.run({plant!r}, cwd="{project}").ok

def tried(name, code):
    try:
        exec(code, {{"__name__": name}})
    except ImportError as error:
        print(name, "refused" if "a cage could have written it" in str(error) else "imported")

confined.NEEDED += ("nowhere",)
assert "{project}" not in set(confined._places())
tried("pysandbox.dlp.libraries", "import nowhere")
tried("pysandbox.audit.otel", "from nowhere.deep import name")
tried("pysandbox", "from importlib import import_module; import_module('nowhere')")
tried("__main__", {control!r})
"""
# What modules of Python itself ask for, on other systems, when they are loaded for a function that is called in a cage.
PROBES = ("nt", "org", "msvcrt", "_winapi", "winreg", "_scproxy")
LOADED_LATER = """
from pysandbox import Cage, Policy, sandboxed
with Cage(Policy(allow_write=("{project}",), run_as="self")) as cage:
    assert cage.run({plant!r}, cwd="{project}").ok
import importlib
import asyncio, getpass, mimetypes, multiprocessing, ntpath, pathlib, pickle, shutil, subprocess
print(importlib.import_module("chosen").__name__)
"""


@pytest.mark.parametrize("is_namespace", [False, True], ids=["a package", "a directory without a file"])
def test_a_library_that_is_not_installed_is_not_the_one_that_a_cage_has_put_there(
    ground: Ground, is_namespace: bool
) -> None:
    control = "import nowhere.deep" if is_namespace else "import nowhere"
    missing = ["nowhere/deep"] if is_namespace else ["nowhere"]
    text = OPTIONAL.replace("{control!r}", repr(control))
    done, imported = host(ground, ours=False, linked=False, text=text, missing=missing)
    refused = [f"{name} refused" for name in ("pysandbox.dlp.libraries", "pysandbox.audit.otel", "pysandbox")]
    assert done.stdout.splitlines() == [*refused, "__main__ imported"], done.stderr
    assert imported == f"planted {control.partition(' ')[2]}\n"  # what it asked a cage to write is its own affair


def test_what_python_itself_may_miss_is_not_what_a_cage_has_put_there(ground: Ground) -> None:
    done, imported = host(ground, ours=False, linked=False, text=LOADED_LATER, missing=[*PROBES, "chosen"])
    assert imported == "planted chosen\n", done.stderr  # the control: what the program names is its own affair


def test_a_module_that_shadowed_another_before_goes_on_to(ground: Ground) -> None:
    (ground.inside / "wave.py").write_text("print('my own')")
    done, _ = host(ground, ours=False, linked=False, plant=False)
    assert (done.returncode, done.stdout) == (0, "my own\nhelped\n"), done.stderr


def test_the_command_started_as_a_module_imports_nothing_from_where_a_cage_writes(ground: Ground) -> None:
    sign = ground.outside / "sign"
    sign.parent.mkdir(exist_ok=True)
    for name in ("argparse", "tomllib", "asyncio", "select"):
        (ground.inside / f"{name}.py").write_text(f"open({str(sign)!r}, 'w').write('imported')")
    run = [sys.executable, "-m", "pysandbox", "run", "--no-audit", "--", "/bin/true"]
    subprocess.run(run, cwd=ground.inside, check=True, timeout=60)
    assert not sign.exists()


@pytest.mark.parametrize("name", ["sitecustomize.py", "usercustomize.py"])
def test_what_the_interpreter_runs_at_its_start_is_read_only_or_told(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = ground.inside / "src"
    source.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(source)])  # as for a project that is installed in place
    plant = program("attempt('write', lambda: open(FILE, 'w').write('#'))", FILE=str(source / name))

    told = caged(plant, policy(allow_write=[str(ground.inside)]))
    assert told["write"].errno is None and told.result is not None
    assert [note.message for note in told.result.notes if str(source / name) in note.message]

    (source / name).write_text("mine")
    rules = policy(allow_write=[str(ground.inside)])
    assert caged(plant, rules)["write"].errno in ("EROFS", "EACCES")
    opened = policy(allow_write=[str(ground.inside)], unguarded=["pysandbox"])
    assert caged(plant, opened)["write"].errno is None
    assert isinstance(rules, pysandbox.Policy) and Path(source / name).read_text() == "#"
