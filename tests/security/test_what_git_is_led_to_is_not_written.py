"""Claim: a cage that may write a project does not write what the configuration of a repository there, around it, or the
user's own makes git run or obey by itself: a directory of hooks by another name, included files, filters, helpers.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import pysandbox
from pysandbox.policy.git_config import variables
from pysandbox.probe import configured, paths
from pysandbox.probe.guards import real_place
from pysandbox.probe.small_file import read_small

from .conftest import Ground
from .harness import caged, policy, program, uncaged

REFUSED = ("EROFS", "EBUSY", "EXDEV", "EPERM", "EACCES")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
ATTACK = """
    attempt("append", lambda: open(FILE, "a").write("#"))
    attempt("replace", os.replace, OTHER, FILE)
    attempt("move", os.rename, FILE, FILE + ".old")
    attempt("make beside", lambda: open(os.path.dirname(FILE) + "/" + BESIDE, "x"))
"""
# What a configuration says, and the file of the project that git then obeys by itself.
LED = {
    "hooks": ('[core]\n\thooksPath = tools/hooks\n', "tools/hooks/pre-commit"),
    "hooks on the line of the section": ('[CORE] hookspath="tools/hooks" ; ours\n', "tools/hooks/pre-commit"),
    "include": ("[include]\n\tpath = ../project.gitconfig\n", "project.gitconfig"),
    "include where": ('[includeIf "gitdir:**"]\n\tpath = ../conf/a.inc\n', "conf/a.inc"),
    "include of an include": ("[include]\n\tpath = ../conf/first\n", "conf/second"),
    "filter": ('[filter "x"]\n\tclean = python3 tools/clean.py %f\n', "tools/clean.py"),
    "filter beside": ('[filter "x"]\n\tsmudge = sh smudge.sh\n', "smudge.sh"),
    "monitor": ("[core]\n\tfsmonitor = ./tools/monitor\n", "tools/monitor"),
    "ssh": ("[core]\n\tsshCommand = \\\n\"./tools/ssh\" -v\n", "tools/ssh"),
    "credential": ('[credential "https://x.example"]\n\thelper = !./tools/helper\n', "tools/helper"),
    "by a link before ..": ("[core]\n\thooksPath = ../SIBLING/l/../hk\n", "deep/hk/pre-commit"),
    "by another name of the project": ("[core]\n\thooksPath = ALIAS/tools/hooks\n", "tools/hooks/pre-commit"),
    "with a BOM and CRLF": ("\r\n[core]\r\n\thooksPath = tools/hooks\r\n", "tools/hooks/pre-commit"),
    "pager of a command": ("[pager]\n\tlog = ./tools/pager -x\n", "tools/pager"),
    "in quotes with a space": ("[core]\n\tsshCommand = \\\"./my tools/ssh\\\" -v\n", "my tools/ssh"),
    "absolute": ("[core]\n\thooksPath = PROJECT/tools/./hooks/../hooks\n", "tools/hooks/pre-commit"),
}  # fmt: skip


TEXTS = (
    '[core]\n\thooksPath = "a b"\n',
    '[CORE] hooksPath = a # b\n[core] x = "a # b" ; c\n',
    '[filter "X.y \\"z"]\n clean = a \\\n  b\n smudge="a\\\\b\\"c" d\n',
    "[a]\nflag\n b = \n c=1=2\n\n# d = e\n;f = g\n[b]h=i\n",
    '[credential "https://x.example/a"]\n\thelper =\n\thelper = !f() { echo "x"; }; f\n',
    "[core]\n\tworktree = ../../tree\n\ttab = a\\tb\n",
)


def repository(top: Path, config: str, file: str) -> Path:
    """With that in its configuration, and the file that it leads to."""
    top.mkdir(parents=True, exist_ok=True)
    subprocess.run([*GIT, "init", "-q"], cwd=top, check=True, timeout=60)
    with (top / ".git" / "config").open("a") as own:
        alias = top.parent.parent / "outside" / f"alias-{top.name}"
        said = config.replace("PROJECT", str(top)).replace("ALIAS", str(alias)).replace("../SIBLING", str(top))
        own.write(said)
    if str(alias) in said:
        alias.symlink_to(top)
    if "/l/.." in said:
        (top / "deep/below").mkdir(parents=True)
        (top / "l").symlink_to("deep/below")
    if "\r" in said:
        before = (top / ".git/config").read_bytes()
        (top / ".git/config").write_bytes(b"\xef\xbb\xbf" + before)
    for name, text in ((file, "#!/bin/sh\n"), ("conf/first", "[include]\n\tpath = second\n"), ("other", "")):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top / file


def tried(top: Path, file: Path, granted: Path, **options: object) -> dict[str, str | None]:
    argv = program(ATTACK, FILE=str(file), OTHER=str(top / "other"), BESIDE="post-commit")
    report = caged(argv, policy(allow_write=[str(granted)], **options))
    return {name: each.errno for name, each in report.attempts.items()}


@pytest.mark.parametrize("name", LED)
def test_what_its_configuration_leads_to_is_not_written(ground: Ground, name: str) -> None:
    file = repository(ground.inside / "a", *LED[name])
    before = file.read_bytes()
    found = tried(ground.inside / "a", file, ground.inside)
    assert {each for each in ("append", "replace", "move") if found[each] not in REFUSED} == set(), found
    assert file.read_bytes() == before
    if "hooks" in LED[name][1]:
        assert found["make beside"] in REFUSED, "nor is another hook made there"


def test_without_such_a_configuration_and_where_it_is_opened_by_name_it_is_written(ground: Ground) -> None:
    file = repository(ground.inside, "", LED["hooks"][1])
    assert tried(ground.inside, file, ground.inside)["append"] is None
    (ground.inside / ".git" / "config").write_text(LED["hooks"][0])
    other = repository(ground.inside, *LED["hooks"])
    assert tried(ground.inside, other, ground.inside, unguarded=[".git"])["append"] is None
    argv = program(ATTACK, FILE=str(other), OTHER=str(ground.inside / "other"), BESIDE="x")
    assert uncaged(argv)["append"].errno is None


def test_git_does_run_it(ground: Ground) -> None:
    """The control: a commit on the host runs the file that is guarded."""
    file = repository(ground.inside, *LED["hooks"])
    file.write_text(f"#!/bin/sh\ntouch {ground.outside}/ran\n")
    file.chmod(0o755)
    subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "x"], cwd=ground.inside, check=True, timeout=60)
    assert (ground.outside / "ran").exists()


def test_a_grant_inside_a_repository_counts_like_the_repository(ground: Ground) -> None:
    top = ground.inside
    file = repository(top, *LED["hooks"])
    assert tried(top, file, top / "tools")["append"] in REFUSED
    assert tried(top, file, top / "tools" / "hooks")["append"] in REFUSED, "the hooks that are there, one by one"


def test_a_submodule_has_the_configuration_that_lies_elsewhere(ground: Ground) -> None:
    deep = ground.inside / "a/b/c/d/e"
    repository(deep, "", LED["hooks"][1])
    kept = ground.inside / ".git/modules/e"
    repository(ground.inside, "", "file")
    (kept.parent).mkdir()
    (deep / ".git").rename(kept)
    (kept / "config").write_text("[core]\n\tworktree = ../../../a/b/c/d/e\n" + LED["hooks"][0])
    assert tried(deep, deep / LED["hooks"][1], ground.inside)["append"] in REFUSED


def test_a_linked_worktree_has_the_configuration_of_its_repository(ground: Ground) -> None:
    main = ground.outside / "main"
    repository(main, *LED["hooks"])
    subprocess.run([*GIT, "commit", "-q", "--no-verify", "--allow-empty", "-m", "x"], cwd=main, check=True, timeout=60)
    linked = ground.inside / "linked"
    subprocess.run([*GIT, "worktree", "add", "-q", str(linked)], cwd=main, check=True, timeout=60)
    for name in ("tools/hooks/pre-commit", "other"):
        (linked / name).parent.mkdir(parents=True, exist_ok=True)
        (linked / name).touch()
    assert tried(linked, linked / "tools/hooks/pre-commit", ground.inside)["append"] in REFUSED


def test_what_the_user_s_own_configuration_names_is_guarded_in_each_repository(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ground.outside / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(LED["hooks"][0])
    file = repository(ground.inside, "", LED["hooks"][1])
    monkeypatch.setattr(paths, "home", lambda: str(home))
    assert tried(ground.inside, file, ground.inside)["append"] in REFUSED


def is_told_when_made(top: Path, name: str) -> None:
    made = pysandbox.run(["/bin/touch", str(top / name)], policy=policy(allow_write=[str(top)], run_as="self"))
    assert any(name in note.message and "made" in note.message for note in made.notes), made.notes


def test_a_name_that_is_not_there_is_told_when_a_cage_has_made_it(ground: Ground) -> None:
    top = ground.inside
    repository(top, "[include]\n\tpath = ../absent.inc\n", "file")
    is_told_when_made(top, "absent.inc")


def test_a_configuration_that_changes_counts_in_the_next_run_of_a_kept_plan(ground: Ground) -> None:
    top = ground.inside
    file = repository(top, "", LED["hooks"][1])
    script = f"open({str(file)!r}, 'a').write('#!')"
    argv = [sys.executable, "-m", "pysandbox", "run", "--", "/usr/bin/python3", "-c", script]
    time.sleep(0.1)  # a plan made from what changed a moment ago is not kept
    for _ in range(2):
        subprocess.run(argv, cwd=top, capture_output=True, timeout=60)
    before = file.read_text()
    assert before.endswith("#!#!"), "the control: it may be written until something leads to it"
    with (top / ".git" / "config").open("a") as config:  # in its place: the inode is the same
        config.write(LED["hooks"][0])
    subprocess.run(argv, cwd=top, capture_output=True, timeout=60)
    assert file.read_text() == before


def test_no_configuration_of_a_stranger_holds_up_or_ends_the_look(ground: Ground) -> None:
    """A pipe, a loop of includes, a link, more than is read: the cage starts, and the last is told."""
    top = ground.inside
    loops = "[include]\n\tpath = config\n\tpath = ../pipe\n\tpath = ../link\n\tpath = \n\tpath = /dev/zero\n"
    file = repository(top, loops + "[core]\n\thooksPath = ../../../etc\n\thooksPath = .\n" + LED["hooks"][0], "x/y")
    subprocess.run(["mkfifo", str(top / "pipe")], check=True, timeout=60)
    (top / "link").symlink_to("/etc/passwd")
    assert tried(top, file, top)["append"] is None
    (top / "a").mkdir()
    repository(top / "a", "\n" * configured.LONGEST, "x")
    result = pysandbox.run(["/bin/true"], policy=policy(allow_write=[str(top)]))
    assert any("more of git's configuration" in note.message for note in result.notes)


@pytest.mark.parametrize("variable", ["HOME", "GIT_CONFIG_GLOBAL"])
def test_the_user_s_configuration_may_be_a_link_or_lie_elsewhere(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """A directory of dotfiles, a home that the variable names: what it says holds, and it is not written itself."""
    top, home = ground.inside, ground.outside / "home"
    home.mkdir()
    file = repository(top, "", LED["hooks"][1])
    (top / "dotfile").write_text(LED["hooks"][0])
    (home / ".gitconfig").symlink_to(top / "dotfile")
    monkeypatch.setenv(variable, str(home if variable == "HOME" else home / ".gitconfig"))
    assert tried(top, file, top)["append"] in REFUSED
    assert tried(top, top / "dotfile", top)["append"] in REFUSED
    for each in (top / "dotfile", file):
        assert tried(top, each, top, unguarded=[".git"])["append"] is None, "the control"


def search_in(top: Path) -> tuple[configured.ConfiguredSearch, set[str]]:
    look = configured.ConfiguredSearch(str(top), str(top / "no-home"), partial(paths.follow, entries={}))
    return look, {guard.path for guard in look.of(str(top / ".git"))}


@pytest.mark.parametrize("how", ["include", "link"])
def test_nobody_who_writes_in_the_grant_has_something_read_outside(ground: Ground, how: str) -> None:
    """The file says where it was read, by what it names; that it was not read is told."""
    top, beyond = ground.inside, ground.outside / "beyond.inc"
    beyond.write_text(LED["hooks"][0])
    repository(top, f"[include]\n\tpath = {beyond if how == 'include' else '../near.inc'}\n", LED["hooks"][1])
    (top / "near.inc").write_text(LED["hooks"][0])
    if how == "link":
        look, found = search_in(top)
        assert str(top / "tools/hooks") in found, "the control"
        assert not look.ended_early
        (top / "near.inc").unlink()
        (top / "near.inc").symlink_to(beyond)
    look, found = search_in(top)
    assert str(top / "tools/hooks") not in found
    assert str(beyond) not in dict(look.read)
    assert look.ended_early


def test_whoever_waits_at_a_pipe_is_not_let_in(ground: Ground) -> None:
    pipe = ground.inside / "pipe"
    os.mkfifo(pipe)
    with inotify(pipe) as opened:
        os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))
        assert opened(), "the control: it is seen"
        assert read_small(str(pipe), 100)[0] is None
        assert not opened()


def test_a_file_that_becomes_a_directory_meanwhile_ends_no_start(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another cage exchanges them between the two looks; open() of a directory's descriptor raises, and leaks it."""
    link, opens = ground.inside / "link", os.open
    link.write_text("gitdir: /elsewhere")
    monkeypatch.setattr(os, "open", lambda path, flags: opens(ground.inside, flags))
    held = len(os.listdir("/proc/self/fd"))
    assert read_small(str(link), 100)[0] is None
    assert len(os.listdir("/proc/self/fd")) == held


