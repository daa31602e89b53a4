"""Claim: what the base grants is known from an earlier look only while it is what it was. A cage that may write where
such a file lies, and puts something else there, changes nothing of what the next policies show.

A directory of the test's own stands for /etc. All policies are of one runtime, each a new one, so that the later ones
are compiled with what the earlier ones have looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox import Cage
from pysandbox.policy import base_grants
from pysandbox.policy.option import Grant
from pysandbox.runtime.runtime import Runtime

from .conftest import Ground
from .harness import policy, program

PLANT = {
    "a link to the secret": "os.unlink(FILE); os.symlink(SECRET, FILE)",
    "a link to the very file": "os.rename(FILE, FILE + '.kept'); os.symlink(FILE + '.kept', FILE)",
    "a directory behind a link": "os.rename(PLACE, PLACE + '.kept'); os.symlink(OUTSIDE, PLACE)",
}
READ = """
    attempt("read", content, FILE)
"""


@pytest.fixture
def file(ground: Ground) -> Path:
    """Its name in the outside is the secret's."""
    path = ground.inside / "etc" / "secret"
    path.parent.mkdir()
    path.write_text("everybody's")
    return path


def shown(runtime: Runtime, file: Path, isolation: str, variable: str) -> str:
    """What a cage reads there by a policy that was never seen, where every cage is given the file."""
    rules = policy(isolation, env=(("SEEN", variable),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_grants, "ALLOW", (*base_grants.ALLOW, Grant(str(file), optional=True)))
        return str(Cage(rules, runtime=runtime).run(program(READ, FILE=str(file)), timeout=60).stdout)


@pytest.mark.parametrize("plant", PLANT)
def test_what_a_cage_puts_there_is_not_shown(ground: Ground, file: Path, isolation: str, plant: str) -> None:
    runtime = Runtime(warm=0)
    assert "everybody's" in shown(runtime, file, isolation, "1")  # CONTROL: it is given, and looked at now

    names = {"FILE": str(file), "PLACE": str(file.parent), "SECRET": str(ground.secret), "OUTSIDE": str(ground.outside)}
    rules = policy(isolation, allow_write=[str(ground.inside)], run_as="self")
    done = Cage(rules, runtime=runtime).run(program(PLANT[plant] + "\nsay('planted')", **names), timeout=60)
    assert "planted" in str(done.stdout), done.stderr
    assert os.path.lexists(file)  # CONTROL: the attack has changed what is there

    read = shown(runtime, file, isolation, "2")
    assert ground.word not in read
    assert ground.unharmed
    runtime.drain()


def test_what_the_host_puts_there_is_shown(file: Path, isolation: str) -> None:
    runtime = Runtime(warm=0)
    assert "everybody's" in shown(runtime, file, isolation, "1")
    new = file.with_name("new")
    new.write_text("the new one")
    os.rename(new, file)
    assert "the new one" in shown(runtime, file, isolation, "2")
    file.unlink()
    assert "the new one" not in shown(runtime, file, isolation, "3")
    file.write_text("the last one")
    assert "the last one" in shown(runtime, file, isolation, "4")
    runtime.drain()
