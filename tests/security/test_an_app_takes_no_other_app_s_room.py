"""Claim: apps that share a kernel do not use up what it has: whatever channels one of them opens, and however many, the
others open theirs; and a copy of a file is for no more eyes than the file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from _support.apps import constants, package, ran
from pysandbox.apps import App, AppOutcome, Kernel
from pysandbox.apps.kernel import chan

ANY = {"channel_peers_allowed": "*"}


def app(app_id: str, *instructions: object) -> App:
    return App.debug(package(instructions, app_id=app_id, requested_capabilities=["chan.use"], resource_scopes=ANY))  # type: ignore[arg-type]


def opens(count: int, *, say: bool = False, close: bool = True) -> list[list[object]]:
    """Channels between names of its own, each of which is two queues."""
    program: list[list[object]] = [*constants({5: "x"})]
    for number in range(count):
        program += [*constants({1: f"a{number}", 2: f"b{number}"}), ["CHAN_OPEN", 3, 1, 2]]
        program += [["CHAN_SEND", 3, 5]] if say else []
        program += [["CHAN_CLOSE", 3]] if close else []
    return [*program, ["HALT"]]


def failed(outcome: AppOutcome) -> int:
    return outcome.journal.count(b'["failed",')


@pytest.mark.parametrize("say", [False, True])
def test_one_that_opens_all_it_can_leaves_the_others_theirs(say: bool) -> None:
    with Kernel() as kernel:
        many = chan.MOST_QUEUES + 10
        greedy = app("greedy.app", *opens(many, say=say)).run(kernel, debug=True)
        assert bool(failed(greedy)) == say, "what holds something stays, and counts; an empty one goes with its channel"
        for name in ("one.app", "two.app"):
            assert not failed(app(name, *opens(30, close=False)).run(kernel, debug=True))


def test_control_what_was_sent_is_received_by_another_app_after_its_end() -> None:
    with Kernel() as kernel:
        start = constants({1: "a", 2: "b", 5: "said"})
        app("one.app", *start, ["CHAN_OPEN", 3, 1, 2], ["CHAN_SEND", 3, 5], ["HALT"]).run(kernel, debug=True)
        takes = app("two.app", *start, ["CHAN_OPEN", 3, 2, 1], ["CHAN_RECV", 4, 3], ["CHAN_RECV", 4, 3], ["HALT"])
        journal = takes.run(kernel, debug=True).journal
        assert b'["ok","said"]' in journal and b'["failed","EAGAIN"]' in journal


def test_channels_to_itself_and_of_two_apps_count_once() -> None:
    with Kernel() as kernel:
        one = constants({1: "a", 2: "a"})
        program = [*one, ["CHAN_OPEN", 3, 1, 2], ["CHAN_OPEN", 4, 1, 2], ["CHAN_CLOSE", 3], ["CHAN_SEND", 4, 1],
                   ["CHAN_RECV", 5, 4], ["CHAN_CLOSE", 4], ["HALT"]]  # fmt: skip
        for _ in range(3):
            assert not failed(app("one.app", *program).run(kernel, debug=True))
        assert not kernel._rooms["chan"]._queues  # type: ignore[attr-defined]


@pytest.mark.parametrize(("mode", "copied"), [(0o600, 0o600), (0o644, 0o644), (0o4755, 0o644), (0o440, 0o440)])
def test_a_copy_is_for_no_more_eyes(tmp_path: Path, mode: int, copied: int) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/key").write_text("secret")
    (tmp_path / "docs/key").chmod(mode)
    old = os.umask(0o022)
    try:
        with Kernel(tmp_path) as kernel:
            ran([*constants({1: "docs/key", 2: "docs/copy"}), ["FS_COPY", 1, 2], ["HALT"]], kernel)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "docs/copy").stat().st_mode) == copied
    assert (tmp_path / "docs/copy").read_text() == "secret"
