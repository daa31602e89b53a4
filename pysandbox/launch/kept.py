"""A kept plan as the bytes of one file: what the launcher reads (csrc/abi.h, csrc/launcher).

The structs are those of csrc/abi.h, and lie in the file as they lie in memory; where they have a pointer, the file has
an offset among its texts. Nothing is interpreted here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from pysandbox._native import ffi, lib
from pysandbox.launch.native import NativePlan, abi
from pysandbox.shapes import Any

ALIGNED = 8

# The structs as this file knows them: with a field more, there is more to a plan than a file holds.
KNOWN = {
    "struct psb_plan": (
        "namespaces", "inside_uid", "inside_gid", "outside_uid", "outside_gid", "loopback", "scope_signals",
        "unconfined", "unrooted", "idmap_fd", "cgroup_fd", "hostname", "staging", "n_mounts", "mounts", "landlock",
    ),
    "struct psb_mount": ("kind", "flags", "mode", "attrs", "dev", "ino", "source", "target", "data"),
    "struct psb_landlock": ("enabled", "n_rules", "handled_fs", "handled_net", "scoped", "rules"),
    "struct psb_rule": ("path", "access", "dev", "ino", "optional", "pad"),
}  # fmt: skip


def can_hold(native: NativePlan) -> bool:
    """Whether all parts of a plan can be in a file."""
    known = all(tuple(name for name, _ in ffi.typeof(struct).fields) == fields for struct, fields in KNOWN.items())
    return known and not native.keeps_apart


class KeptFile:
    """Gathers the tables of one file; `content` is all of it but the signature."""

    def __init__(self, key: bytes) -> None:
        self.head = ffi.new("struct psb_kept *")
        self._text = bytearray()
        self._at: dict[bytes, int] = {}
        self._tables: dict[int, tuple[bytes, int]] = {}
        self.put(lib.PSB_KEPT_KEY, key)
        self.text("")

    def text(self, value: str | bytes | None) -> int:
        """Where the text is; None is no text."""
        if value is None:
            return int(lib.PSB_NO_TEXT)
        raw = os.fsencode(value)
        if raw not in self._at:
            if b"\0" in raw:
                raise ValueError("a text holds no NUL")
            self._at[raw] = len(self._text)
            self._text += raw + b"\0"
        return self._at[raw]

    def name(self, which: int, value: str) -> None:
        self.head.texts[which] = self.text(value)

    def put(self, section: int, value: bytes) -> None:
        self._tables[section] = value, len(value)

    def rows(self, section: int, struct: str, rows: Sequence[Sequence[Any]]) -> None:
        """Each row in the order of the struct's fields, texts by `text`."""
        table = ffi.new(f"struct {struct}[]", [tuple(row) for row in rows])
        self._tables[section] = bytes(ffi.buffer(table)), len(rows)

    def texts(self, section: int, values: Iterable[str]) -> None:
        numbers = [self.text(value) for value in values]
        self._tables[section] = bytes(ffi.buffer(ffi.new("uint32_t[]", numbers))), len(numbers)

    def pointer(self, value: str | bytes) -> Any:
        """A text in the place of a pointer."""
        return ffi.cast("char *", self.text(value))

    def plan(self, native: NativePlan) -> None:
        """The cage itself, and the first message to its init."""
        plan = ffi.new("struct psb_plan *", native.struct[0])
        mounts = _copy("struct psb_mount", plan.mounts, plan.n_mounts)
        rules = _copy("struct psb_rule", plan.landlock.rules, plan.landlock.n_rules)
        for mount in mounts:
            for field in ("source", "target", "data"):
                self._place(mount, field)
        for rule in rules:
            self._place(rule, "path")
        self._place(plan, "staging")
        plan.hostname = plan.mounts = plan.landlock.rules = ffi.NULL
        plan.idmap_fd = plan.cgroup_fd = -1
        self._tables[lib.PSB_KEPT_PLAN] = bytes(ffi.buffer(plan)), 1
        self._tables[lib.PSB_KEPT_MOUNTS] = bytes(ffi.buffer(mounts)), len(mounts)
        self._tables[lib.PSB_KEPT_RULES] = bytes(ffi.buffer(rules)), len(rules)
        self.put(lib.PSB_KEPT_SETUP, native.setup)

    def _place(self, struct: Any, field: str) -> None:
        setattr(struct, field, self.pointer(ffi.string(getattr(struct, field))))

    def content(self) -> bytes:
        """Raises ValueError for a table that nobody has given."""
        self.put(lib.PSB_KEPT_TEXT, bytes(self._text))
        at, body = ffi.sizeof("struct psb_kept"), bytearray()
        for section in range(lib.PSB_KEPT_SECTIONS):
            if section not in self._tables:
                raise ValueError(f"table {section} of a kept plan is missing")
            content, count = self._tables[section]
            body += bytes(-(at + len(body)) % ALIGNED)
            self.head.sections[section].at, self.head.sections[section].count = at + len(body), count
            body += content
        self.head.abi = abi()
        self.head.version, self.head.size = lib.PSB_KEPT_VERSION, at + len(body)
        return bytes(ffi.buffer(self.head))[signature_size() :] + bytes(body)


def signature_size() -> int:
    """Bytes of the signature, with which the file begins."""
    return len(ffi.new("struct psb_kept *").signature)


def _copy(struct: str, source: Any, count: int) -> Any:
    copied = ffi.new(f"{struct}[]", count)
    ffi.memmove(copied, source, count * ffi.sizeof(struct))
    return copied
