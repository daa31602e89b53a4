"""The marks of a change, by its name: what runs without being asked for is guarded, what builds and tests run, and what
agents read, is marked, and a source file is neither; however the name is spelled that a directory may fold."""

from __future__ import annotations

import os
import stat

import pytest

from pysandbox.policy.guarded import GIT_FILES, HOME, PROJECT
from pysandbox.workspace.risk import (
    INSTRUCTS,
    MARKS,
    by_name,
    is_made_again,
    is_written_by_name_alone,
    leads_out,
    marks,
)
from pysandbox.workspace.run_by_others import BELOW, ENDS, NAMES, STEMS

GUARDED = sorted(name for table in (PROJECT, HOME) for names in table.values() for name in names if name != "bin")
GUARDED += [".git", *(f".git/{name}" for name in GIT_FILES), ".git/modules/lib/config", ".git/info/attributes"]
RUN = sorted({name for names in NAMES.values() for name in names})
FOUND = [  # what a hostile reader found unmarked
    "__pycache__/mod.cpython-311.pyc", "mod.pyo", "mod.pyd", "_mod.cpython-311-x86_64-linux-gnu.so", "libx.so.1.2",
    "x.dylib", "x.dll", ".pdbrc", ".Rprofile", ".ghci", ".octaverc", ".irbrc", ".pryrc", "Cargo.toml", "composer.json",
    ".babelrc", ".babelrc.json", ".eslintrc", ".eslintrc.yml", ".mocharc.cjs", ".yarn/releases/yarn.cjs", "wscript",
    "Directory.Build.props", ".clangd", "tasks.py", "fabfile.py", ".bundle/config",
]  # fmt: skip


@pytest.mark.parametrize("below", ["", "a/b/"])
@pytest.mark.parametrize("name", GUARDED)
def test_what_is_guarded_is_written_where_it_is_named_alone(name: str, below: str) -> None:
    for path in (f"{below}{name}", f"{below}{name}/inside"):
        if path != f"{below}.git/inside":
            assert by_name(path.encode()) == ("guarded",) and is_written_by_name_alone(path.encode())


@pytest.mark.parametrize("name", ["eslint.config.mjs", "rules.bzl", "x.pth", ".github/workflows/x.yml", *RUN, *FOUND,
                                  *(f"x{end}" for ends in ENDS.values() for end in ends),
                                  *(f"{stem}.any" for stem in STEMS), *(f"{each}/x" for each in BELOW)])  # fmt: skip
def test_what_a_build_or_a_test_runs_is_marked(name: str) -> None:
    for each in (name, name.upper(), name.lower(), name.swapcase()):
        assert by_name(f"a/{each}".encode()) in (("runs-on-host",), ("guarded",))


@pytest.mark.parametrize("name", [*INSTRUCTS, "CLAUDE.md", "AGENTS.md", ".claude/commands/x.md"])
def test_what_agents_go_by_is_marked(name: str) -> None:
    assert by_name(f"a/{name}".encode()) == ("instructs-agents",)


@pytest.mark.parametrize("name", ["main.py", "docs/README.md", "src.js", "cargo/config.toml", "bin/x", "git/config",
                                  "notes.txt", "so.txt", "a.so.txt", ".git/objects/info/packs", ".git/refs/heads/hooks",
                                  ".gitignore", "x~1/config", "environment.py",
                                  ".git/refs/heads/build", ".git/refs/heads/rust-toolchain",
                                  ".git/logs/refs/heads/BUILD", ".git/refs/heads/.github/x",
                                  ".git/refs/tags/AGENTS.md", ".git/objects/a.pyc",
                                  ".GIT/refs/heads/.envrc", "Makefile.md", "docs/Dockerfile.png", "notes/README.path",
                                  ".env.example", "проект.git/config", "план.profile", "ü.ssh/key", "版本build",
                                  "ñ.envrc", "\udcff.envrc", "e\u0301.vscode/x"])  # fmt: skip
def test_control_a_source_file_is_not(name: str) -> None:
    assert by_name(os.fsencode(name)) in ((), ("hidden-name",))


