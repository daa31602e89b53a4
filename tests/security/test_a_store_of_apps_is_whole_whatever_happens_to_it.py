"""Claim: a full disk, a place nobody may write to, a clock that was set back, files of another user and many that
install, revoke and load at the same time leave a store that holds: what was installed stays, or what is new is whole.
"""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from _support.apps import constants, package, ran
from pysandbox.apps import App, AppPackage, AppStore, DeniedInstruction, Kernel
from pysandbox.apps import store as module
from pysandbox.errors import AppError


@pytest.fixture
def store(tmp_path: Path) -> AppStore:
    return AppStore(tmp_path / "apps")


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("when", ["fsync", "write", "mkdtemp"])
def test_an_install_that_finds_no_room_leaves_what_was_there(
    store: AppStore, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """At the grant, at the files, at the start."""
    store.install(package(), allow=("fs.use",))
    with monkeypatch.context() as patch:
        if when == "write":
            patch.setattr(AppPackage, "write", no_room)
        else:
            patch.setattr(module.os if when == "fsync" else module.tempfile, when, lambda *_, **__: no_room())
        with pytest.raises(AppError, match=r"notes\.app cannot be installed.*No space left"):
            store.install(package(version="2"))
    assert App.installed("notes.app", store).grant.version == "1.0"
    assert sorted(os.listdir(os.path.join(store.directory, "notes.app"))) == ["grant", "package"]
    assert store.install(package(version="2")).version == "2"


def test_a_log_that_finds_no_room_leaves_no_journal_of_another_run(
    store: AppStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.install(package([*constants({1: "docs2"}), ["FS_LIST", 2, 1], ["HALT"]]), allow=("fs.use",))
    outcome = App.installed("notes.app", store).run()
    store.keep_run("notes.app", outcome)
    assert store.last("notes.app", "journal.jsonl") == outcome.journal  # control
    monkeypatch.setattr(module.os, "fsync", no_room)
    with pytest.raises(AppError, match="cannot be kept"):
        store.keep_run("notes.app", outcome)
    monkeypatch.undo()
    with pytest.raises(AppError, match="has not run"):
        store.last("notes.app", "journal.jsonl")
    assert store.last("notes.app", "denials.jsonl") == outcome.log.text()
    assert sorted(os.listdir(os.path.join(store.directory, "notes.app"))) == ["denials.jsonl", "grant", "package"]


@pytest.mark.parametrize("now", [0.0, -1e9, 1e11])
def test_no_clock_decides_about_a_grant(store: AppStore, monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    store.install(package(), allow=("fs.use",))
    monkeypatch.setattr("time.time", lambda: now)
    assert store.require("notes.app").granted == ("fs.use",)
    assert store.install(package(version="2")).issued == int(now)
    assert App.installed("notes.app", store).run().ended == "halt"
    with pytest.raises(AppError, match="older"):
        store.install(package())


def test_what_another_user_owns_is_none(store: AppStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it would be for whoever comes to this store with another uid."""
    store.install(package(), allow=("fs.use",))
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(AppError, match="not yours alone"):
        AppStore(store.directory)
    for use in (store.require, store.load, lambda name: store.last(name, "grant")):
        with pytest.raises(AppError, match="not yours alone"):
            use("notes.app")


def test_a_place_nobody_may_write_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AppError, match=r"cannot be where apps are installed.*XDG_STATE_HOME"):
        AppStore(tmp_path / "file" / "apps")


def test_whoever_installs_revokes_and_loads_meanwhile_sees_whole_apps(store: AppStore) -> None:
    """Each version has its number in its program: what is loaded is of one version, or there is none."""
    wrong: list[object] = []
    over = threading.Event()

    def version(number: int) -> AppPackage:
        return package([["CONST", 1, number], ["HALT"]], version=str(number))

    def change(begin: int) -> None:
        own = AppStore(store.directory)
        for number in range(begin, begin + 30, 2):
            try:
                own.install(version(number), allow=("fs.use",))
                if number % 10 == begin:
                    own.revoke("notes.app")
            except AppError as error:
                if "is older" not in str(error) and "is not installed" not in str(error):
                    wrong.append(error)

    def look() -> None:
        while not over.is_set():
            try:
                grant, found = store.load("notes.app")
            except AppError as error:
                if "is not installed" not in str(error):
                    wrong.append(error)
            else:
                if found.files != version(int(grant.version)).files:
                    wrong.append(grant)

    threads = [threading.Thread(target=change, args=(begin,)) for begin in (1, 2)]
    looking = threading.Thread(target=look)
    for each in (*threads, looking):
        each.start()
    for each in threads:
        each.join()
    over.set()
    looking.join()
    assert not wrong, wrong


@pytest.mark.parametrize(
    "line",
    [b"x", b"[]", b"{}", b"null", b'"x"', b'{"tick": 1}', b"[" * 100_000, b"\xff", b"1e999", b'{"a": ' + b"9" * 5000],
    ids=lambda line: repr(line[:12]),
)
def test_a_log_that_somebody_wrote_is_refused_in_words(line: bytes) -> None:
    with Kernel() as kernel:
        log = ran([*constants({1: "docs2"}), ["FS_LIST", 2, 1], ["HALT"]], kernel).log
    assert DeniedInstruction.parse_log(log.text()) == list(log)  # control
    true = log.text().replace(b'"tick":2', b'"tick":true')
    for text in (log.text() + line, line + b"\n" + log.text(), true, true.replace(b"true", b'"\\u001b[2J"')):
        with pytest.raises(AppError, match="not as it was written"):
            DeniedInstruction.parse_log(text)
