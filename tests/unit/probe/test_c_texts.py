"""c_texts: what is pointed to is what was said, whatever is in it."""

from __future__ import annotations

import os

from pysandbox._native import ffi

from pysandbox.probe.paths import c_texts

TEXTS = ["", "/", "/usr/lib", "/usr", "ä€\U0001f600", "a\nb", "\udcff\udc80 no text", "/usr"]


def test_each_is_a_c_string_as_the_file_system_spells_it() -> None:
    at, memory = c_texts(TEXTS)
    assert {text: ffi.string(at[text]) for text in TEXTS} == {text: os.fsencode(text) for text in TEXTS}
    assert ffi.sizeof(memory) >= sum(len(os.fsencode(text)) + 1 for text in set(TEXTS))


def test_what_holds_a_nul_ends_there_and_moves_no_other() -> None:
    at, _memory = c_texts(["a\0b", "c"])
    assert (ffi.string(at["a\0b"]), ffi.string(at["c"])) == (b"a", b"c")


def test_none_is_no_error() -> None:
    assert dict(c_texts([])[0]) == {}
