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
    places: dict[str, int] = {}
    whole = bytearray()
    for text in texts:
        if text not in places:
            places[text] = len(whole)
            whole += text.encode(_ENCODING, _ERRORS)
            whole.append(0)
    memory = ffi.new("char[]", bytes(whole))
    return {text: memory + at for text, at in places.items()}, memory
