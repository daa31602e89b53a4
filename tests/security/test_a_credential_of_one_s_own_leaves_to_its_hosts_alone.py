"""Claim: what a detector of the policy's own finds reaches no host but those that it names, in no place and no
encoding; and a pattern of a policy, whatever it is, does not make a scan slow.
"""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from _support.inspected import NAME
from _support.scanned import SCAN, get, post, scanned
from pysandbox import Policy, PolicyError
from pysandbox.compile.detectors import scan_detectors
from pysandbox.policy import detector_packs as packs
from pysandbox.policy.detector_packs import filled
from pysandbox.policy.own_detector import ScanDetector, scan_detector

OURS = b"acme_live_a1b2c3d4e5f6g7h8i9j0k1l2"
NEAR = b"0123456789abcdef0123456789abcdef"  # counts only beside its word
REFUSED = b"x-pysandbox-error: dlp-blocked\r\n"


def rows(*hosts: str) -> tuple[ScanDetector, ...]:
    said = Policy(dlp_detectors=[
        {"name": "acme_token", "pattern": "acme_(?:live|test)_[a-z0-9]{20,40}", "hosts": hosts},
        {"name": "corp_key", "pattern": "[0-9a-f]{32}", "context": ["corp"], "hosts": hosts},
    ])  # fmt: skip
    return tuple(map(scan_detector, said.dlp_detectors))


ATTACKS: dict[str, Callable[[bytes], bytes]] = {
    "a query value": lambda said: get(b"/?a=" + said),
    "a field": lambda said: get(b"/", b"X-A: " + said),
    "Basic": lambda said: get(b"/", b"Authorization: Basic " + base64.b64encode(b"x:" + said)),
    "a body": lambda said: post(said),
    "JSON": lambda said: post(json.dumps({"a": [said.decode()]}).encode(), b"Content-Type: application/json"),
    "base64 in gzip": lambda said: post(gzip.compress(base64.b64encode(b"abc" + said)), b"Content-Encoding: gzip"),
    "hex": lambda said: post(said.hex().encode()),
    "percent": lambda said: get(b"/?a=" + b"".join(b"%%%02x" % each for each in said)),
    "UTF-16": lambda said: post(said.decode().encode("utf-16")),
}


@pytest.mark.parametrize("detector", ["acme_token", "corp_key"])
def test_it_is_refused_in_every_place_and_told(tmp_path: Path, detector: str) -> None:
    said = OURS if detector == "acme_token" else b"corp=" + NEAR
    with scanned(tmp_path, replace(SCAN, detectors=rows())) as host:
        for name, attack in ATTACKS.items():
            host.server.heard.clear()
            answer = host.send([attack(said)])
            assert answer.startswith(b"HTTP/1.1 451 ") and REFUSED in answer, (name, answer)
            assert b"x-pysandbox-dlp-detector: " + detector.encode() + b"\r\n" in answer
            assert host.server.heard == b"" and said not in answer
        found = host.found()
        assert {(each["detector"], each["verdict"], each["host"]) for each in found} == {(detector, "blocked", NAME)}
        assert {"query value 1", "field X-A", "the body", "body json $.a[0]"} <= {each["place"] for each in found}
        assert OURS.decode() not in json.dumps(found) and NEAR.decode() not in json.dumps(found)
        assert (NAME, f"dlp.{detector}") in {(each.target, each.rule) for each in host.asking.session.ledger.denials()}


def test_what_a_pack_finds_is_refused_and_without_the_pack_it_arrives(tmp_path: Path) -> None:
    packed = scan_detectors(Policy(dlp_packs=["gitleaks"]))
    said = [filled(row["hits"][1]) for row in packs.rows("gitleaks")]
    with scanned(tmp_path, replace(SCAN, detectors=packed)) as host:
        for row, hit in zip(packed, said, strict=True):
            answer = host.send([post(base64.b64encode(hit))])
            assert answer.startswith(b"HTTP/1.1 451 "), row.name
            assert b"x-pysandbox-dlp-detector: " + row.name.encode() + b"\r\n" in answer
        assert host.server.heard == b""
        assert {each["detector"] for each in host.found()} == {row.name for row in packed}
        assert not any(hit[8:].decode() in json.dumps(host.found()) for hit in said)
    with scanned(tmp_path) as host:
        for hit in said:
            assert host.send([post(hit)]).endswith(b"hello")


def test_the_control_without_it_the_same_arrives(tmp_path: Path) -> None:
    with scanned(tmp_path) as host:
        assert host.send([post(OURS)]).endswith(b"hello") and OURS in host.server.heard
        assert host.send([post(b"corp=" + NEAR)]).endswith(b"hello")


def test_to_its_hosts_it_goes_and_what_is_no_find_anywhere(tmp_path: Path) -> None:
    with scanned(tmp_path, replace(SCAN, detectors=rows(NAME))) as host:
        assert host.send([post(OURS)]).endswith(b"hello") and OURS in host.server.heard
        assert [each["verdict"] for each in host.found()] == ["home"]
    with scanned(tmp_path, replace(SCAN, detectors=rows())) as host:
        assert host.send([post(NEAR + b" acme_live_short")]).endswith(b"hello")
        assert host.found() == []


@pytest.mark.parametrize("pattern", ["(a+)+_acme_key", "(?:a|a)*acme_key_1", "a+a+a+a+acme_key", ".*.*.*acme_key"])
def test_a_pattern_that_could_be_slow_never_comes_to_a_scan(pattern: str) -> None:
    with pytest.raises(PolicyError, match="could take more than"):
        rules = Policy(dlp_detectors=[{"name": "acme_token", "pattern": pattern}])
        tuple(map(scan_detector, rules.dlp_detectors))


def test_what_nominates_at_every_turn_is_refused_in_time(tmp_path: Path) -> None:
    """The dearest kind of pattern that a policy may have, on a text that is made for it; the control is a text of the
    same length without it."""
    (row,) = (
        scan_detector(each)
        for each in Policy(
            dlp_detectors=[{"name": "acme_token", "pattern": "acme_[a-z]{0,100}[a-z0-9]{0,40}key"}]
        ).dlp_detectors
    )
    with scanned(tmp_path, replace(SCAN, detectors=(row,))) as host:
        took = []
        for said in (b"word and other_" * 50_000, b"acme_abcdefgh" * 58_000):
            began = time.monotonic()
            answer = host.send([post(said)])
            took.append(time.monotonic() - began)
        assert answer.startswith(b"HTTP/1.1 451 ") and b"undecodable-body" in answer
        assert took[1] < 40 * took[0], took
