"""`pysandbox dlp`: what it prints, its documents, its exit codes; and that no value is ever printed."""

from __future__ import annotations

import base64
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pysandbox.cli import dlp
from pysandbox.dlp import registry

TOKEN = registry.BY_NAME["github_pat"].hits[0]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "build.log"
    path.write_bytes(b"first\n" + base64.b64encode(TOKEN) + b"\nAuthorization: token " + TOKEN + b"\n")
    return path


def test_a_find_has_its_line_and_not_its_value(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dlp.main(["scan", str(log)], False) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{log}:2: github_pat ghp_...#") and printed.err == ""
    assert TOKEN.decode()[4:14] not in printed.out


def test_a_find_that_is_left_out_takes_no_other_s_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes() + registry.BY_NAME["npm_token"].hits[0] + b"\n")
    dlp.main(["scan", "--to", "github.com", str(log)], False)
    assert capsys.readouterr().out.startswith(f"{log}:4: npm_token")


def test_the_document_says_the_same(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dlp.main(["scan", "--json", str(log)], False) == 1
    document = json.loads(capsys.readouterr().out)
    (found,) = document["findings"]
    assert (found["file"], found["line"], found["detector"]) == (str(log), 2, "github_pat")
    assert document["not_scanned"] == []


def test_what_may_go_there_is_left_out(log: Path) -> None:
    assert dlp.main(["scan", "--to", "api.github.com", str(log)], False) == 0
    assert dlp.main(["scan", "--to", "API.GitHub.com.", str(log)], False) == 0
    assert dlp.main(["scan", "--to", "registry.npmjs.org", str(log)], False) == 1


@pytest.mark.parametrize(
    ("content", "code"), [(b"", 0), (b"clean\n", 0), (gzip.compress(bytes(64 << 20)), 2), (TOKEN[:20], 0)]
)
def test_the_exit_code_says_what_was_found(content: bytes, code: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert dlp.main(["scan", str(tmp_path / "file")], False) == code


def test_what_was_not_looked_at_outweighs_what_was_found(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(64 << 20)))
    assert dlp.main(["scan", str(log), str(tmp_path / "bomb")], False) == 2
    printed = capsys.readouterr()
    assert "github_pat" in printed.out and "not looked at as a whole" in printed.err


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stdin: Any = io.TextIOWrapper(io.BytesIO(TOKEN))
    monkeypatch.setattr("sys.stdin", stdin)
    assert dlp.main(["scan", "-"], False) == 1
    assert capsys.readouterr().out.startswith("-:1: github_pat")


@pytest.mark.parametrize("arguments", [["scan"], ["scan", "--to", "a b", "x"], ["scna", "x"], ["scan", "--ot", "x"]])
def test_wrong_usage_is_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dlp.main(arguments, False) == 125
    assert "pysandbox dlp" in capsys.readouterr().err


def test_the_detectors_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert dlp.main(["detectors", "--json"], False) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == [each.name for each in registry.ALL]
