"""`pysandbox dlp`: what it prints, its documents, its exit codes; and that no value is ever printed."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from pysandbox import PolicyError
from pysandbox.cli import dlp
from pysandbox.dlp import registry
from pysandbox.policy.detector_packs import filled

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


# ---- a policy's own -----------------------------------------------------------------------------------------------

OWN = """
[network.dlp]
enabled = true
max_decode_depth = 3

[network.dlp.extra_scopes]
npm_token = ["npm.acme.example"]

[[network.dlp.detector]]
name = "acme_token"
pattern = "acme_[a-z0-9]{24}"
hosts = ["api.acme.example"]

[[host]]
domain = "ci.acme.example"
allow_credentials = ["github_pat"]
"""
ACME = b"acme_a1b2c3d4e5f6a7b8c9d0e1f2"


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.toml"
    path.write_text(OWN)
    return str(path)


@pytest.mark.parametrize("flag", ["-r", "--recipe", "--policy"])
def test_a_policy_s_own_detectors_find_what_a_scan_of_it_would(
    flag: str, policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.log").write_bytes(b"first\n" + base64.b64encode(ACME) + b"\n")
    assert dlp.main(["scan", str(tmp_path / "x.log")], False) == 0  # control
    assert dlp.main(["scan", flag, policy, str(tmp_path / "x.log")], False) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"{tmp_path}/x.log:2: acme_token acme...#") and "(in base64)" in printed
    assert ACME.decode()[5:15] not in printed


def test_a_detector_is_tried_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.log").write_bytes(ACME)
    assert dlp.main(["scan", "--detector", "acme=acme_[a-z0-9]{24}", str(tmp_path / "x.log")], False) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path}/x.log:1: acme acme...#")
    assert dlp.main(["scan", "--detector", "acme", str(tmp_path / "x.log")], False) == 125
    assert "NAME=PATTERN" in capsys.readouterr().err


@pytest.mark.parametrize("detector", ["acme=acme_([a-z]+)+!", "github_pat=acme_[a-z0-9]{24}", "acme=[a-z0-9]{24}"])
def test_a_detector_that_a_policy_could_not_have_is_refused(detector: str, log: Path) -> None:
    with pytest.raises(PolicyError):
        dlp.main(["scan", "--detector", detector, str(log)], False)


def test_a_policy_says_where_a_find_may_go(policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(b"\n".join((ACME, TOKEN, registry.BY_NAME["npm_token"].hits[0])))

    def names(host: str) -> set[str]:
        dlp.main(["scan", "-r", policy, "--json", "--to", host, str(tmp_path / "x")], False)
        return {each["detector"] for each in json.loads(capsys.readouterr().out)["findings"]}

    found = {host: names(host) for host in
             ("api.acme.example", "ci.acme.example", "npm.acme.example", "other.example")}  # fmt: skip
    assert found == {
        "api.acme.example": {"github_pat", "npm_token"}, "ci.acme.example": {"acme_token", "npm_token"},
        "npm.acme.example": {"acme_token", "github_pat"}, "other.example": {"acme_token", "github_pat", "npm_token"},
    }  # fmt: skip


def test_the_depth_is_the_policy_s(policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(base64.b64encode(base64.b64encode(base64.b64encode(base64.b64encode(ACME)))))
    assert dlp.main(["scan", "-r", policy, str(tmp_path / "x")], False) == 2
    assert "more than 3 encodings" in capsys.readouterr().err


def test_a_cage_s_false_credentials_are_known_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    value = "npm_" + "a1B2c3D4e5F6" * 3
    monkeypatch.setenv("PYSANDBOX_CANARY_NPM_TOKEN", value)
    monkeypatch.setenv("PYSANDBOX_CANARY_GITHUB_PAT", "no such thing")
    (tmp_path / "x").write_text(value[::-1])
    assert dlp.main(["scan", str(tmp_path / "x")], False) == 1
    assert "canary_npm_token" in capsys.readouterr().out


def test_the_policy_s_detectors_are_listed(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dlp.main(["detectors", "-r", policy], False) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split() == ["acme_token", "api.acme.example"]


def test_a_pack_is_looked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(filled("pul-{40:hex}"))
    assert dlp.main(["scan", str(tmp_path / "x")], False) == 0  # control
    assert dlp.main(["scan", "--pack", "gitleaks", str(tmp_path / "x")], False) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path}/x:1: pulumi_token pul-...#")
    assert dlp.main(["scan", "--to", "api.pulumi.com", "--pack", "gitleaks", str(tmp_path / "x")], False) == 0
    with pytest.raises(PolicyError, match="gitleaks"):
        dlp.main(["scan", "--pack", "gitleak", str(tmp_path / "x")], False)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_for_ever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dlp, "WRITER_SECONDS", 0.05)
    os.mkfifo(tmp_path / "pipe")
    assert dlp.main(["scan", str(tmp_path / "pipe")], False) == 2
    assert "it is a pipe, and nobody has written to it for 0.05 seconds" in capsys.readouterr().err


def test_a_pipe_whose_writer_comes_later_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dlp, "WRITER_SECONDS", 60.0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    late = threading.Timer(0.2, lambda: pipe.write_bytes(TOKEN))
    late.start()
    assert dlp.main(["scan", str(pipe)], False) == 1
    late.join()
    assert "github_pat" in capsys.readouterr().out


def test_a_pipe_whose_writer_had_nothing_to_say_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `<(printf "")`."""
    monkeypatch.setattr(dlp, "WRITER_SECONDS", 60.0)
    near, far = os.pipe()
    os.close(far)
    assert dlp.main(["scan", f"/dev/fd/{near}"], False) == 0
    os.close(near)


def test_a_pipe_that_somebody_writes_to_is_read_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    """As a shell makes them of <(command)."""
    near, far = os.pipe()
    late = threading.Timer(0.2, lambda: (os.write(far, TOKEN), os.close(far)))
    late.start()
    assert dlp.main(["scan", f"/dev/fd/{near}"], False) == 1
    late.join()
    os.close(near)
    assert f"/dev/fd/{near}:1: github_pat" in capsys.readouterr().out
