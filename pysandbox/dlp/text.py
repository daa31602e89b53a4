"""From bytes to the texts in them. A credential is printable ASCII, so a text is the stretches of bytes that are: of a
picture nothing is left, of a page in any language its ASCII parts, with a mark between two of them.

Two more views where there is cause: without NULs (UTF-16 and UTF-32), and without what cannot be seen or only looks
like ASCII.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.dlp import passes
from pysandbox.dlp.passes import Buffer, Text

SHORTEST = 16  # a stretch that is looked at; credentials are longer, and so are their encodings

_LIKE = {
    0x410: "A", 0x412: "B", 0x415: "E", 0x405: "S", 0x406: "I", 0x408: "J", 0x41A: "K", 0x41C: "M", 0x41D: "H",
    0x41E: "O", 0x420: "P", 0x421: "C", 0x422: "T", 0x425: "X", 0x430: "a", 0x435: "e", 0x43E: "o", 0x440: "p",
    0x441: "c", 0x443: "y", 0x445: "x", 0x456: "i", 0x458: "j", 0x455: "s", 0x391: "A", 0x392: "B", 0x395: "E",
    0x396: "Z", 0x397: "H", 0x399: "I", 0x39A: "K", 0x39C: "M", 0x39D: "N", 0x39F: "O", 0x3A1: "P", 0x3A4: "T",
    0x3A5: "Y", 0x3A7: "X", 0x3BF: "o", 0x3BD: "v", 0x3C1: "p",
}  # fmt: skip
LOOKS_LIKE = {chr(code).encode(): letter.encode() for code, letter in _LIKE.items()}
ALIKE = passes.alike(LOOKS_LIKE)


def texts(blob: Buffer, *, is_guess: bool = False) -> Iterator[Text]:
    """Each view of what was sent, or of what was decoded; the first may be the blob itself. `is_guess`: most such blobs
    are noise, and only what is UTF-8 as a whole is worth a look for letters that are not ASCII."""
    if len(blob) < SHORTEST:
        return
    has_nul, is_beyond_ascii, is_utf8 = passes.bytes_of(blob)
    if not (has_nul or is_beyond_ascii):
        yield bytes(blob) if isinstance(blob, memoryview) else blob
        return
    for skips_nul in (False, True)[: 1 + has_nul]:
        if text := passes.stretches(blob, skips_nul=skips_nul):
            yield text
            del text  # which may be as large as the blob
    if is_beyond_ascii and (is_utf8 or not is_guess):
        yield from passes.folded(blob, ALIKE)
