"""The passes over a text that are made in C, without the interpreter's lock (csrc/host/scan): what each says, as bytes.

Whatever is scanned may be `bytes`, or a buffer that its owner leaves alone meanwhile: nothing is copied to be read.
What is made of a long text is made of one part of it after the other, so that it takes no memory as large as the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox._native import ffi, lib
from pysandbox.shapes import Any

Buffer = bytes | bytearray | memoryview
Text = bytes | bytearray
MOST_LAYERS: int = lib.PSB_MOST_LAYERS  # of escapes inside each other
LARGE = 1 << 16  # bytes; what is made and is longer stays in the memory it was made in

PART, AROUND = 1 << 19, 1 << 14  # bytes of a part; those before it that it has too, more than an escaped find has

BREAK = b"\x01"  # between two pieces that do not belong together: in no alphabet
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = b"0123456789"


# ---- texts in bytes ----------------------------------------------------------------------------------------------


def bytes_of(blob: Buffer) -> tuple[bool, bool, bool]:
    """Whether there is a NUL, whether there is more than ASCII, and whether it is UTF-8."""
    flags = lib.psb_bytes_of(ffi.from_buffer(blob), len(blob))
    return bool(flags & lib.PSB_HAS_NUL), bool(flags & lib.PSB_HAS_BEYOND_ASCII), bool(flags & lib.PSB_IS_UTF8)


def stretches(blob: Buffer, *, skips_nul: bool) -> Text:
    """The stretches of printable ASCII, with a break between two; all of what is ASCII as a whole."""
    size = lib.psb_stretches(ffi.from_buffer(blob), len(blob), skips_nul, ffi.NULL)
    out = bytearray(size)
    if size:
        lib.psb_stretches(ffi.from_buffer(blob), len(blob), skips_nul, ffi.from_buffer(out))
    return _kept(out, size)


def folded(blob: Buffer, alike: Any) -> Iterator[Text]:
    """The stretches without what cannot be seen, and with ASCII for what looks like it; of parts that have neither,
    nothing."""
    buffer = ffi.from_buffer(blob)
    for begin, end in parts(blob):
        out, size = bytearray(end - begin), end - begin
        with ffi.from_buffer(out) as room:
            size = lib.psb_fold(buffer + begin, size, alike, room)
            size = lib.psb_stretches(room, size, False, room) if size < len(out) else 0
        if size:
            yield _kept(out, size)


def parts(blob: Buffer) -> Iterator[tuple[int, int]]:
    """Where each begins and ends: what is together a find, or a run of an encoding, is in one of them."""
    for begin, end in cuts(blob, 0):
        yield max(0, begin - AROUND), end


def cuts(blob: Buffer, at: int) -> Iterator[tuple[int, int]]:
    """The parts without what is around them, from there on."""
    size, buffer = len(blob), ffi.from_buffer(blob)
    while at < size:
        begin, at = at, lib.psb_find_cut(buffer, size, at + PART)
        yield begin, at


def unseen(blob: bytes, alike: Any) -> bytes:
    """All of it as `folded` has its stretches."""
    out = bytearray(len(blob))
    with ffi.from_buffer(out) as room:
        size = lib.psb_fold(ffi.from_buffer(blob), len(blob), alike, room)
    return bytes(out[:size])


def alike(pairs: dict[bytes, bytes]) -> Any:
    """The struct psb_alike of these: two bytes of UTF-8, and what they look like."""
    table = ffi.new("struct psb_alike *")
    for (first, second), letter in pairs.items():
        table.letters[first - 0xCE][second & 0x3F] = letter[0]
    return table


def unescaped_parts(text: Text) -> Iterator[Text | None]:
    """As `unescaped` has them, of one part after the other, each also where that is nothing. Bytes in which something
    compressed may begin are not cut: their part goes on to the end of the line, beyond which no escape goes."""
    after, buffer = 0, ffi.from_buffer(text)
    for begin, end in parts(text) if lib.psb_is_escaped(buffer, len(text)) else ():
        if end <= after:
            continue
        plain = unescaped(memoryview(text)[max(begin, after - AROUND) : end])
        if plain and end < len(text) and next(compressed(plain), None) is not None and bytes_of(plain)[1]:
            after = text.find(b"\n", end) % (len(text) + 1)  # or to the end
            plain = unescaped(memoryview(text)[begin:after])
        yield plain


def compressed(blob: Buffer) -> Iterator[int]:
    """Where gzip's or zlib's format may begin."""
    buffer, size = ffi.from_buffer(blob), len(blob)
    at = lib.psb_find_compressed(buffer, size, 0)
    while at < size:
        yield at
        at = lib.psb_find_compressed(buffer, size, at + 1)


# ---- what is encoded in a text -----------------------------------------------------------------------------------


def unescaped(text: Buffer) -> Text | None:
    """The lines that had escapes, without them; None when one is escaped too many times over."""
    buffer, size = ffi.from_buffer(text), len(text)
    room = lib.psb_escaped_size(buffer, size)
    if not room:
        return b""
    out, result = bytearray(room), ffi.new("struct psb_unescaped *")
    with ffi.from_buffer(out) as said:
        lib.psb_unescape(buffer, size, said, result)
    return None if result.is_too_often else _kept(out, result.said)


def unquoted(text: Buffer) -> Text:
    """The lines of quoted-printable without it: those with a soft break at their end, and those that are escaped
    throughout. Between lines that are not one behind the other is a break."""
    buffer, size = ffi.from_buffer(text), len(text)
    if lib.psb_find_quoted(buffer, size, 0) == size:
        return b""
    out = bytearray(size)
    with ffi.from_buffer(out) as said:
        size = lib.psb_unquote(buffer, size, said)
    return _kept(out, size)


def is_form(text: Buffer) -> bool:
    return bool(lib.psb_is_form(ffi.from_buffer(text), len(text)))


def alphabet(letters: bytes, separators: bytes, *, least: int, skips_0x: bool = False) -> Any:
    """The struct psb_alphabet of letters in the order of their values, those that are twice the letters of another
    case; the bits of one are as many as their number has. `least`: letters of a run."""
    made = ffi.new("struct psb_alphabet *")
    made.bits = {16: 4, 32: 5, 64: 6}[len(letters)]
    made.least, made.phases, made.skips_0x = least, {4: 2, 5: 8, 6: 4}[made.bits], skips_0x
    for byte in range(256):
        made.values[byte] = lib.PSB_SEPARATOR if byte in separators else lib.PSB_NO_LETTER
    for value, letter in enumerate(letters):
        made.values[letter] = value
    return made


def also(made: Any, letters: bytes, same: bytes) -> Any:
    """Gives each of `letters` the value that the letter of `same` has; returns the alphabet."""
    for letter, other in zip(letters, same, strict=True):
        made.values[letter] = made.values[other]
    return made


def decoded_runs(text: Buffer, letters: Any) -> Iterator[Buffer]:
    """What the runs of this alphabet say, from each letter that they may begin at: texts, several together with a break
    and a new line between two; and blobs. Each is used before the next is asked for: it may lie in the same memory."""
    buffer = ffi.from_buffer(text)
    first = lib.psb_find_run(buffer, len(text), letters)
    if first == len(text):
        return
    runs, blob = ffi.new("struct psb_runs *", {"end": first}), bytearray(lib.PSB_SMALL_BLOB + 1)
    while lib.psb_decode_runs(buffer, len(text), letters, runs, ffi.from_buffer(blob), len(blob)):
        if runs.said:
            yield bytes(ffi.buffer(runs.texts, runs.said))
        if runs.blob:
            yield memoryview(blob)[: runs.blob]
        if runs.need:
            blob = bytearray(runs.need)


def _kept(made: bytearray, size: int) -> Text:
    if size < LARGE:
        return bytes(memoryview(made)[:size])
    del made[size:]
    return made
