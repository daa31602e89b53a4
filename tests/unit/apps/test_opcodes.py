"""The table of opcodes is document 004's, and every row can be carried out."""

from __future__ import annotations

import inspect

from pysandbox.apps.kernel.chan import ChannelWrappers
from pysandbox.apps.kernel.event import EventWrappers
from pysandbox.apps.kernel.fs import FileWrappers
from pysandbox.apps.kernel.win import WindowWrappers
from pysandbox.apps.opcodes import CAPABILITIES, CONTROL, DOCUMENT_004, EFFECTS, HANDLE, OPCODES, SCOPED, VALUE

REQUIRED = {
    "EMIT": "input.route or domain.emit",
    **dict.fromkeys(("CHAN_OPEN", "CHAN_SEND", "CHAN_RECV"), "chan.use"),
    **dict.fromkeys(("WIN_CREATE", "WIN_FOCUS", "WIN_RAISE", "WIN_SNAP"), "win.manage"),
    **dict.fromkeys(
        ("FS_LIST", "FS_OPEN", "FS_RENAME", "FS_COPY", "FS_MOVE", "FS_DELETE", "FS_RESTORE"), "fs.use"
    ),
}  # fmt: skip
ROOMS = {"fs": FileWrappers, "chan": ChannelWrappers, "win": WindowWrappers, "event": EventWrappers}


def test_the_capabilities_are_those_of_document_004() -> None:
    assert {each.name: each.required for each in DOCUMENT_004} == REQUIRED


def test_control_needs_no_capability() -> None:
    assert {each.name for each in CONTROL} == {
        "NOP", "CONST", "MOVE", "JUMP", "JUMP_IF", "SLEEP_TICKS", "HALT"
    }  # fmt: skip
    assert not any(each.capabilities or each.call for each in CONTROL)


def test_every_effect_needs_a_capability_that_exists_and_has_a_wrapper() -> None:
    for row in EFFECTS.values():
        assert row.capabilities and set(row.capabilities) <= set(CAPABILITIES)
        room, _, method = row.call.partition(".")
        parameters = inspect.signature(getattr(ROOMS[room], method)).parameters
        assert len(parameters) == len(row.args) + 2, row.name  # self and owner


def test_every_operand_is_of_a_kind_that_is_checked_or_a_value() -> None:
    assert {kind for row in EFFECTS.values() for kind in row.args} <= SCOPED | {VALUE} | set(HANDLE.values())


def test_numbers_on_the_port_are_never_shared() -> None:
    assert len({each.number for each in OPCODES.values()}) == len(OPCODES)
    assert max(each.number for each in OPCODES.values()) < 256


def test_whatever_frees_a_handle_takes_it_first() -> None:
    assert all(row.args[0] in HANDLE.values() for row in EFFECTS.values() if row.frees)
