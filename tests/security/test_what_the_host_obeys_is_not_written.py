"""Claim: a cage that may write a project does not write what programs of the host obey there, nor pysandbox itself.

Git's hooks and configuration, of submodules, worktrees and repositories below too; editors' tasks, .envrc, .mcp.json;
start files of shells where the home directory was granted. Each is opened by its name, and by nothing else.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import Grant
from pysandbox.policy import user_home
from pysandbox.probe import guards, linked, paths

from .conftest import Ground
from .harness import caged, policy, program, uncaged

REFUSED = ("EROFS", "EBUSY", "EXDEV", "EPERM", "EACCES")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
ATTACK = """
    for path in FILES:
        attempt("append " + path, lambda: open(path, "a").write("#"))
        attempt("replace " + path, os.replace, OTHER, path)
        attempt("move " + path, os.rename, path, path + ".old")
        attempt("move above " + path, os.rename, os.path.dirname(path), os.path.dirname(path) + ".old")
"""


def run(cwd: Path, *argv: str) -> None:
    subprocess.run(argv, cwd=cwd, check=True, capture_output=True, timeout=60)


DIRECTORIES = (".vscode", ".idea", ".cursor", ".devcontainer", ".husky", ".githooks", ".zed", ".helix", ".codex")
FILES = (".mcp.json", ".envrc", ".claude/settings.json", ".pre-commit-config.yaml", "lefthook.yml",
         ".cargo/config.toml", "rust-toolchain.toml", ".gemini/settings.json",
         "opencode.json")  # fmt: skip


@pytest.fixture
def project(ground: Ground) -> Path:
    """A repository with a submodule, a linked worktree, one of its own below, a bare one, and files of editors."""
    top, library = ground.inside, ground.outside / "library"
    for repository in (top, library, top / "a" / "b"):
        repository.mkdir(parents=True, exist_ok=True)
        run(repository, *GIT, "init", "-q")
        run(repository, *GIT, "commit", "-q", "--allow-empty", "-m", "first")
    run(top, *GIT, "submodule", "add", "-q", str(library), "lib/one")
    run(top, *GIT, "worktree", "add", "-q", "linked")
    run(top, *GIT, "init", "-q", "--bare", "bare")
    for name in ("tasks.json", "hook"):
        for directory in DIRECTORIES:
            (top / directory).mkdir(exist_ok=True)
            (top / directory / name).touch()
    for name in FILES:
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).touch()
    return top


WRITTEN = (
    ".git/config", ".git/modules/lib/one/config", ".git/modules/lib/one/hooks/x", ".git/worktrees/linked/commondir",
    "a/b/.git/config", "a/b/.git/hooks/x", "bare/config", "bare/hooks/x", "lib/one/.git", "linked/.git", ".gitmodules",
    ".vscode/tasks.json", *(f"{name}/hook" for name in DIRECTORIES), *FILES,
)  # fmt: skip


def said(project: Path, rules: pysandbox.Policy) -> dict[str, str | None]:
    for name in WRITTEN:
        (project / name).touch()
    (project / "other").touch()
    argv = program(ATTACK, FILES=[str(project / name) for name in WRITTEN], OTHER=str(project / "other"))
    return {name: each.errno for name, each in caged(argv, rules).attempts.items()}


@pytest.mark.parametrize("strict", [False, True])
def test_nothing_of_it_is_written_replaced_or_moved(project: Path, strict: bool) -> None:
    before = {name: (project / name).read_bytes() if (project / name).exists() else b"" for name in WRITTEN}

    tried = said(project, policy(allow_write=[str(project)], strict=strict))

    worked = {name for name, errno in tried.items() if errno not in REFUSED and not name.startswith("move above")}
    assert worked == set()
    allowed = {f"move above {project / name}" for name in WRITTEN if "/" not in name}  # the grant itself is a mount
    assert {name for name, errno in tried.items() if errno not in REFUSED} - allowed == set()
    assert {name: (project / name).read_bytes() for name in WRITTEN} == before


@pytest.mark.parametrize(
    ("word", "path"), [(".vscode", ".vscode/tasks.json"), (".envrc", ".envrc"), (".git", "a/b/.git/config")]
)
def test_each_is_opened_by_its_name_and_by_nothing_else(project: Path, word: str, path: str) -> None:
    tried = said(project, policy(allow_write=[str(project)], unguarded=[word]))
    appended = {name for name, errno in tried.items() if errno is None and name.startswith("append")}
    assert f"append {project / path}" in appended
    assert f"append {project / '.mcp.json'}" not in appended


def test_a_word_that_guards_nothing_is_refused() -> None:
    with pytest.raises(pysandbox.PolicyError, match="not the name of a guard"):
        pysandbox.Policy(unguarded=("vscode",))


def test_outside_of_a_cage_all_of_it_is_written(project: Path) -> None:
    (project / "other").touch()
    argv = program(ATTACK, FILES=[str(project / ".envrc")], OTHER=str(project / "other"))
    assert uncaged(argv)[f"append {project / '.envrc'}"].errno is None


def test_git_goes_on_to_work(project: Path) -> None:
    script = """
        cd "$1" && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m second
        echo x > new && git add new && git -c user.name=a -c user.email=a@b commit -q -m third
        git checkout -q -b other && git log --oneline | wc -l
    """
    rules = policy(allow_write=[str(project)], run_as="self")
    result = pysandbox.run(["/bin/sh", "-ec", script, "sh", str(project)], policy=rules, timeout=60)
    assert (result.exit_code, str(result.stdout).strip()) == (0, "3"), result.stderr


# A link in a guarded directory, and the file of the project that it leads to.
LINKED = {
    ".git/hooks/pre-commit": "scripts/check",
    "a/b/.git/hooks/pre-push": "a/b/check",
    "bare/hooks/update": "deep/er/check",
    ".githooks/post-merge": "merged",
    ".claude/hooks/stop": "scripts/stop",
    ".vscode/launch.json": "conf/launch.json",
    "tools/hooks/post-commit": "scripts/third",
}


def with_links(project: Path) -> dict[str, Path]:
    run(project, *GIT, "config", "core.hooksPath", "tools/hooks")
    for link, name in LINKED.items():
        for each in (project / link, project / name):
            each.parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("mine\n")
        (project / link).symlink_to(os.path.relpath(project / name, (project / link).parent))
    return {name: project / name for name in LINKED.values()}


def test_what_links_among_it_lead_to_is_not_written(project: Path) -> None:
    files = with_links(project)
    (project / "other").touch()
    argv = program(ATTACK, FILES=[str(each) for each in files.values()], OTHER=str(project / "other"))

    report = caged(argv, policy(allow_write=[str(project)]))

    grant = f"move above {files['merged']}"  # the grant itself is a mount
    worked = {name for name, each in report.attempts.items() if each.errno not in REFUSED} - {grant}
    assert worked == set()
    assert all(each.read_text() == "mine\n" for each in files.values())
    control = caged(argv, policy(allow_write=[str(project)], unguarded=[".git"]))
    assert control[f"append {files['scripts/check']}"].errno is None, "with the directory its links are opened"
    assert control[f"append {files['merged']}"].errno in REFUSED


def test_nor_in_a_part_of_the_repository(project: Path) -> None:
    part = project / "part"
    part.mkdir()
    (part / "check").write_text("mine\n")
    (project / ".git/hooks/pre-commit").symlink_to("../../part/check")
    argv = program(ATTACK, FILES=[str(part / "check")], OTHER=str(part / "check"))
    report = caged(argv, policy(allow_write=[str(part)]))
    assert report[f"append {part / 'check'}"].errno in REFUSED


def test_a_link_that_leads_to_nothing_or_by_another_link_is_told(project: Path) -> None:
    (project / ".git/hooks/pre-commit").symlink_to("../../check")
    (project / ".git/hooks/pre-push").symlink_to("../../other-link")
    (project / "other-link").symlink_to("real")
    (project / "real").write_text("mine\n")
    attack = ["/bin/sh", "-c", "echo evil > check; echo evil > real"]
    result = pysandbox.Cage(policy(workdir="write"), cwd=project).run(attack)
    told = [note.message for note in result.notes]
    assert any(f"{str(project / 'check')!r}" in each and "the command made" in each for each in told)
    assert any(f"{str(project / 'other-link')!r} is a symlink" in each for each in told)
    assert (project / "real").read_text() == "mine\n"


@pytest.mark.parametrize("how", ["in one program", "from a kept plan"])
def test_a_link_that_was_made_between_two_cages_counts_in_the_second(project: Path, how: str) -> None:
    (project / "check").write_text("mine\n")
    script = ["/bin/sh", "-c", "echo x >> check"]
    time.sleep(0.1)  # a plan made from what changed a moment ago is not kept
    for step in range(4):
        if step == 2:
            (project / ".git/hooks/pre-commit").symlink_to("../../check")
            time.sleep(paths.PAUSE)
        if how == "in one program":
            pysandbox.Cage(policy(workdir="write"), cwd=project).run(script)
        else:
            subprocess.run(["pysandbox", "run", "--", *script], cwd=project, capture_output=True, timeout=60)
    assert (project / "check").read_text() == "mine\nx\nx\n"


def test_a_directory_with_more_links_than_are_followed_is_told(project: Path) -> None:
    for number in range(linked.MOST_LINKS + 1):
        (project / f".githooks/{number}").symlink_to("../other")
    result = pysandbox.run(["/bin/true"], policy=policy(allow_write=[str(project)]))
    assert any("holds more directories than are searched" in note.message for note in result.notes)


START = (".bashrc", ".profile", ".zshenv", ".ssh/config", ".config/fish/config.fish", ".config/systemd/user/a.service",
         ".config/autostart/a.desktop", ".local/bin/ls", ".gitconfig")  # fmt: skip


def test_start_files_are_not_written_where_home_was_granted(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    home = ground.inside
    monkeypatch.setattr(user_home, "_home_of", lambda uid: str(home))
    for name in START:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine\n")
    (home / "other").touch()
    argv = program(ATTACK, FILES=[str(home / name) for name in START], OTHER=str(home / "other"))

    report = caged(argv, policy(allow_write=[str(home)]))

    worked = {name for name, each in report.attempts.items() if each.errno not in REFUSED}
    assert {name for name in worked if not name.startswith("move above")} == set()
    assert all((home / name).read_text() == "mine\n" for name in START)


@pytest.fixture
def own(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for the environment that pysandbox is installed in."""
    environment = ground.inside / ".venv"
    (environment / "lib").mkdir(parents=True)
    (environment / "lib" / "__init__.py").touch()
    monkeypatch.setattr(guards, "our_files", lambda: (str(environment),))
    return environment


