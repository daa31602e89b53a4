"""Claim: a path that the policy does not name is neither read, listed, written nor created, however it is spelled."""

from __future__ import annotations

import os

import pytest

from .conftest import Ground
from .harness import Expected, caged, policy, program, uncaged

pytestmark = pytest.mark.guest

ATTACK = """
    os.symlink(SECRET, INSIDE + "/way")
    os.symlink(OUTSIDE, INSIDE + "/road")
    attempt("by path", content, SECRET)
    attempt("by dots", content, INSIDE + "/../outside/secret")
    attempt("by dots from the working directory", content, "../outside/secret")
    attempt("by symlink", content, INSIDE + "/way")
    attempt("by symlinked directory", content, INSIDE + "/road/secret")
    attempt("by /proc/self/root", content, "/proc/self/root" + SECRET)
    attempt("by /proc/self/cwd", content, "/proc/self/cwd/../outside/secret")
    attempt("by a host root", content, f"/proc/{HOST}/root" + SECRET)
    attempt("by a host cwd", content, f"/proc/{HOST}/cwd" + SECRET)
    attempt("by a host descriptor", content, f"/proc/{HOST}/fd/{HELD}")
    attempt("listed", os.listdir, OUTSIDE)
    attempt("written", overwrite, SECRET)
    attempt("written by symlink", overwrite, INSIDE + "/way")
    attempt("created", os.open, OUTSIDE + "/new", os.O_CREAT | os.O_WRONLY)
    attempt("created by symlink", os.open, INSIDE + "/road/new", os.O_CREAT | os.O_WRONLY)
    attempt("removed", os.unlink, INSIDE + "/road/secret")
    attempt("linked in", os.link, SECRET, INSIDE + "/linked")
    attempt("renamed in", os.rename, SECRET, INSIDE + "/renamed")
"""

SWEEP = """
    reached = []
    for pid in [*range(1, 400), HOST]:
        for way in ("root", "cwd", "fd/0", "fd/3", f"fd/{HELD}"):
            try:
                reached += [f"{pid}/{way}"] if WORD in content(f"/proc/{pid}/{way}{SECRET}").decode("latin-1") else []
            except OSError:
                pass
    say("sweep", reached)
"""

TRIED = (
    "by path", "by dots", "by dots from the working directory", "by symlink", "by symlinked directory",
    "by /proc/self/root", "by /proc/self/cwd", "by a host root", "by a host cwd", "by a host descriptor", "listed",
    "written", "written by symlink", "created", "created by symlink", "removed", "linked in", "renamed in",
)  # fmt: skip
REFUSED: dict[str, Expected] = {
    "full": dict.fromkeys(TRIED, "ENOENT"),
    # A link or rename out of a directory without any right is EXDEV once the target directory would allow it.
    "landlock": {**dict.fromkeys(TRIED, "EACCES"), "linked in": ("EACCES", "EXDEV"), "renamed in": ("EACCES", "EXDEV")},
}


def test_the_outside_is_not_there_in_any_spelling(ground: Ground, isolation: str) -> None:
    held = os.open(ground.secret, os.O_RDONLY)
    try:
        attack = program(
            ATTACK, INSIDE=str(ground.inside), OUTSIDE=str(ground.outside), SECRET=str(ground.secret),
            HOST=os.getpid(), HELD=held,
        )  # fmt: skip
        rules = policy(isolation, allow_write=[str(ground.inside)])
        report = caged(attack, rules, cwd=str(ground.inside))
    finally:
        os.close(held)

    assert report.differs(REFUSED[isolation]) == {}
    assert ground.unharmed


def test_the_same_attack_works_uncaged(ground: Ground) -> None:
    held = os.open(ground.secret, os.O_RDONLY)
    try:
        attack = program(
            ATTACK, INSIDE=str(ground.inside), OUTSIDE=str(ground.outside), SECRET=str(ground.secret),
            HOST=os.getpid(), HELD=held,
        )  # fmt: skip
        report = uncaged(attack, cwd=ground.inside)
    finally:
        os.close(held)

    gone_by_then = {"linked in": "ENOENT", "renamed in": "ENOENT"}  # the attack itself removed the secret before
    by_a_file = {"by a host cwd": ("ENOENT", "ENOTDIR", None)}
    assert report.differs({**dict.fromkeys(TRIED), **gone_by_then, **by_a_file}) == {}
    assert not ground.unharmed


def test_no_process_of_proc_leads_to_the_outside(ground: Ground, isolation: str) -> None:
    held = os.open("/", os.O_RDONLY)
    names = {"SECRET": str(ground.secret), "WORD": ground.word, "HOST": os.getpid(), "HELD": held}
    try:
        control = uncaged(program(SWEEP, **names))
        report = caged(program(SWEEP, **names), policy(isolation, allow_write=[str(ground.inside)]))
    finally:
        os.close(held)

    assert f"{os.getpid()}/root" in control["sweep"].value
    assert report["sweep"].value == []
