"""Claim: an app runs under the grant that this user's key signed for these very files, and under no other: whatever was
edited, swapped, signed elsewhere or replaced by an older version is refused, and an update that widens is not taken
without a word.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from _support import apps
from pysandbox.apps import App, AppPackage, AppStore, Kernel
from pysandbox.apps.grant import GrantKey, sign, verify
from pysandbox.errors import AppError, PolicyError

from .harness import in_cage, program

PROGRAM = [["CONST", 1, "docs"], ["FS_LIST", 2, 1], ["HALT"]]


@pytest.fixture
def store(tmp_path: Path) -> AppStore:
    return AppStore(tmp_path / "state" / "apps")


def installed(store: AppStore, place: Path, **changes: object) -> Path:
    """The directory of the installed app in the store."""
    package = AppPackage.read(apps.write(place, PROGRAM, **changes))
    grant = store.install(package, allow=package.manifest().requested)
    return Path(store.directory) / grant.app_id


def test_control_what_was_signed_runs(store: AppStore, tmp_path: Path) -> None:
    installed(store, tmp_path / "notes")
    with Kernel(tmp_path) as kernel:
        assert App.installed("notes.app", store).run(kernel).ended == "halt"


def test_no_byte_of_a_record_can_be_changed(store: AppStore, tmp_path: Path) -> None:
    place = installed(store, tmp_path / "notes")
    record = (place / "grant").read_bytes()
    for at in range(len(record)):
        for bit in (0x01, 0x20, 0x80):
            changed = record[:at] + bytes((record[at] ^ bit,)) + record[at + 1 :]
            with pytest.raises(AppError):
                verify(changed, store.key, "notes.app")
    for changed in (record[:-1], record + b"\n", record[:-9], b"", b"\n", record.partition(b"\n")[0], record * 2):
        with pytest.raises(AppError):
            verify(changed, store.key, "notes.app")


@pytest.mark.parametrize("alg", ["none", "HMAC-SHA1", ""])
def test_the_record_does_not_choose_its_algorithm(store: AppStore, tmp_path: Path, alg: str) -> None:
    place = installed(store, tmp_path / "notes")
    body, _, mac = (place / "grant").read_bytes().partition(b"\n")
    text = json.dumps({**json.loads(body), "alg": alg}, sort_keys=True, separators=(",", ":")).encode()
    for record in (text + b"\n" + mac, text + b"\n\n", text + b"\n", text):
        (place / "grant").write_bytes(record)
        with pytest.raises(AppError, match="algorithm"):
            App.installed("notes.app", store)


def test_another_key_signs_nothing_here(store: AppStore, tmp_path: Path) -> None:
    place = installed(store, tmp_path / "notes")
    grant = store.require("notes.app")
    (place / "grant").write_bytes(sign(grant, GrantKey.of(b"x" * 32)))
    with pytest.raises(AppError, match="another key"):
        App.installed("notes.app", store)


def test_another_app_s_grant_is_none(store: AppStore, tmp_path: Path) -> None:
    place = installed(store, tmp_path / "notes")
    other = installed(store, tmp_path / "other", app_id="other.app", requested_capabilities=["fs.use", "win.manage"])
    shutil.copy(other / "grant", place / "grant")
    with pytest.raises(AppError, match=r"other\.app's"):
        App.installed("notes.app", store)


def test_files_that_were_changed_after_the_install_do_not_run(store: AppStore, tmp_path: Path) -> None:
    place = installed(store, tmp_path / "notes")
    target = place / "package" / "main.json"
    content = target.read_bytes()
    for change in (content + b" ", b'{"program": []}'):
        target.chmod(0o600)
        target.write_bytes(change)
        with pytest.raises(AppError, match="not those that were granted"):
            App.installed("notes.app", store)
    target.write_bytes(content)
    App.installed("notes.app", store)
    (place / "package" / "more").write_text("x")
    with pytest.raises(AppError, match="not those that were granted"):
        App.installed("notes.app", store)


def test_a_package_is_plain_files(store: AppStore, tmp_path: Path) -> None:
    place = apps.write(tmp_path / "notes")
    (place / "link").symlink_to("/etc/passwd")
    with pytest.raises(AppError, match="link"):
        AppPackage.read(place)
    (place / "link").unlink()
    os.mkfifo(place / "fifo")
    with pytest.raises(AppError, match="no file"):
        AppPackage.read(place)


def test_a_grant_that_does_not_hold_is_revoked_and_given_anew(store: AppStore, tmp_path: Path) -> None:
    """As every refusal of it says; without that word it is not replaced."""
    place = installed(store, tmp_path / "notes")
    for record in (b"", b"x", (place / "grant").read_bytes().replace(b"docs", b"socd")):
        (place / "grant").write_bytes(record)
        with pytest.raises(AppError, match="revoke it"):
            installed(store, tmp_path / "notes")
        assert store.revoke("notes.app") is None
        installed(store, tmp_path / "notes")
        assert App.installed("notes.app", store).grant.scopes.prefixes == ("docs",)


def test_an_older_version_is_refused(store: AppStore, tmp_path: Path) -> None:
    installed(store, tmp_path / "new", version="1.10")
    with pytest.raises(AppError, match="older"):
        installed(store, tmp_path / "old", version="1.9")
    store.revoke("notes.app")
    installed(store, tmp_path / "old", version="1.9")


def test_an_update_that_widens_is_taken_with_a_word_alone(store: AppStore, tmp_path: Path) -> None:
    installed(store, tmp_path / "one")
    wide = {"version": "2", "requested_capabilities": ["fs.use", "win.manage"]}
    package = AppPackage.read(apps.write(tmp_path / "two", PROGRAM, **wide))
    with pytest.raises(AppError, match=r"win\.manage: may make windows"):
        store.install(package, allow=("fs.use", "win.manage"))
    assert store.require("notes.app").version == "1.0"
    assert store.install(package).granted == ("fs.use",)
    assert store.install(package, allow=("fs.use", "win.manage"), accept=True).granted == ("fs.use", "win.manage")


def test_what_was_not_asked_for_is_never_granted(store: AppStore, tmp_path: Path) -> None:
    package = AppPackage.read(apps.write(tmp_path / "notes"))
    for word in ("win.manage", "*", "FS.use", "fs.use ", "net:a.example"):
        with pytest.raises(PolicyError):
            store.install(package, allow=(word,))
    assert store.app_ids() == []


@pytest.mark.parametrize("how", ["readable", "link", "short", "empty", "directory"])
def test_a_key_that_is_not_this_user_s_alone_signs_nothing(store: AppStore, how: str) -> None:
    key = Path(store.directory) / "key"
    if how == "readable":
        key.chmod(0o644)
    elif how in ("short", "empty"):
        key.write_bytes(b"x" * 16 if how == "short" else b"")
    else:
        key.rename(key.with_name("moved"))
        key.symlink_to("moved") if how == "link" else key.mkdir(mode=0o700)
    with pytest.raises(AppError, match="key"):
        AppStore(store.directory)


def test_a_revoked_app_does_not_run(store: AppStore, tmp_path: Path) -> None:
    installed(store, tmp_path / "notes")
    store.revoke("notes.app")
    with pytest.raises(AppError, match="not installed"):
        App.installed("notes.app", store)
    for odd in ("../notes.app", "key", "", ".", "a/b", "notes.app\0", "A"):
        with pytest.raises(AppError):
            App.installed(odd, store)


def test_no_cage_reaches_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever could read it could grant."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    AppStore()
    from pysandbox import Cage, Policy

    attack = """
        apps = PLACE + "/state/pysandbox/apps"
        attempt("list", os.listdir, apps)
        attempt("read", lambda: open(apps + "/key", "rb").read())
        attempt("plant", lambda: open(apps + "/planted", "w").write("x"))
        attempt("rename", os.rename, PLACE + "/state/pysandbox", PLACE + "/moved")
    """
    assert len((tmp_path / "state/pysandbox/apps/key").read_bytes()) == 32  # control: the host can
    tried = in_cage(Cage(Policy(allow_write=[str(tmp_path)])), program(attack, PLACE=str(tmp_path)))
    assert {name for name, each in tried.attempts.items() if each.errno is None} == set()
    assert sorted(os.listdir(tmp_path / "state/pysandbox/apps")) == ["key"]


def test_no_cage_plants_a_key_before_the_first_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made it would know it, and could grant."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    from pysandbox import Cage, Policy

    attack = """
        apps = PLACE + "/state/pysandbox/apps"
        attempt("make", os.makedirs, apps, 0o700)
        attempt("plant", lambda: open(apps + "/key", "wb").write(b"x" * 32))
        attempt("rename", os.rename, PLACE + "/state/pysandbox", PLACE + "/moved")
    """
    (tmp_path / "state").mkdir()
    in_cage(Cage(Policy(allow_write=[str(tmp_path)])), program(attack, PLACE=str(tmp_path)))
    assert AppStore().key.secret != b"x" * 32
