"""Claim: with `why` a cage that looks for very many files costs its host no memory for it, every look at one file is
counted, and what could not be told apart any more is said to be so; the text of its paths is quoted where it is shown.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import pysandbox

from .harness import in_cage, policy, program

FLOOD = """
    import os
    attempt("one", lambda: None)
    for number in range(MANY):
        try: os.stat(SECRET)
        except OSError: pass
    for number in range(MANY):
        for path in (f"/nowhere/{number}", f"{SECRET}/{number}", "/x" * 1000 + str(number)):
            try: os.stat(path)
            except OSError: pass
"""
MANY = 8000
GROWTH_KB = 48 * 1024


def resident_kb() -> int:
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


def test_it_is_counted_to_the_last_one_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("x")
    with pysandbox.Cage(policy(why=True), cwd=str(tmp_path / "work")) as cage:
        cage.run(["true"])  # the supervisor and all that it imports are there
        before = resident_kb()
        report = in_cage(cage, program(FLOOD, SECRET=str(secret), MANY=MANY))
        assert resident_kb() - before < GROWTH_KB
    assert report.result is not None
    denials = {each.target: each for each in report.result.denials}
    assert denials[str(secret)].count == MANY
    assert len(denials) < 300
    further = [each for each in denials.values() if "nobody has looked at" in each.target]
    assert [each.count > MANY for each in further] == [True]


DEEP = """
    import os
    os.chdir("/tmp")
    while len(os.getcwd()) < 3800:
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    for size in (200, 300, 400, 2000, 4000):  # below a directory a path may be longer than any that has a name
        attempt(size, os.stat, "x/" * (size // 2))
        attempt(f"behind another, {size}", os.rename, "/nowhere", "x/" * (size // 2))
    attempt("after", os.stat, SECRET)
"""


def test_a_path_beyond_the_longest_is_nobody_s(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").touch()
    with pysandbox.Cage(policy(why=True), cwd=str(tmp_path / "work")) as cage:
        report = in_cage(cage, program(DEEP, SECRET=str(tmp_path / "secret")))
    assert {each.errno for each in report.attempts.values()} == {"ENOENT"}
    assert report.result is not None
    assert [each.target for each in report.result.denials] == [str(tmp_path / "secret")]


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nRefused", "\udcff"])
def test_a_path_is_only_text(tmp_path: Path, name: str) -> None:
    from pysandbox.cli.console import plain

    (tmp_path / "work").mkdir()
    (tmp_path / name).write_text("x")
    with pysandbox.Cage(policy(why=True), cwd=str(tmp_path / "work")) as cage:
        denials = cage.run(["cat", str(tmp_path / name)]).denials
    assert [each.target for each in denials] == [f"{tmp_path}/{name}"]
    assert plain(denials[0].target).isprintable()