def test_the_environment_that_pysandbox_runs_from_is_read_only(ground: Ground, own: Path) -> None:
    argv = program(ATTACK, FILES=[str(own / "lib" / "__init__.py")], OTHER=str(ground.inside / "plain"))

    report = caged(argv, policy(allow_write=[str(ground.inside)]))

    assert {each.errno for each in report.attempts.values()} <= set(REFUSED)
    assert report.result is not None
    assert any("pysandbox itself runs from it" in note.message for note in report.result.notes)


@pytest.mark.parametrize("inside", ["", "lib"])
def test_it_cannot_be_granted_but_by_that_word(ground: Ground, own: Path, inside: str, isolation: str) -> None:
    rules: dict[str, Any] = {"allow_write": (Grant(str(own / inside)),), "isolation": isolation, "run_as": "self"}
    with pytest.raises(pysandbox.PolicyError, match="pysandbox itself runs from"):
        pysandbox.run(["/bin/true"], policy=pysandbox.Policy(**rules))
    assert pysandbox.run(["/bin/true"], policy=pysandbox.Policy(**rules, unguarded=("pysandbox",))).exit_code == 0


def test_what_the_running_program_is_made_of_is_known() -> None:
    package = Path(pysandbox.__file__).parent
    assert any(package.is_relative_to(each) for each in guards.our_files())


def test_a_cage_that_fills_one_directory_does_not_use_up_another_s_share(project: Path) -> None:
    """Attack: the first cage makes more files in .vscode than are looked at; the second writes the hook's script."""
    fresh = project / "fresh"
    (fresh / ".git" / "hooks").mkdir(parents=True)
    (fresh / "scripts").mkdir()
    script = fresh / "scripts" / "check"
    script.write_text("")
    (fresh / ".git" / "hooks" / "post-merge").symlink_to("../../scripts/check")
    rules = policy(allow_write=[str(fresh)])
    with pysandbox.Cage(rules, cwd=str(fresh)) as cage:
        assert cage.run(["sh", "-c", "mkdir .vscode && cd .vscode && seq 5000 | xargs touch"]).ok
    with pysandbox.Cage(rules, cwd=str(fresh)) as cage:
        assert not cage.run(["sh", "-c", "echo evil > scripts/check"]).ok
        assert cage.run(["sh", "-c", "echo fine > scripts/other"]).ok  # the control
    assert script.read_text() == ""
