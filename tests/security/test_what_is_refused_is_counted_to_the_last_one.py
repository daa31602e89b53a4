"""Claim: however many programs a cage is refused, and however fast it asks, the counts of its denials add up to what
was asked; of more than are told apart, the rest is one denial with its count. Nor is a refusal missed that was asked
for through another process's entry in /proc, or a link that leads there."""

from __future__ import annotations

import os

import pytest

import pysandbox
from pysandbox import Policy
from pysandbox.denial import FURTHER

from .harness import PYTHON, caged, program, uncaged

ALLOWED = (PYTHON, os.path.realpath(PYTHON))
FLOOD = """
    def flood():
        refused = 0
        for _ in range(MANY):
            try:
                os.execv("/usr/bin/id", ["id", "--no-such-option"])
            except PermissionError:
                refused += 1
        return refused
    attempt("flood", flood)
"""
KINDS = """
    def ask():
        refused = 0
        for number in range(MANY):
            path = f"/tmp/{number}"
            with open(path, "w") as file:
                file.write("#!/bin/sh\\n")
            os.chmod(path, 0o755)
            for _ in range(2):
                try:
                    os.execv(path, [path])
                except PermissionError:
                    refused += 1
        return refused
    attempt("kinds", ask)
"""
WAYS = """
    me, fd = os.getpid(), os.open("/", os.O_PATH)
    os.chdir("/usr")
    os.symlink("/proc/self/root", "/tmp/to-the-root")
    os.symlink("/tmp/to-the-root/usr/bin/id", "/tmp/to-the-program")
    os.symlink("/proc/self", "/tmp/to-oneself")
    paths = {
        "number": f"/proc/{me}/root/usr/bin/id",
        "self": "/proc/self/root/usr/bin/id",
        "thread-self": "/proc/thread-self/root/usr/bin/id",
        "task": f"/proc/self/task/{me}/root/usr/bin/id",
        "directory": "/proc/self/cwd/bin/id",
        "descriptor": f"/proc/self/fd/{fd}/usr/bin/id",
        "dev": f"/dev/fd/{fd}/usr/bin/id",
        "dots": "/proc/self/fd/../root/usr/bin/id",
        "twice": "/proc/self/root/proc/self/root/usr/bin/id",
        "relative": "../proc/self/root/usr/bin/id",
        "link to the root": "/tmp/to-the-root/usr/bin/id",
        "link to the program": "/tmp/to-the-program",
        "link to oneself": "/tmp/to-oneself/root/usr/bin/id",
    }
    def run(path):
        os.execv(path, ["id", "--no-such-option"])
    attempt(WAY, run, paths[WAY])
"""
NAMES = ("number", "self", "thread-self", "task", "directory", "descriptor", "dev", "dots", "twice", "relative",
         "link to the root", "link to the program", "link to oneself")  # fmt: skip


def test_a_flood_of_refused_programs_is_counted_to_the_last_one() -> None:
    many = 12000  # what may be told and not yet heard is a tenth
    report = caged(program(FLOOD, MANY=many), Policy(allow_execve=ALLOWED))
    assert report["flood"].value == many
    assert report.result is not None
    assert [(each.target.split()[0], each.count) for each in report.result.denials] == [("/usr/bin/id", many)]


def test_more_programs_than_are_told_apart_are_counted_as_one_more() -> None:
    many = 280
    report = caged(program(KINDS, MANY=many), Policy(allow_execve=ALLOWED))
    assert report["kinds"].value == 2 * many
    assert report.result is not None
    *apart, further = report.result.denials
    assert (further.target, further.fix, len(apart)) == (FURTHER, "", 256)
    assert sum(each.count for each in report.result.denials) == 2 * many


@pytest.mark.parametrize("way", NAMES)
def test_a_program_that_is_named_through_a_process_is_recorded(way: str) -> None:
    attack = program(WAYS, WAY=way)
    report = caged(attack, Policy(allow_execve=ALLOWED))
    assert report[way].errno == "EACCES"
    assert report.result is not None
    assert [(each.kind, each.rule, each.count) for each in report.result.denials] == [
        ("exec", "process.allow_execve", 1)
    ]


def test_the_same_names_run_the_program_where_it_is_listed() -> None:
    """The control: each of them leads there, and nothing is recorded that was not refused."""
    for way in NAMES:
        report = caged(program(WAYS, WAY=way), Policy(allow_execve=(*ALLOWED, "/usr/bin/id")))
        assert report.exit_code == 1 and "no-such-option" in report.stderr, way
        assert report.result is not None and report.result.denials == ()


def test_a_callback_is_not_asked_about_what_cannot_be_named_and_the_refusal_is_recorded() -> None:
    with pysandbox.Cage(Policy(), policy_fn=lambda event, context: False, watch=["exec"]) as cage:
        result = cage.run(program(WAYS, WAY="number"), stdin=pysandbox.DEVNULL, timeout=60)
    assert [(each.target, each.rule, each.count) for each in result.denials] == [("/usr/bin/id", "unreadable", 1)]


def test_what_is_not_there_is_no_refusal() -> None:
    attack = """
        os.symlink("nowhere", "/tmp/dangling")
        for path in ("/nowhere/id", "/usr/bin/nowhere", "/tmp/dangling", "/proc/self/root/nowhere", "/usr/bin/id/x"):
            attempt(path, os.execv, path, ["x"])
    """
    report = caged(program(attack), Policy(allow_execve=ALLOWED))
    assert {each.errno for each in report.attempts.values()} == {"ENOENT", "ENOTDIR"}
    assert report.result is not None and report.result.denials == ()
    assert uncaged(program('attempt("id", os.access, "/usr/bin/id", os.X_OK)'))["id"].value is True
