"""The opcodes of document 004, one row each; every check, the machine and the port are derived from these rows.

An opcode without a row does not exist. `args` says what each operand is, and so what has to be checked of it; a row
with capabilities runs only with one of them. Document 004 opens files, channels and windows and has no opcode to use
or to close what was opened: EXTENDED has these few, under the capability of their family.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.shapes import NamedTuple

# What an operand is.
DOMAIN, PEER = "domain", "peer"  # names of domains; two peers are a pair
PATH, ENTRY = "path", "entry"  # under a prefix; strictly below one: what is renamed or deleted is no prefix itself
VALUE = "value"
HANDLE = {kind: f"handle {kind}" for kind in ("file", "channel", "window")}
FILE, CHANNEL, WINDOW = HANDLE.values()
SCOPED = frozenset((DOMAIN, PEER, PATH, ENTRY))

CAPABILITIES: Mapping[str, str] = {
    "chan.use": "talk to other domains over channels",
    "win.manage": "make windows, and focus, raise and snap its own",
    "input.route": "send events to domains",
    "domain.emit": "send events to domains",
    "fs.use": "list, open, write, rename, copy, move, delete and restore files of its workspace",
}


class Opcode(NamedTuple):
    """`number` names it on the port. `makes` is the kind of handle it gives, `frees` whether it ends the handle."""

    number: int
    name: str
    capabilities: tuple[str, ...] = ()  # any one of them
    args: tuple[str, ...] = ()
    call: str = ""  # the wrapper of the kernel, "room.method"
    gives: bool = False  # a value or a handle
    makes: str = ""
    frees: bool = False

    @property
    def required(self) -> str:
        """As the log has it."""
        return " or ".join(self.capabilities)


FS, CHAN, WIN, ROUTE = ("fs.use",), ("chan.use",), ("win.manage",), ("input.route", "domain.emit")

CONTROL = (
    Opcode(0, "NOP"), Opcode(1, "CONST"), Opcode(2, "MOVE"), Opcode(3, "JUMP"), Opcode(4, "JUMP_IF"),
    Opcode(5, "SLEEP_TICKS"), Opcode(6, "HALT"),
)  # fmt: skip
DOCUMENT_004 = (
    Opcode(16, "EMIT", ROUTE, (DOMAIN, VALUE), "event.emit"),
    Opcode(17, "CHAN_OPEN", CHAN, (PEER, PEER), "chan.open", gives=True, makes="channel"),
    Opcode(18, "CHAN_SEND", CHAN, (CHANNEL, VALUE), "chan.send"),
    Opcode(19, "CHAN_RECV", CHAN, (CHANNEL,), "chan.recv", gives=True),
    Opcode(20, "WIN_CREATE", WIN, (VALUE,), "win.create", gives=True, makes="window"),
    Opcode(21, "WIN_FOCUS", WIN, (WINDOW,), "win.focus"),
    Opcode(22, "WIN_RAISE", WIN, (WINDOW,), "win.raise_"),
    Opcode(23, "WIN_SNAP", WIN, (WINDOW, VALUE), "win.snap"),
    Opcode(24, "FS_LIST", FS, (PATH,), "fs.list", gives=True),
    Opcode(25, "FS_OPEN", FS, (PATH, VALUE), "fs.open", gives=True, makes="file"),
    Opcode(26, "FS_RENAME", FS, (ENTRY, ENTRY), "fs.rename"),
    Opcode(27, "FS_COPY", FS, (PATH, ENTRY), "fs.copy"),
    Opcode(28, "FS_MOVE", FS, (ENTRY, ENTRY), "fs.move"),
    Opcode(29, "FS_DELETE", FS, (ENTRY,), "fs.delete"),
    Opcode(30, "FS_RESTORE", FS, (ENTRY, ENTRY), "fs.restore"),
)
EXTENDED = (
    Opcode(40, "FS_READ", FS, (FILE, VALUE), "fs.read", gives=True),
    Opcode(41, "FS_WRITE", FS, (FILE, VALUE), "fs.write", gives=True),
    Opcode(42, "FS_CLOSE", FS, (FILE,), "fs.close", frees=True),
    Opcode(43, "CHAN_CLOSE", CHAN, (CHANNEL,), "chan.close", frees=True),
    Opcode(44, "WIN_CLOSE", WIN, (WINDOW,), "win.close", frees=True),
)
EFFECTS: Mapping[str, Opcode] = {each.name: each for each in (*DOCUMENT_004, *EXTENDED)}
OPCODES: Mapping[str, Opcode] = {each.name: each for each in (*CONTROL, *EFFECTS.values())}
