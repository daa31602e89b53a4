"""Claim: an update that would get more is refused unless that is accepted, however its scopes are spelled, and what is
told of it says what it gets.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from _support.apps import package
from pysandbox.apps import AppPackage, AppStore, Scopes
from pysandbox.errors import AppError


@pytest.fixture
def store(tmp_path: Path) -> AppStore:
    return AppStore(tmp_path / "apps")


def scoped(version: str, **scopes: object) -> AppPackage:
    words = ["chan.use", "fs.use", "input.route"]
    return package(version=version, requested_capabilities=words, resource_scopes=scopes)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"fs_prefixes": ["a, b"]}, {"fs_prefixes": ["a", "b"]}),
        ({"fs_prefixes": ["docs"]}, {"fs_prefixes": ["."]}),
        ({"fs_prefixes": ["docs/inner"]}, {"fs_prefixes": ["docs"]}),
        ({"domains_allowed": ["desk"]}, {}),
        ({"domains_allowed": []}, {"domains_allowed": ["desk"]}),
        ({"channel_peers_allowed": [["a", "b"]]}, {"channel_peers_allowed": [["b", "a"]]}),
        ({"channel_peers_allowed": [["a", "b"]]}, {"channel_peers_allowed": "*"}),
        ({"fs_prefixes": ["docs"], "domains_allowed": ["a"]}, {"fs_prefixes": ["docs/x"], "domains_allowed": ["b"]}),
    ],
)
def test_what_is_wider_is_refused(store: AppStore, before: dict[str, object], after: dict[str, object]) -> None:
    words = ("chan.use", "fs.use", "input.route")
    old = store.install(scoped("1", **before), allow=words)
    assert store.install(scoped("1.1", **before), allow=words).scopes == old.scopes  # control: the same is no more
    with pytest.raises(AppError, match="would get more"):
        store.install(scoped("2", **after), allow=words)
    assert store.require("notes.app").version == "1.1"
    accepted = store.install(scoped("2", **after), allow=words, accept=True)
    assert accepted.scopes == scoped("2", **after).manifest().scopes


def test_an_update_keeps_what_was_reduced(store: AppStore) -> None:
    wide = {"fs_prefixes": ["docs"], "domains_allowed": ["a", "b"]}
    reduced = Scopes(frozenset("a"), ("docs/x",), None)
    first = store.install(scoped("1", **wide), allow=("fs.use",), reduce=reduced)
    again = store.install(scoped("2", **wide))
    assert (again.granted, again.scopes) == (first.granted, first.scopes)
    assert first.scopes == Scopes(frozenset("a"), ("docs/x",), frozenset())


MACHINE, PROCESS, OTHER = "main.json", ["python3", "main.py"], ["python3", "-c", "import other"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (MACHINE, PROCESS, "runs a process in a cage: python3 main.py; until now: runs main.json in the machine"),
        (PROCESS, OTHER, "-c 'import other'; until now: runs a process in a cage: python3 main.py"),
        (PROCESS, [*PROCESS, "--more"], "until now: runs a process in a cage: python3 main.py"),
    ],
)
def test_another_command_is_more(store: AppStore, before: object, after: object, told: str) -> None:
    store.install(package(entrypoint=before), allow=("fs.use",))
    store.install(package(entrypoint=before, version="1.1"))  # control: the same is no more
    update = package(entrypoint=after, version="2")
    for allow in (None, ("fs.use",), ()):
        with pytest.raises(AppError, match="would get more") as caught:
            store.install(update, allow=allow)
        assert told in str(caught.value)
    assert store.load("notes.app").manifest.version == "1.1"
    store.install(update, accept=True)
    store.install(package(entrypoint=MACHINE, version="3"))  # no process any more: nothing is got by that


def test_a_command_that_nobody_knows_any_more_is_another_one(store: AppStore) -> None:
    store.install(package(entrypoint=PROCESS), allow=("fs.use",))
    manifest = Path(store.directory) / "notes.app" / "package" / "app.json"
    manifest.chmod(0o600)
    for content in (manifest.read_bytes().replace(b"main.py", b"that.py"), b"", b"\xff"):
        manifest.write_bytes(content)
        with pytest.raises(AppError, match="until now: unknown"):
            store.install(package(entrypoint=PROCESS, version="2"))
    store.install(package(version="2"))  # a program of the machine is no more, whatever was there


def test_what_a_command_says_forges_no_sentence(store: AppStore) -> None:
    store.install(package(), allow=("fs.use",))
    forged = ["python3", "x; until now: runs python3 x", "\x1b[2J\n\u202e", *["word"] * 100]
    with pytest.raises(AppError) as caught:
        store.install(package(entrypoint=forged, version="2"))
    text = str(caught.value)
    assert "'x; until now: runs python3 x'" in text and text.isprintable() and "and 95 more words" in text


def test_two_at_once_leave_one_whole_app_and_one_key(tmp_path: Path) -> None:
    """Versions 1 to 8, each by a store of its own, that come to the first key at the same time."""
    began, failed = threading.Barrier(8), []

    def install(version: int) -> None:
        began.wait()
        try:
            AppStore(tmp_path / "apps").install(scoped(str(version), fs_prefixes=["docs"]), allow=("fs.use",))
        except AppError as error:
            failed.append(str(error))

    threads = [threading.Thread(target=install, args=(number,)) for number in range(1, 9)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all("is older" in each for each in failed), failed
    assert AppStore(tmp_path / "apps").load("notes.app").grant.version == "8"
