"""Claim: a granted path that is replaced after it was looked at and before it is mounted is refused, or is the old one.

The swap is made at the one moment that matters: when `probe.paths.look` returns, seen by a profile hook on that
function, so that nothing is left to luck.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import pysandbox
from pysandbox.probe import paths

from .conftest import Ground
from .harness import policy

pytestmark = pytest.mark.guest


def becomes_a_symlink(grant: Path, outside: Path) -> None:
    os.rename(grant, grant.with_name("old"))
    os.symlink(outside, grant)


def becomes_another_directory(grant: Path, outside: Path) -> None:
    os.rename(grant, grant.with_name("old"))
    os.rename(outside, grant)


def gets_a_symlink_as_its_parent(grant: Path, outside: Path) -> None:
    trap = grant.parent.with_name("trap")
    trap.mkdir()
    os.symlink(outside, trap / grant.name)
    os.rename(grant.parent, grant.parent.with_name("old parent"))
    os.rename(trap, grant.parent)


Swap = Callable[[Path, Path], None]
SWAPS: tuple[Swap, ...] = (becomes_a_symlink, becomes_another_directory, gets_a_symlink_as_its_parent)


@contextmanager
def after_the_look(action: Callable[[], None]) -> Iterator[list[str]]:
    """Runs `action` once, when `look` has returned. The list says that it did."""
    done: list[str] = []

    def hook(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is paths.stat_paths.__code__ and not done:
            done.append("swapped")
            action()

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        yield done
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
@pytest.mark.parametrize("access", ["allow", "allow_write"])
def test_a_swapped_grant_is_refused_or_old(ground: Ground, isolation: str, access: str, swap: Swap) -> None:
    grant = ground.inside / "parent" / "grant"
    grant.mkdir(parents=True)
    (grant / "secret").write_text("nothing secret")
    rules = policy(isolation, **{access: [str(grant)]})
    said = "refused"

    with after_the_look(lambda: swap(grant, ground.outside)) as swapped:
        try:
            said = str(pysandbox.run(["/bin/cat", str(grant / "secret")], policy=rules, timeout=20).stdout)
        except pysandbox.StartError as error:
            assert error.filename is not None and error.filename.startswith(str(ground.inside))

    assert swapped == ["swapped"]
    assert (grant / "secret").read_text() == ground.word, "the trap must lie where the grant was"
    assert said in ("refused", "nothing secret")


def test_without_a_swap_the_grant_is_read(ground: Ground, isolation: str) -> None:
    (ground.inside / "secret").write_text("nothing secret")

    result = pysandbox.run(
        ["/bin/cat", str(ground.inside / "secret")], policy=policy(isolation, allow=[str(ground.inside)])
    )

    assert result.stdout == "nothing secret"
