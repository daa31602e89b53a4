"""Claim: the repository around a working directory is shown read-only, and nothing that a cage has written makes a
later cage see more: a git directory elsewhere is shown only where it names the working directory as that names it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

import pysandbox
from pysandbox.probe.repository import find_repository

from .conftest import Ground
from .harness import Report, caged, policy, program

READ = """
    for place in PLACES:
        attempt(place, lambda: open(place).read())
"""
WRITE = """
    for place in PLACES:
        attempt(place, lambda: open(place, "a").write("#"))
"""
UNSEEN = ("ENOENT", "EACCES")
UNWRITTEN = ("EROFS", "EACCES")


def git(where: Path, *arguments: str) -> None:
    mine = ["-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *mine, *arguments], cwd=where, check=True, capture_output=True, timeout=60)


def repository(where: Path) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    git(where, "init", "-q")
    (where / "file").write_text("mine")
    git(where, "add", "file")
    git(where, "commit", "-qm", "one")
    return where


def there(cwd: Path, argv: list[str], rules: pysandbox.Policy) -> Report:
    """The attack, started from this directory: it is the working directory that the policy speaks of."""
    with chdir(cwd):
        return caged(argv, rules)


def run(cwd: Path, argv: list[str], rules: pysandbox.Policy) -> pysandbox.Result:
    with chdir(cwd):
        return pysandbox.run(argv, rules, timeout=60)


def read(cwd: Path, *places: Path, isolation: str = "full") -> dict[str, str | None]:
    rules = policy(isolation, workdir="write", run_as="self")
    report = there(cwd, program(READ, PLACES=[str(place) for place in places]), rules)
    return {Path(name).name: attempt.errno for name, attempt in report.attempts.items()}


# ---- what is shown -------------------------------------------------------------------------------------------


def subdirectory(top: Path) -> tuple[Path, Path]:
    (repository(top / "repo") / "sub").mkdir()
    return top / "repo" / "sub", top / "repo" / ".git"


def worktree(top: Path) -> tuple[Path, Path]:
    git(repository(top / "repo"), "worktree", "add", "-q", str(top / "tree"))
    return top / "tree", top / "repo" / ".git"


def submodule(top: Path) -> tuple[Path, Path]:
    repository(top / "library")
    git(repository(top / "repo"), "submodule", "add", "-q", str(top / "library"), "module")
    return top / "repo" / "module", top / "repo" / ".git" / "modules" / "module"


@pytest.mark.parametrize("make", [subdirectory, worktree, submodule])
def test_git_reads_and_nothing_is_written(
    ground: Ground, isolation: str, make: Callable[..., tuple[Path, Path]]
) -> None:
    cwd, where = make(ground.inside)
    rules = policy(isolation, workdir="write", run_as="self")
    for command in (["status", "--short"], ["log", "--oneline"], ["diff"]):
        done = run(cwd, ["git", *command], rules)
        assert (done.exit_code, str(done.stderr)) == (0, ""), done

    inside = [str(where / name) for name in ("HEAD", "config", "new", "hooks/post-checkout")]
    report = there(cwd, program(WRITE, PLACES=inside), rules)

    assert report.differs(dict.fromkeys(inside, UNWRITTEN)) == {}
    assert any(str(where) in str(note) and "--allow-write" in str(note) for note in report.result.notes)


@pytest.mark.parametrize("make", [subdirectory, worktree, submodule])
def test_the_line_that_is_named_lets_commit_and_keeps_hooks_and_configuration(
    ground: Ground, make: Callable[..., tuple[Path, Path]]
) -> None:
    cwd, where = make(ground.inside)
    rules = policy(workdir="write", run_as="self", allow_write=[str(where)])
    (cwd / "new").write_text("new")
    script = "git add new && git -c user.name=n -c user.email=n@example.org commit -qm two"
    done = run(cwd, ["sh", "-c", script], rules)
    assert done.exit_code == 0, done

    guarded = [str(where / name) for name in ("config", "hooks/post-checkout")]
    assert there(cwd, program(WRITE, PLACES=guarded), rules).differs(dict.fromkeys(guarded, "EROFS")) == {}


def test_the_policy_files_of_a_repository_are_hidden_like_one_s_own(ground: Ground) -> None:
    cwd, where = subdirectory(ground.inside)
    manifest = where.parent / "pysandbox.toml"
    manifest.write_text("secret = 1")
    rules = policy(workdir="read", run_as="self")

    report = there(cwd, program(READ, PLACES=[str(manifest), str(where.parent / "file")]), rules)

    assert (report[str(manifest)].value, report[str(where.parent / "file")].value) == ("", "mine")


# ---- what a cage may have written ----------------------------------------------------------------------------


def leads_to_a_secret(cwd: Path, outside: Path) -> None:
    (cwd / ".git").write_text(f"gitdir: {outside}\n")


def leads_to_a_repository(cwd: Path, outside: Path) -> None:
    (cwd / ".git").write_text(f"gitdir: {outside}/.git\n")


def is_a_link(cwd: Path, outside: Path) -> None:
    (cwd / ".git").symlink_to(outside / ".git")


def has_a_common_directory_elsewhere(cwd: Path, outside: Path) -> None:
    made = cwd / "made" / "worktrees" / "x"
    made.mkdir(parents=True)
    for name, text in (("HEAD", "ref: refs/heads/x"), ("commondir", f"{outside}/.git"), ("gitdir", f"{cwd}/.git")):
        (made / name).write_text(text)
    (cwd / ".git").write_text(f"gitdir: {made}\n")


def has_links_for_its_parts(cwd: Path, outside: Path) -> None:
    """The repository is made by a cage, and lies elsewhere by a link."""
    (cwd / "made").mkdir()
    (cwd / "made" / "worktrees").symlink_to(outside / ".git")
    (cwd / ".git").write_text(f"gitdir: {cwd}/made/worktrees\n")


def is_a_module_of_a_stranger(cwd: Path, outside: Path) -> None:
    (cwd / ".git").write_text(f"gitdir: {outside}/.git/modules/x\n")


def climbs(cwd: Path, outside: Path) -> None:
    (cwd / ".git").write_text(f"gitdir: {os.path.relpath(outside, cwd)}/.git/worktrees/../\n")


def is_a_pipe(cwd: Path, outside: Path) -> None:
    os.mkfifo(cwd / ".git")


PLANTED = [leads_to_a_secret, leads_to_a_repository, is_a_link, has_a_common_directory_elsewhere,
           has_links_for_its_parts, is_a_module_of_a_stranger, climbs, is_a_pipe]  # fmt: skip


@pytest.mark.parametrize("plant", PLANTED)
def test_what_a_cage_writes_about_a_repository_opens_no_other_directory(
    ground: Ground, isolation: str, plant: Callable[[Path, Path], None]
) -> None:
    repository(ground.outside)
    git(ground.outside, "init", "-q", "--bare", str(ground.outside / ".git" / "modules" / "x"))
    plant(ground.inside, ground.outside)

    seen = read(ground.inside, ground.secret, ground.outside / ".git" / "config", isolation=isolation)

    assert set(seen.values()) <= set(UNSEEN), seen


def test_a_worktree_that_another_directory_has_is_not_believed_twice(ground: Ground) -> None:
    """A copy of a real `.git` file, in a directory that its repository does not name."""
    tree, where = worktree(ground.outside)
    (ground.inside / ".git").write_text((tree / ".git").read_text())

    assert read(ground.inside, where / "config") == {"config": "ENOENT"}
    assert read(tree, where / "config") == {"config": None}


def test_a_denial_wins_over_what_git_would_read(ground: Ground) -> None:
    cwd, where = subdirectory(ground.inside)
    rules = policy(workdir="write", run_as="self", deny=[str(where)])
    report = there(cwd, program(READ, PLACES=[str(where / "config")]), rules)

    assert report[str(where / "config")].errno in (*UNSEEN, "EPERM")


@pytest.mark.parametrize("hidden", ["**/.env", ".env"])
@pytest.mark.parametrize("how", ["deny", "mask"])
def test_who_hides_a_file_of_a_part_is_not_shown_the_one_of_the_whole(ground: Ground, how: str, hidden: str) -> None:
    cwd, where = subdirectory(ground.inside)
    for directory in (cwd, where.parent):
        (directory / ".env").write_text("secret")
    rules = policy(workdir="read", run_as="self", **{how: [hidden]})
    places = [str(where.parent / ".env"), str(where / "HEAD")]
    report = there(cwd, program(READ, PLACES=places), rules)

    assert report.differs(dict(zip(places, ("ENOENT", None), strict=True))) == {}


def test_without_a_working_directory_there_is_no_repository(ground: Ground) -> None:
    cwd, where = subdirectory(ground.inside)
    rules = policy(workdir="none", run_as="self")
    report = there(cwd, program(READ, PLACES=[str(where / "config")]), rules)

    assert report[str(where / "config")].errno == "ENOENT"


def test_a_repository_that_a_cage_of_this_program_made_shows_no_more_to_the_next(ground: Ground) -> None:
    """The first had all of a directory; the second is given a part, around which the first has put a repository."""
    part = ground.inside / "around" / "part"
    part.mkdir(parents=True)
    later = ground.inside / "around" / "later"
    make = "git init -q around && cd around && git -c user.name=n -c user.email=n@x commit -q --allow-empty -m x"
    done = run(ground.inside, ["sh", "-c", make], policy(allow_write=[str(ground.inside)], run_as="self"))
    assert done.exit_code == 0, done
    later.write_text("written since")

    assert read(part, later) == {"later": "ENOENT"}


def test_a_pointer_that_changes_is_looked_at_again(ground: Ground) -> None:
    """A plan that was kept for the real pointer does not stand for another one."""
    tree, where = worktree(ground.inside)
    assert read(tree, where / "config") == {"config": None}
    (where / "worktrees" / "tree" / "gitdir").write_text(f"{ground.outside}/.git\n")

    assert read(tree, where / "config") == {"config": "ENOENT"}


# ---- places ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("home", "shown"), [("", False), ("repo", False), ("repo/sub", False), ("elsewhere", True), (".hidden", True)]
)
def test_a_repository_around_the_home_directory_is_not_shown(ground: Ground, home: str, shown: bool) -> None:
    cwd, _ = subdirectory(ground.inside)
    cwd = cwd / "deeper"
    cwd.mkdir()
    home_is = str(ground.inside / home).rstrip("/")
    found = find_repository(str(cwd), home_is)

    assert bool(found.shown) is (shown or home == "")


def test_a_repository_in_a_hidden_directory_of_the_home_is_shown_to_its_own_alone(ground: Ground) -> None:
    (ground.inside / ".passwords").mkdir()
    repo = repository(ground.inside / ".passwords" / "store")
    git(repo, "worktree", "add", "-q", str(ground.inside / "tree"))
    git(repo, "worktree", "add", "-q", "-b", "other", str(ground.inside / ".passwords" / "tree"))

    assert find_repository(str(ground.inside / "tree"), str(ground.inside)).shown == ()
    beside = find_repository(str(ground.inside / ".passwords" / "tree"), str(ground.inside))
    assert beside.shown == (str(repo / ".git"),)


@pytest.mark.parametrize("spoilt", ["world", "link"])
def test_a_directory_that_others_write_holds_no_repository(ground: Ground, spoilt: str) -> None:
    cwd, where = subdirectory(ground.inside)
    assert find_repository(str(cwd), "/nonexistent").shown
    if spoilt == "world":
        where.parent.chmod(0o777)
    else:
        (where / "objects").rename(ground.outside / "objects")
        (where / "objects").symlink_to(ground.outside / "objects")

    assert find_repository(str(cwd), "/nonexistent").shown == ()
