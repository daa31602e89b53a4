"""Claim: a handle serves the app that it was given to, for what it was given for, as long as that app runs; a number
that was guessed, received, freed or kept serves nobody. The kernel asks again, whatever the runtime found.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from _support.apps import package, reasons
from pysandbox.apps import App, Kernel
from pysandbox.apps.denials import KIND, OWNER
from pysandbox.apps.kernel.owned import WrapperDenied

ALL = ["fs.use", "chan.use", "win.manage", "input.route"]
PEERS = {"channel_peers_allowed": [["notes", "mail"], ["mail", "notes"]], "fs_prefixes": ["docs"]}


def app(*instructions: Any, app_id: str = "notes.app") -> App:
    return App.debug(package(instructions, app_id=app_id, requested_capabilities=ALL, resource_scopes=PEERS))


def first_handle(journal: bytes) -> int:
    return int(json.loads(journal.splitlines()[1])[1])


def test_control_its_owner_uses_it() -> None:
    with Kernel() as kernel:
        used = app(["CONST", 1, "t"], ["WIN_CREATE", 2, 1], ["WIN_FOCUS", 2], ["WIN_RAISE", 2], ["HALT"])
        assert not used.run(kernel, debug=True).log


def test_a_number_that_came_over_a_channel_is_a_number() -> None:
    """One app has a window and says its number; the other one, which runs meanwhile, receives it and uses it."""
    with Kernel(key=b"k" * 16) as kernel:
        kernel.begin("mail.app")
        number = kernel.call("win.create", "mail.app", ["secret window"])
        kernel.table.hold(number, "mail.app", "window")
        channel = kernel.call("chan.open", "mail.app", ["mail", "notes"])
        kernel.call("chan.send", "mail.app", [channel, number])
        receives = app(
            ["CONST", 1, "notes"], ["CONST", 2, "mail"], ["CHAN_OPEN", 3, 1, 2], ["CHAN_RECV", 4, 3], ["WIN_FOCUS", 4],
            ["HALT"],
        ).run(kernel, debug=True)  # fmt: skip
        assert reasons(receives) == [OWNER] and receives.log[0].args_summary == f"#{number}"
        assert kernel.windows.focused is None
        kernel.call("win.focus", "mail.app", [number])  # evidence: it is live, for its owner


def test_a_handle_ends_with_its_app() -> None:
    with Kernel(key=b"k" * 16) as kernel:
        number = first_handle(app(["CONST", 1, "t"], ["WIN_CREATE", 2, 1], ["HALT"]).run(kernel, debug=True).journal)
        assert kernel.windows.order == [] and kernel.table.find(number) is None
        with pytest.raises(WrapperDenied, match=OWNER):
            kernel.call("win.focus", "notes.app", [number])


@pytest.mark.parametrize("number", [0, -1, 1, True, 1.0, 2**53, 2**63, "1", None, b"1"])
def test_the_kernel_asks_again_for_what_is_no_handle(number: object) -> None:
    with Kernel() as kernel:
        for call, more in (("win.focus", []), ("chan.recv", []), ("fs.read", [1]), ("fs.close", [])):
            with pytest.raises(WrapperDenied, match=OWNER):
                kernel.call(call, "notes.app", [number, *more])


def test_the_kernel_asks_again_for_owner_and_kind() -> None:
    with Kernel() as kernel:
        number = kernel.call("win.create", "mail.app", ["t"])
        for call, more in (("win.focus", []), ("win.snap", ["left"]), ("win.close", []), ("chan.send", [1])):
            with pytest.raises(WrapperDenied, match=OWNER):
                kernel.call(call, "notes.app", [number, *more])
        for call, more in (("chan.recv", []), ("fs.close", []), ("fs.write", ["x"])):
            with pytest.raises(WrapperDenied, match=KIND):
                kernel.call(call, "mail.app", [number, *more])


def test_a_channel_is_of_a_pair_in_its_order_and_nobody_else_s() -> None:
    def opens(first: str, second: str) -> list[str]:
        outcome = app(["CONST", 1, first], ["CONST", 2, second], ["CHAN_OPEN", 3, 1, 2], ["HALT"]).run(debug=True)
        return reasons(outcome)

    assert opens("notes", "mail") == []
    for pair in (("notes", "notes"), ("notes", "*"), ("*", "*"), ("notes", "mail2"), ("notes", "Mail"), ("", "mail")):
        assert opens(*pair) == ["denied_scope"]


def test_a_queue_is_bounded_and_an_empty_one_is_no_message() -> None:
    loop = app(
        ["CONST", 1, "notes"], ["CONST", 2, "mail"], ["CHAN_OPEN", 3, 1, 2], ["CHAN_RECV", 4, 3],
        ["CONST", 5, "x" * 4000], ["CHAN_SEND", 3, 5], ["JUMP_IF", 0, 8], ["JUMP", 5], ["HALT"],
    )  # fmt: skip
    with Kernel(queue_bytes=20_000) as kernel:
        outcome = loop.run(kernel, debug=True)
    assert outcome.ended == "halt" and not outcome.log
    assert outcome.journal.count(b'["failed","EAGAIN"]') == 2 and outcome.journal.count(b'["ok",null]') == 4


def test_two_runs_of_one_app_do_not_share_a_kernel_at_a_time() -> None:
    with Kernel() as kernel:
        kernel.begin("notes.app")
        with pytest.raises(ValueError, match="runs in this kernel already"):
            app(["HALT"]).run(kernel, debug=True)
