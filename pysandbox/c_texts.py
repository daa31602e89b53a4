"""Texts that a C struct points to: all in one memory, each once. One for each text would cost a start more than what
the texts say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

from pysandbox._native import ffi
from pysandbox.shapes import Any

_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()


def c_texts(texts: Iterable[str]) -> tuple[Mapping[str, Any], Any]:
    """A `char *` for each text, as the file system spells it, and the memory, which has to live as long as they do."""
    once = list(dict.fromkeys(texts))
    spelled = [text.encode(_ENCODING, _ERRORS) for text in once]
    memory = ffi.new("char[]", b"\0".join(spelled))
    places, at = {}, 0
    for text, each in zip(once, spelled, strict=True):
        places[text] = memory + at
        at += len(each) + 1
    return places, memory
