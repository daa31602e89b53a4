"""Manifests are read strictly, in both forms; a grant is a part of what was asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from _support.apps import manifest
from pysandbox.apps import AppManifest, Scopes
from pysandbox.apps.grant import reduce_request, sentences, wider
from pysandbox.errors import PolicyError

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"extra": 1}, "extra"), ({"app_id": "Notes"}, "app_id"), ({"app_id": "a/b"}, "app_id"),
    ({"app_id": ".."}, "app_id"),
    ({"app_id": "a\0"}, "app_id"), ({"app_id": "a" * 300}, "app_id"), ({"app_id": 1}, "app_id"),
    ({"version": "1.x"}, "version"),
    ({"version": "01"}, "version"), ({"version": 1.0}, "no integer"), ({"entrypoint": []}, "entrypoint"),
    ({"entrypoint": "../x"}, "entrypoint"), ({"entrypoint": ["-c"]}, "entrypoint"),
    ({"requested_capabilities": ["FS.use"]}, "fs.use"), ({"requested_capabilities": ["fs.us"]}, "fs.use"),
    ({"requested_capabilities": ["fѕ.use"]}, "no capability"), ({"requested_capabilities": "fs.use"}, "list"),
    ({"requested_capabilities": ["*"]}, "no capability"), ({"requested_capabilities": ["reed:fs:./x"]}, "read:fs"),
    ({"requested_capabilities": ["fs.use"] * 1025}, "list"),
    ({"resource_scopes": {"fs_prefix": []}}, "fs_prefixes"), ({"resource_scopes": []}, "table"),
    *(({"resource_scopes": {"fs_prefixes": [each]}}, "fs_prefixes") for each in
      ("*", "../x", "/etc", "docs//a", "./docs", "docs\0", "", "docs/..", "e\u0301") if each != "*"),
    ({"resource_scopes": {"domains_allowed": ["*"]}}, "domains_allowed"),
    ({"resource_scopes": {"domains_allowed": ["nötes"]}}, "domains_allowed"),
    ({"resource_scopes": {"channel_peers_allowed": [["a"]]}}, "pair"),
    ({"resource_scopes": {"channel_peers_allowed": [["a", "*"]]}}, "domain"),
    ({"resource_scopes": {"channel_peers_allowed": "all"}}, "list"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), WRONG, ids=lambda value: str(value)[:50])
def test_a_manifest_that_is_wrong_is_refused_by_name(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        AppManifest.parse(json.dumps(manifest(**changes)).encode(), "app.json")


@pytest.mark.parametrize("field", ["app_id", "version", "entrypoint", "requested_capabilities"])
def test_a_manifest_that_lacks_a_field_is_refused(field: str) -> None:
    given = manifest()
    del given[field]
    with pytest.raises(PolicyError, match=field):
        AppManifest.parse(json.dumps(given).encode(), "app.json")


@pytest.mark.parametrize(
    "content", [b"", b"\xef\xbb\xbfapp_id = 'a'", b"app_id = 1\napp_id = 2", b"a = nan", b"\xff", b"x = " + b"[" * 5000]
)
def test_a_file_that_is_no_toml_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(PolicyError, match=r"app\.toml"):
        AppManifest.parse(content, "app.toml")


def test_both_forms_become_one_manifest() -> None:
    text = b'name = "fetcher"\nversion = "0.3"\ncapabilities = ["net:API.example.com:443", "read:fs:data/"]\n'
    plugin = AppManifest.parse(text)
    assert plugin.requested == ("net:api.example.com:443", "read:fs:./data")
    assert (plugin.app_id, plugin.capabilities, plugin.argv) == ("fetcher", (), ())
    both = AppManifest.parse(
        json.dumps(manifest(requested_capabilities=["fs.use", "net:a.example"], entrypoint=["true"])).encode(), "x.json"
    )
    assert both.capabilities == ("fs.use",) and [each.what for each in both.plugin_words] == ["a.example"]


def read(**changes: Any) -> AppManifest:
    return AppManifest.parse(json.dumps(manifest(**changes)).encode(), "app.json")


def test_a_grant_is_a_part_of_the_request() -> None:
    asked = read(requested_capabilities=["fs.use", "chan.use"], resource_scopes={"fs_prefixes": ["docs", "mail"]})
    grant = reduce_request(asked, "d", ("fs.use",), Scopes(None, ("docs/a", "elsewhere"), frozenset()))
    assert grant.granted == ("fs.use",) and grant.scopes.prefixes == ("docs/a",)
    with pytest.raises(PolicyError, match=r"does not ask for win\.manage"):
        reduce_request(asked, "d", ("win.manage",))
    with pytest.raises(PolicyError, match="no capability"):
        reduce_request(asked, "d", ("*",))


def test_what_an_update_adds_is_told_in_sentences() -> None:
    old = reduce_request(read(), "d", ("fs.use",))
    same = reduce_request(read(version="1.1"), "e", ("fs.use",))
    more = reduce_request(
        read(requested_capabilities=["fs.use", "win.manage"], resource_scopes={"fs_prefixes": ["docs", "mail"]}),
        "e", ("fs.use", "win.manage"),
    )  # fmt: skip
    assert wider(same, old) == []
    told = wider(more, old)
    assert told[0].startswith("win.manage: may make windows")
    assert "under docs, mail; until now: may list" in told[1] and told[1].endswith("under docs")


def test_there_is_a_sentence_for_every_capability() -> None:
    words = ("fs.use", "chan.use", "win.manage", "input.route", "domain.emit", "read:fs:./a", "exec:bash:git status")
    assert all(": may " in line for line in sentences(words, Scopes()))
