"""Claim: a journal, a grant or a package that somebody forged is refused in words, and no other app suffers; memory and
names that a run takes are bounded.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from _support.apps import constants, manifest, package, ran
from pysandbox import Policy
from pysandbox.apps import App, AppManifest, AppPackage, AppStore, Kernel
from pysandbox.apps.journal import read_journal
from pysandbox.apps.kernel import fs
from pysandbox.apps.process import require_reachable
from pysandbox.apps.scope import _is_spelled, is_path
from pysandbox.errors import AppError, PolicyError
from pysandbox.runtime.runtime import Runtime

LISTING = [["CONST", 1, "docs"], ["FS_LIST", 2, 1], ["JUMP_IF", 2, 0], ["HALT"]]
WORDS = {"entrypoint": ["true"], "requested_capabilities": ["read:fs:./state"]}


def forged(journal: bytes, came: Sequence[object], **last: object) -> bytes:
    """With digests that fit."""
    lines = journal.splitlines(keepends=True)
    body = lines[0] + b"".join(json.dumps(each).encode() + b"\n" for each in came)
    fields = {**json.loads(lines[-1]), "lines": hashlib.sha256(body).hexdigest(), **last}
    return body + json.dumps(fields).encode() + b"\n"


@pytest.mark.parametrize(
    "came",
    [["failed", 5], ["failed", "errorcode"], ["failed", ["x"]], ["denied", "foo"], ["denied", 5], ["ok", 1.5],
     ["ok", [1]], ["ok", {"c": 1}], ["ok", {"b": 5}], [["ok"], 1], ["ok", True], ["asked", "x"], [], None],
    ids=repr,
)  # fmt: skip
def test_a_forged_journal_is_refused(came: object) -> None:
    app = App.debug(package(LISTING))
    with Kernel() as kernel:
        journal = app.run(kernel, debug=True).journal
    assert app.replay(journal).ended == "halt"  # control
    with pytest.raises(AppError):
        app.replay(forged(journal, [came]))
    for ended in ("\x1b[2J", 5, None, ["halt"], "halt\n"):
        with pytest.raises(AppError):
            app.replay(forged(journal, [["failed", "ENODEV"]], ended=ended))


@pytest.mark.parametrize("budget", [[1, 1 << 60, 1], [-1, 1, 1], [True, 1, 1], [1, 1], "x", None], ids=repr)
def test_a_journal_with_a_budget_that_no_run_has_is_refused(budget: object) -> None:
    """A log without an end would be the memory of whoever repeats it."""
    app = App.debug(package())
    lines = app.run(debug=True).journal.splitlines(keepends=True)
    head = json.dumps({**json.loads(lines[0]), "budget": budget}).encode() + b"\n"
    last = {**json.loads(lines[-1]), "lines": hashlib.sha256(head).hexdigest()}
    with pytest.raises(AppError, match=r"budget that no run has|none of this version"):
        app.replay(head + json.dumps(last).encode() + b"\n")


def test_what_is_no_file_is_no_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(AppError, match="is no journal"):
            read_journal(str(path))


@pytest.mark.parametrize("value", [5, "a\0b", "../x", "/etc/passwd", "", ".pysandbox-trash/x"], ids=repr)
@pytest.mark.parametrize("opcode", ["FS_LIST", "FS_OPEN", "FS_COPY", "FS_MOVE", "FS_DELETE", "FS_RESTORE", "EMIT"])
def test_a_run_that_reports_only_survives_any_operand(tmp_path: Path, opcode: str, value: object) -> None:
    operands = {"FS_LIST": [2, 1], "FS_OPEN": [2, 1, 1], "FS_DELETE": [1]}.get(opcode, [1, 1])
    program = package([["CONST", 1, value], [opcode, *operands], ["HALT"]])
    with Kernel(tmp_path) as kernel:
        outcome = App.debug(program).run(kernel, debug=True, report_only=True)
    assert outcome.ended == "halt" and len(outcome.log) == 1


@pytest.mark.parametrize("how", ["link", "fifo", "directory", "link to itself"])
def test_one_bad_grant_leaves_the_others_listed(tmp_path: Path, how: str) -> None:
    store = AppStore(tmp_path / "apps")
    store.install(package(), allow=("fs.use",))
    place = Path(store.directory) / "bad.app"
    place.mkdir()
    if how == "fifo":
        os.mkfifo(place / "grant", 0o600)
    elif how == "directory":
        (place / "grant").mkdir(0o700)
    else:
        (place / "grant").symlink_to("/etc/passwd" if how == "link" else "grant")
    with pytest.raises(AppError):
        store.require("bad.app")
    assert store.app_ids() == ["bad.app", "notes.app"] and store.require("notes.app")
    assert store.revoke("bad.app") is None and store.app_ids() == ["notes.app"]
    assert Path("/etc/passwd").exists()


@pytest.mark.parametrize("how", ["link", "writable", "file"])
def test_a_store_that_is_open_to_others_is_none(tmp_path: Path, how: str) -> None:
    place = tmp_path / "apps"
    if how == "link":
        (tmp_path / "elsewhere").mkdir(0o700)
        place.symlink_to("elsewhere")
    elif how == "file":
        place.touch(0o600)
    else:
        place.mkdir()
        place.chmod(0o777)
    with pytest.raises(AppError, match="not yours alone"):
        AppStore(place)


def test_what_a_manifest_asks_for_and_cannot_get_is_refused() -> None:
    for changes in ({"requested_capabilities": ["net:a.example"]}, {"entrypoint": ["a", "\ud800"]}):
        with pytest.raises(PolicyError):
            AppManifest.parse(json.dumps(manifest(**changes)).encode(), "app.json")
    plugin = {"name": "x", "version": "1", "capabilities": ["read:fs:./a"], "entrypoint": "main.json"}
    with pytest.raises(PolicyError, match="argv"):
        AppManifest.parse(json.dumps(plugin).encode(), "app.json")


@pytest.mark.parametrize("part", [b"a", b'"="', b"'='", b'"\\""', b'" "', b'"#"'], ids=repr)
@pytest.mark.parametrize("form", [b"%s = 1", b"[%s]", b"x = {%s = 1}"], ids=repr)
def test_a_manifest_of_many_dots_is_refused_before_it_is_read(part: bytes, form: bytes) -> None:
    """tomllib takes time and memory with the square of the parts of a key: half a million would be all there is."""
    for parts in (100_000, 200):
        content = form % b" . ".join([part] * parts)
        with pytest.raises(PolicyError, match=r"128 dots|larger than"):
            AppManifest.parse(content)
    with pytest.raises(PolicyError, match=r"no such key|lacks"):
        AppManifest.parse(form % b".".join([part] * 12))  # control: that is read


@pytest.mark.parametrize("part", ["a", '"="', "'='", '"\\""', '"#"'], ids=repr)
def test_so_is_a_policy(part: str) -> None:
    with pytest.raises(PolicyError, match="more than 64 parts"):
        Policy.parse(" . ".join([part] * 2000) + " = 1\n")


def test_long_paths_are_not_kept_in_memory() -> None:
    _is_spelled.cache_clear()
    assert not any(is_path(f"{number}{'x' * 60_000}") for number in range(10)) and is_path("x")  # control: a short one
    assert _is_spelled.cache_info().currsize == 1


@pytest.mark.parametrize("name", [".PYSANDBOX-TRASH", ".py\u017fandbox-trash", ".pysandbox\u200c-trash"])
def test_no_other_case_names_the_trash(name: str) -> None:
    """A directory that folds case (ext4) has one file for all of them."""
    assert is_path(f"{name}s") and not is_path(name) and not is_path(f"{name}/x")


def test_a_list_fits_the_port(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / ("é" * 100 + str(number))).touch()
    with Kernel(tmp_path) as kernel:
        outcome = ran([["CONST", 1, "."], ["FS_LIST", 2, 1], ["HALT"]], kernel,
                      resource_scopes={"fs_prefixes": ["."]})  # fmt: skip
    assert b'["failed","E2BIG"]' in outcome.journal


def test_the_names_that_a_run_makes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fs, "MADE", 10)
    (tmp_path / "docs").mkdir()
    loop = [["FS_OPEN", 3, 1, 2], ["JUMP_IF", 0, 6], ["FS_CLOSE", 3], ["FS_DELETE", 1], ["JUMP", 2]]
    with Kernel(tmp_path) as kernel:
        outcome = ran([*constants({1: "docs/a", 2: "w"}), *loop, ["HALT"]], kernel)
    assert b'["failed","EDQUOT"]' in outcome.journal and len(list((tmp_path / ".pysandbox-trash").iterdir())) == 5


def test_a_process_is_never_run_without_a_cage(tmp_path: Path) -> None:
    app = App.debug(package(**WORDS))
    with Kernel(tmp_path) as kernel, pytest.raises(PolicyError, match="without a cage"):
        app.run(kernel, debug=True, runtime=Runtime(no_sandbox=True, warm=0))


def test_no_word_of_a_plugin_names_the_store(tmp_path: Path) -> None:
    grant = App.debug(package(**WORDS)).grant
    require_reachable(grant, str(tmp_path), str(tmp_path / "other"))  # control
    for store in (tmp_path / "state", tmp_path / "state" / "apps", tmp_path):
        with pytest.raises(PolicyError, match="where apps are installed"):
            require_reachable(grant, str(tmp_path), str(store))


def test_a_package_behind_a_link_is_that_package(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "app.json").write_text(json.dumps(manifest()))
    (tmp_path / "way").symlink_to("p")
    assert AppPackage.read(tmp_path / "way").digest == AppPackage.read(tmp_path / "p").digest
