"""Claim: a directory that is pinned for what is guarded in it is never bound from its name on the host.

One cage flips `.git` between a directory and a symlink while the next cages of the same project are opened. A pin that
walked the host's path would follow the link, and bind what it leads to, writable.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pysandbox
from pysandbox.compile.plan import MountKind
from pysandbox.runtime.runtime import Runtime

from .conftest import Ground
from .harness import policy, program

SECONDS = 3.0

FLIP = """
    os.chdir(PROJECT)
    os.mkdir(".git")
    open(".git/config", "w").close()
    os.symlink(AWAY, "link")
    say("flipping")
    while True:
        libc.renameat2(-100, b".git", -100, b"link", 2)  # RENAME_EXCHANGE
"""
LOOK = """
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        try:
            say("leak", value=open(PROJECT + "/.git/credentials").read())
            break
        except OSError:
            pass
"""


def test_a_directory_flipped_with_a_link_while_a_cage_opens_gives_nothing(ground: Ground) -> None:
    project, away = ground.inside, ground.outside / "away"
    away.mkdir()
    (away / "config").write_text("[default]\n")
    (away / "credentials").write_text(ground.word)
    rules = policy(allow_write=[str(project)])
    opened, refused = 0, 0
    runtime = Runtime(warm=0, register=False)
    with pysandbox.Cage(rules, runtime=runtime) as first:
        flipping = first.spawn(program(FLIP, PROJECT=str(project), AWAY=str(away)), stdout=pysandbox.PIPE)
        assert b"flipping" in bytes(flipping.stdout.readline())
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            runtime.plans.forget_all()  # as each `pysandbox run` does
            try:
                with pysandbox.Cage(rules, runtime=runtime) as cage:
                    opened += 1
                    said = str(cage.run(program("import time", LOOK, PROJECT=str(project))).stdout)
            except pysandbox.CageError:
                refused += 1
            else:
                assert ground.word not in said
        flipping.close()
    assert opened, f"nothing was tried: {refused} refused"
    assert sorted(os.listdir(away)) == ["config", "credentials"]


def test_a_pin_names_no_path_of_the_host(ground: Ground) -> None:
    git = Path(ground.inside, ".git")
    git.mkdir()
    (git / "config").touch()
    runtime = Runtime(warm=0, register=False)
    steps = runtime.prepare(policy(allow_write=[str(ground.inside)]), str(ground.inside)).plan.mounts
    pins = [step for step in steps if step.kind is MountKind.PIN]
    assert str(git) in [step.target for step in pins]
    assert {step.source for step in pins} == {""}
