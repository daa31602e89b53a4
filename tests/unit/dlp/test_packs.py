"""Every row of every pack: its vectors, its bounds, and that a pack is read as it came or not at all."""

from __future__ import annotations

import base64
import os
import random
import shutil
from pathlib import Path

import pytest
from pysandbox._native import lib

from pysandbox import Policy, PolicyError
from pysandbox.compile.detectors import scan_detectors
from pysandbox.dlp import canary, registry
from pysandbox.dlp.detector import Detector, own
from pysandbox.dlp.wanted import Wanted
from pysandbox.errors import SandboxCompileError
from pysandbox.policy import detector_packs
from pysandbox.policy.detector_names import LISTABLE, NOWHERE, OF_PACKS, PACKS
from pysandbox.policy.detector_packs import DIGESTS, FOLDER, filled, rows
from pysandbox.policy.names import canonical
from pysandbox.policy.own_detector import MOST_LITERALS

KEY = b"k" * 16
EVERY = [(pack, row) for pack in DIGESTS for row in rows(pack)]
WANTED = Wanted(scan_detectors(Policy(dlp_packs=list(PACKS))))
IDS = [f"{pack}-{row['name']}" for pack, row in EVERY]


def found(said: bytes) -> set[str]:
    return {each.detector for each in WANTED.found(said, KEY)}


@pytest.mark.parametrize("row", [row for _, row in EVERY], ids=IDS)
def test_each_finds_its_hits_and_not_its_near_misses(row: dict[str, list[str]]) -> None:
    assert len(row["hits"]) >= 2 and len(row["misses"]) >= 2
    for hit in row["hits"]:
        assert row["name"] in found(b"x " + filled(hit) + b" y"), hit
        assert row["name"] in found(b"x " + base64.b64encode(b"<" + filled(hit) + b">") + b" y"), hit
    for miss in row["misses"]:
        assert row["name"] not in found(filled(miss)), miss


@pytest.mark.parametrize("row", [row for _, row in EVERY], ids=IDS)
def test_homes_are_canonical_names(row: dict[str, list[str]]) -> None:
    for home in row.get("hosts", []):
        name = home.removeprefix("**.")
        assert canonical(name) == name


def test_a_row_is_what_a_policy_could_have_said_itself() -> None:
    """It goes through the same check: each pattern is bounded, and found by a literal."""
    for _, row in EVERY:
        said = {key: row[key] for key in ("pattern", "hosts", "context") if key in row}
        made = scan_detectors(Policy(dlp_detectors=[{"name": "own_one", **said}]))
        (packed,) = (each for each in scan_detectors(Policy(dlp_packs=["gitleaks"])) if each.name == row["name"])
        assert packed._replace(name="own_one") == made[0]


def test_the_names_of_all_packs_are_those_that_a_policy_may_list() -> None:
    names = [row["name"] for _, row in EVERY]
    assert tuple(names) == OF_PACKS and len(set(names)) == len(names) >= 40
    assert not set(names) & {*LISTABLE, *NOWHERE}
    assert set(PACKS) == {"core", *DIGESTS}
    assert {each.removesuffix(".toml") for each in os.listdir(FOLDER)} == set(DIGESTS)


def test_core_is_what_every_scan_looks_for() -> None:
    assert scan_detectors(Policy(dlp_packs=["core"])) == ()
    assert Wanted(scan_detectors(Policy(dlp_packs=["core"]))).rows == registry.ALL


@pytest.mark.parametrize(("name", "meant"), [("gitleak", "gitleaks"), ("cor", "core"), ("trufflehog", "gitleaks")])
def test_another_pack_is_refused_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(PolicyError) as refused:
        Policy(dlp_packs=[name])
    assert name in str(refused.value) and meant in str(refused.value)


def test_a_name_of_a_pack_may_be_listed_and_not_taken() -> None:
    Policy(hosts=[{"domain": "a.example", "allow_credentials": ["pulumi_token"]}])
    Policy(dlp_extra_scopes={"pulumi_token": ["a.example"]})
    with pytest.raises(PolicyError, match="a pack calls"):
        Policy(dlp_detectors=[{"name": "pulumi_token", "pattern": "acme_[a-z]{20}"}])


def test_a_pack_that_was_changed_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FOLDER, tmp_path / "packs")
    monkeypatch.setattr(detector_packs, "FOLDER", str(tmp_path / "packs"))
    rows.cache_clear()
    assert rows("gitleaks")  # control
    for change in (lambda path: path.write_bytes(path.read_bytes() + b"\n"), Path.unlink):
        change(tmp_path / "packs" / "gitleaks.toml")
        rows.cache_clear()
        with pytest.raises(PolicyError, match="install pysandbox again"):
            rows("gitleaks")
    rows.cache_clear()


def test_a_pack_and_more_of_one_s_own_than_a_scan_has_room_for_are_refused() -> None:
    words = ["abcd"[each] + f"word{at}_" for at in range(60) for each in range(4)]
    many = [{"name": f"own_{at}", "pattern": f"(?:{'|'.join(words[4 * at : 4 * at + 4])})[a-z]{{20}}"}
            for at in range(60)]  # fmt: skip
    assert len(scan_detectors(Policy(dlp_detectors=many))) == 60  # control
    with pytest.raises(SandboxCompileError, match="literals"):
        scan_detectors(Policy(dlp_detectors=many, dlp_packs=["gitleaks"]))


def test_a_scan_has_room_for_all_that_a_policy_may_say() -> None:
    """The table in C is of one size: what every scan has, what a policy has at most, and all false credentials."""
    table, rest = lib.PSB_MOST_LITERALS, {each for row in registry.ALL for each in row.literals}
    rest |= {each for row in canary.detectors(canary.new_values(canary.OF_VARIABLES)) for each in row.literals}
    assert len(rest) + MOST_LITERALS <= table


def test_what_looks_like_one_by_chance_is_none() -> None:
    drawn, made = random.Random(5), own(scan_detectors(Policy(dlp_packs=["gitleaks"])))
    assert all(isinstance(each, Detector) for each in made)
    for encode in (base64.urlsafe_b64encode, base64.b64encode, bytes.hex):
        said = encode(drawn.randbytes(3 << 20))
        assert found(said if isinstance(said, bytes) else said.encode()) == set(), encode