def test_what_many_repositories_name_is_examined_within_one_budget(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, examined = ground.inside, 0
    repository(top, "", "file")
    (top / "words").write_text("[core]\n\tpager = " + " ".join(f"w{n}" for n in range(1500)) + "\n")
    for n in range(10):
        (top / f".git/modules/{n}").mkdir(parents=True)
        (top / f".git/modules/{n}/config").write_text("[include]\n\tpath = ../../../words\n")
    lexists = os.path.lexists

    def counted(path: str) -> bool:
        nonlocal examined
        examined += 1
        return lexists(path)

    monkeypatch.setattr(os.path, "lexists", counted)
    look = configured.ConfiguredSearch(str(top), str(top / "no-home"), partial(paths.follow, entries={}))
    for n in range(10):
        list(look.of(str(top / f".git/modules/{n}"), bare=True))
        assert look.ended_early == (n > 1), "the control: two are within it"
    assert 3000 <= examined <= configured.MOST_WORDS


def test_hooks_that_are_not_there_are_told_where_the_grant_lies_in_their_directory(ground: Ground) -> None:
    top = ground.inside
    repository(top, "[core]\n\thooksPath = .\n", "file")
    is_told_when_made(top, "pre-push")


def test_a_directory_that_was_moved_behind_a_link_is_found_where_it_is(ground: Ground) -> None:
    source = ground.inside / "src"
    source.mkdir()
    assert real_place(str(source)) == str(source)
    (ground.inside / "sub").mkdir()
    source.rename(ground.inside / "sub/src2")
    source.symlink_to("sub/src2")
    assert real_place(str(source)) == str(ground.inside / "sub/src2")


@contextmanager
def inotify(path: Path) -> Iterator[Callable[[], bytes]]:
    """What tells whether somebody has opened it since."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert fd >= 0
    assert libc.inotify_add_watch(fd, os.fsencode(path), 0x20) >= 0  # IN_OPEN

    def opened() -> bytes:
        try:
            return os.read(fd, 4096)
        except BlockingIOError:
            return b""

    try:
        yield opened
    finally:
        os.close(fd)


def by_git(folder: Path, text: str) -> list[tuple[str, str]]:
    (folder / "config").write_text(text)
    argv = ["git", "config", "--no-includes", "-z", "--list", "--file", str(folder / "config")]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout
    rows = (row.partition("\n") for row in said.split("\0")[:-1])
    return [(f"{key.partition('.')[0]}.{key.rpartition('.')[2]}".lower(), value.strip()) for key, _, value in rows]


@pytest.mark.parametrize("text", TEXTS)
def test_it_reads_what_git_reads(tmp_path: Path, text: str) -> None:
    assert list(variables(text)) == by_git(tmp_path, text)


@pytest.mark.parametrize("variable", ["GIT_CONFIG_GLOBAL", "HOME", "XDG_CONFIG_HOME"])
def test_what_the_host_program_says_later_counts_for_the_next_cage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """One program, one policy: the plan of the first cage is not that of the second."""
    project, hook = tmp_path / "project", tmp_path / "project" / "tools" / "pre-commit"
    hook.parent.mkdir(parents=True)
    subprocess.run([*GIT, "init", "-q", str(project)], check=True)
    config = {"GIT_CONFIG_GLOBAL": "mine", "HOME": ".gitconfig", "XDG_CONFIG_HOME": "git/config"}[variable]
    (tmp_path / "later" / config).parent.mkdir(parents=True)
    (tmp_path / "later" / config).write_text(f"[core]\n\thooksPath = {hook.parent}\n")
    rules = pysandbox.Policy(allow_write=[str(project)])
    write = ["sh", "-c", f"echo x > {hook}"]
    assert pysandbox.run(write, rules).ok, "the control: nothing leads git there yet"
    hook.unlink()

    monkeypatch.setenv(variable, str(tmp_path / "later" / ("mine" if variable == "GIT_CONFIG_GLOBAL" else "")))

    assert not pysandbox.run(write, rules).ok
    assert not hook.exists()