@pytest.mark.parametrize("name", [".git/refs/x/.git/config", ".git/objects/.git/hooks/x", ".git/refs", "a/.git/objects",
                                  "refs/heads/.envrc", ".git/x/refs/config"])  # fmt: skip
def test_a_repository_among_the_data_of_another_is_one(name: str) -> None:
    assert ("guarded" in by_name(name.encode())) == (name not in (".git/refs", "a/.git/objects"))


@pytest.mark.parametrize(("name", "is_directory"), [
    ("__pycache__", True), ("a/__pycache__/x.cpython-311.pyc", False), ("a/__PYCACHE__/X.PYC", False),
])  # fmt: skip
def test_what_python_makes_again_is_known_by_its_place(name: str, is_directory: bool) -> None:
    assert is_made_again(name.encode(), is_directory=is_directory)
    assert not is_made_again(name.encode(), is_directory=not is_directory)


@pytest.mark.parametrize("name", ["x.pyc", "__pycache__/x.so", "__pycache__/a/x.pyc", "a__pycache__/x.pyc"])
def test_control_any_other_compiled_file_is_not(name: str) -> None:
    assert not is_made_again(name.encode(), is_directory=False)


def test_control_a_directory_is_marked_for_what_is_in_it_alone() -> None:
    folder, file = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644
    assert marks(b"build", None, folder, False) == () and marks(b"build", folder, None, False) == ()
    assert marks(b"BUILD", None, file, False) == ("runs-on-host",)
    assert marks(b".git/hooks", None, folder, False) == ("guarded",)


@pytest.mark.parametrize("name", GUARDED)
def test_a_guarded_name_is_one_however_it_is_spelled(name: str) -> None:
    """As ext4, NTFS and FAT fold case, with letters that fold to ASCII ones, and HFS+ drops what nobody sees."""
    spelled = {name.upper(), name.swapcase(), name[:2] + "\u200c" + name[2:], "\ufeff" + name, name + "\u2060",
               name.replace("s", "\u017f").replace("k", "\u212a"), name.replace("ss", "\xdf").replace("fi", "\ufb01"),
               name[:1] + "\U0001d173\U0001bca0" + name[1:]}  # fmt: skip
    for each in spelled:
        assert "guarded" in by_name(os.fsencode(each)), each


@pytest.mark.parametrize(("path", "mark"), [
    ("GIT~1/config", "guarded"), ("a/git~2/HOOKS/x", "guarded"), (".git/CONFIG~1.WOR", "guarded"),
    ("ENVRC~1", "guarded"), ("VSCODE~1/tasks.json", "guarded"), ("PYSAND~1.TOM", "policy"),
    ("pysandbox.TOML", "policy"),
    (".PySandbox/x", "policy"), ("GITMOD~1", "guarded"),
])  # fmt: skip
def test_the_short_name_of_a_guarded_one_is_its_name(path: str, mark: str) -> None:
    assert by_name(path.encode()) == (mark,)


def test_what_the_policy_opens_is_open_and_nothing_else() -> None:
    assert by_name(b".GIT/config", (".git",)) == () != by_name(b".GIT/config", (".envrc",))
    assert by_name(b"pysandbox.TOML", ("pysandbox",)) == ()


@pytest.mark.parametrize(("path", "target", "out"), [
    ("l", "/etc", True), ("l", "..", True), ("a/l", "../..", True), ("a/l", "../x", False), ("l", "x/y", False),
    ("l", ".", False), ("report", "l/../victim", True), ("report", "./l/.././victim", True), ("a/l", "../b/../c", True),
    ("a/b/l", "./.././../x", False), ("l", "a/..b/...", False), ("l", "a//b", False),
])  # fmt: skip
def test_a_link_whose_text_may_lead_out_does(path: str, target: str, out: bool) -> None:
    assert leads_out(path.encode(), target.encode()) == out


def test_every_mark_says_what_it_is() -> None:
    assert {"guarded", "runs-on-host", "instructs-agents"} <= MARKS.keys() and all(MARKS.values())
