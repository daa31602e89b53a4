"""What the passes in C say (csrc/host/scan), said once more in as little Python as it takes: slow, and easy to check by
eye. tests/unit/dlp/test_passes.py holds the two against each other."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from html.entities import html5
from itertools import groupby
from urllib.parse import unquote_to_bytes

from pysandbox.dlp.decode import BASE32, BASE64, BLANKS, SMALL
from pysandbox.dlp.passes import AROUND, PART
from pysandbox.dlp.text import LOOKS_LIKE, SHORTEST

HEX = b"0123456789abcdefABCDEF"
BETWEEN_HEX = b" \t\r\n:,;.-_|\\x"
LAYERS = 32
CUT = re.compile(rb"[\"'<>()\[\]!$*@]")
PRINTABLE = bytes(c for c in range(256) if 0x20 <= c < 0x7F or c in b"\t\r\n")
TOKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
INVISIBLE = re.compile(
    rb"\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad|\xcd[\x80-\xaf]|\xcc[\x80-\xbf]|"
    rb"\xef\xb8[\x80-\x8f]|\xe1\x85[\x9f\xa0]|\xe1\xa0\x8e|\xf3\xa0[\x80-\x87][\x80-\xbf]"
)
FULL_WIDTH = re.compile(rb"\xef[\xbc\xbd][\x80-\xbf]")
GREEK_OR_CYRILLIC = re.compile(rb"[\xce\xcf\xd0\xd1][\x80-\xbf](?:[\xce\xcf\xd0\xd1][\x80-\xbf]){0,7}")
COMPRESSED = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]|\x28\xb5\x2f\xfd")
IN_URL = re.compile(rb"%u([0-9a-fA-F]{4})")
IN_JSON = re.compile(rb"\\(?:u\{0{0,4}([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-3][0-7]{2}))")
IN_HTML = re.compile(rb"&#(?:0{0,8}([1-9][0-9]{0,6})|[xX]0{0,8}([0-9a-fA-F]{1,6}))(?:;|(?![0-9a-fA-F]))")
SHORT_JSON = ((b"\\\\", b"\\"), (b"\\/", b"/"), (b'\\"', b'"'), (b"\\n", b"\n"), (b"\\r", b"\r"))
NAMED = {
    name.encode(): said.encode() for name, said in html5.items() if name[-1] == ";" and len(said) == 1 and said < "\x7f"
}
IN_NAMES = re.compile(b"&(" + b"|".join(NAMED) + b")")
QUOTED = re.compile(rb"=(?:\r?\n|[0-9A-Fa-f]{2}=[0-9A-Fa-f]{2}=)")
QUOTED_ONCE = re.compile(rb"=(?:\r?\n|([0-9A-Fa-f]{2}))")


class TooOften(Exception):
    """A line is escaped more often than anybody does."""


# ---- texts in bytes ----------------------------------------------------------------------------------------------


def runs(blob: bytes, alphabet: bytes, least: int) -> Iterator[bytes]:
    members = frozenset(alphabet)
    for is_in, stretch in groupby(blob, members.__contains__):
        if is_in and len(said := bytes(stretch)) >= least:
            yield said


def text_of(blob: bytes) -> bytes:
    if len(blob) < SHORTEST:
        return b""
    if blob.isascii() and b"\0" not in blob:
        return blob
    return b"\x01".join(runs(blob, PRINTABLE, SHORTEST))


def texts(blob: bytes, *, is_guess: bool = False) -> list[bytes]:
    found = [text_of(blob)]
    if b"\0" in blob:
        found.append(text_of(blob.replace(b"\0", b"")))
    if not blob.isascii() and not (is_guess and not is_utf8(blob)):
        found += [text_of(plain) for part in parts(blob) if (plain := folded(part)) != part]
    return [each for each in found if each]


def parts(blob: bytes) -> Iterator[bytes]:
    last = 0
    while last < len(blob):
        begin = max(0, last - AROUND)
        cut = CUT.search(blob, last + PART)
        last = cut.end() if cut else len(blob)
        yield blob[begin:last]


def is_utf8(blob: bytes) -> bool:
    try:
        blob.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def folded(blob: bytes) -> bytes:
    return GREEK_OR_CYRILLIC.sub(alike, FULL_WIDTH.sub(narrow, INVISIBLE.sub(b"", blob)))


def narrow(found: re.Match[bytes]) -> bytes:
    code = ord(found[0].decode("utf-8"))
    return bytes((code - 0xFEE0,)) if 0xFF01 <= code <= 0xFF5E else found[0]


def alike(found: re.Match[bytes]) -> bytes:
    text, begin, end = found.string, *found.span()
    if not TOKEN.intersection((*text[max(0, begin - 1) : begin], *text[end : end + 1])):
        return found[0]
    return b"".join(LOOKS_LIKE.get(text[at : at + 2], text[at : at + 2]) for at in range(begin, end, 2))


def compressed(blob: bytes) -> list[int]:
    return [found.start() for found in COMPRESSED.finditer(blob)]


# ---- what is encoded in a text -----------------------------------------------------------------------------------


def unescaped(text: bytes) -> bytes:
    """Raises TooOften."""
    lines = [line for line in text.split(b"\n") if b"%" in line or b"\\" in line or b"&" in line]
    return b"\x01".join(plain for line in lines if (plain := without_layers(line)) != line)


def without_layers(line: bytes) -> bytes:
    for _ in range(LAYERS):
        plain = one_layer(line)
        if plain == line:
            return plain
        line = plain
    raise TooOften


def one_layer(text: bytes) -> bytes:
    text = IN_JSON.sub(character, IN_URL.sub(character, unquote_to_bytes(text)))
    for escape, said in SHORT_JSON:
        text = text.replace(escape, said)
    text = IN_HTML.sub(of_html, text)
    return IN_NAMES.sub(lambda found: NAMED[found[1]], text.replace(b"&amp;", b"&"))


def character(found: re.Match[bytes]) -> bytes:
    kind = found.lastindex or 1
    code = int(found[kind], 8 if kind == 4 else 16)
    return utf8(code) if kind < 3 else bytes((code & 0xFF,))


def of_html(found: re.Match[bytes]) -> bytes:
    return utf8(int(found[1]) if found[1] else int(found[2], 16))


def utf8(code: int) -> bytes:
    return b"" if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code).encode()


def unquoted(text: bytes) -> bytes:
    pieces: list[bytes] = []
    last = 0
    while found := QUOTED.search(text, last):
        begin = max(text.rfind(b"\n", 0, found.start()) + 1, last)
        last = found.start() + 1
        while (last := text.find(b"\n", last)) >= 0 and text[max(0, last - 2) : last].rstrip(b"\r")[-1:] == b"=":
            last += 1
        last = len(text) if last < 0 else last
        pieces.append(QUOTED_ONCE.sub(lambda each: bytes.fromhex((each[1] or b"").decode()), text[begin:last]))
    return b"\x01".join(pieces)


def base64s(text: bytes) -> Iterator[bytes]:
    letters = BASE64 + b"-_"
    yield from _of_base64(text, letters + b"\r\n")
    if len(text) <= SMALL and (b" " in text or b"\t" in text):
        yield from _of_base64(text, letters + BLANKS)


def _of_base64(text: bytes, alphabet: bytes) -> Iterator[bytes]:
    for said in runs(text, alphabet, 22):
        run = said.translate(bytes.maketrans(b"-_", b"+/"), BLANKS)
        for at in range(4 if len(run) >= 22 else 0):
            rest = (len(run) - at) % 4
            yield binascii.a2b_base64(run[at : len(run) - (rest == 1)] + b"=" * (4 - rest if rest > 1 else 0))


def hexes(text: bytes) -> Iterator[bytes]:
    for said in runs(text.replace(b"0x", b" ").replace(b"0X", b" "), HEX + BETWEEN_HEX, 32):
        run = said.translate(None, BETWEEN_HEX)
        for at in range(2 if len(run) >= 32 else 0):
            yield binascii.unhexlify(run[at : len(run) - (len(run) - at) % 2])


def base32s(text: bytes) -> Iterator[bytes]:
    for letters in (BASE32, BASE32.lower()):
        for said in runs(text, letters + b"\r\n", 26):
            run = said.translate(None, b"\r\n").upper()
            for at in range(8 if len(run) >= 26 else 0):
                rest = {1: 0, 3: 2, 6: 5}.get((len(run) - at) % 8, (len(run) - at) % 8)  # letters that make whole bytes
                kept = run[at : at + (len(run) - at) // 8 * 8 + rest]
                yield base64.b32decode(kept + b"=" * (-len(kept) % 8))
