"""Claim: to log denials without denying is for a package that is being written, asked for in so many words; no
environment, manifest or grant turns it on, and no installed app runs so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _support.apps import constants, manifest, package, reasons
from pysandbox.apps import App, AppManifest, AppStore, Kernel
from pysandbox.apps.grant import verify
from pysandbox.errors import AppError, PolicyError

PROGRAM = [*constants({1: "secret/a", 2: "w"}), ["FS_OPEN", 3, 1, 2], ["HALT"]]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work" / "secret").mkdir(parents=True)
    return tmp_path / "work"


def test_control_a_debug_run_that_reports_only_does_it(work: Path) -> None:
    with Kernel(work) as kernel:
        outcome = App.debug(package(PROGRAM)).run(kernel, debug=True, report_only=True)
    assert reasons(outcome) == ["denied_scope"] and (work / "secret/a").exists()
    assert b'"mode":"report_only"' in outcome.journal


def test_an_installed_app_refuses_the_mode(work: Path, tmp_path: Path) -> None:
    store = AppStore(tmp_path / "apps")
    store.install(package(PROGRAM), allow=("fs.use",))
    app = App.installed("notes.app", store)
    with Kernel(work) as kernel:
        for debug in (False, True):
            with pytest.raises(PolicyError, match="held to its grant"):
                app.run(kernel, debug=debug, report_only=True)
        assert reasons(app.run(kernel)) == reasons(app.run(kernel, debug=True)) == ["denied_scope"]
    assert list((work / "secret").iterdir()) == []


def test_without_the_word_it_is_refused(work: Path) -> None:
    app = App.debug(package(PROGRAM))
    with Kernel(work) as kernel:
        with pytest.raises(PolicyError, match="debug=True"):
            app.run(kernel, report_only=True)
        with pytest.raises(PolicyError, match="not signed"):
            app.run(kernel)
        assert reasons(app.run(kernel, debug=True)) == ["denied_scope"]


@pytest.mark.parametrize("key", ["mode", "report_only", "policy_mode", "debug"])
def test_a_manifest_has_no_word_for_it(key: str) -> None:
    with pytest.raises(PolicyError, match=key):
        AppManifest.parse(json.dumps(manifest(**{key: "report_only"})).encode(), "app.json")


def test_a_grant_that_says_so_is_none_even_with_the_right_key(tmp_path: Path) -> None:
    store = AppStore(tmp_path / "apps")
    store.install(package(PROGRAM), allow=("fs.use",))
    body = json.loads((tmp_path / "apps/notes.app/grant").read_bytes().partition(b"\n")[0])
    text = json.dumps({**body, "mode": "report_only"}, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    with pytest.raises(AppError):
        verify(text + store.key.mac(text).encode() + b"\n", store.key, "notes.app")


def test_no_variable_turns_it_on(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSANDBOX_REPORT_ONLY", "PYSANDBOX_DEBUG", "REPORT_ONLY", "DEBUG"):
        monkeypatch.setenv(name, "1")
    with Kernel(work) as kernel:
        assert reasons(App.debug(package(PROGRAM)).run(kernel, debug=True)) == ["denied_scope"]
