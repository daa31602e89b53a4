"""Stretches of a text that are spread as data is, and not as language: runs of 20 and more letters and digits whose
entropy reaches 0.92 of what their alphabet gives at that length, and bytes that are no text (csrc/host/entropy/).

No single threshold tells them from text: 20 digits of hexadecimal have fewer bits each than English. So each run is
held against its own alphabet: 10, 16, 32, 36 or 64 symbols by the kinds of symbols that it has, and from 512 on also
the number of different ones. Digests and UUIDs are names that everybody sends; they are told apart. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterator
from functools import cache

from pysandbox._native import ffi, lib
from pysandbox.dlp.decode import escapes
from pysandbox.dlp.detector import Detector, below
from pysandbox.dlp.passes import BREAK, cuts
from pysandbox.shapes import Any, NamedTuple

SHARE = 0.92
ALPHABETS = (10, 16, 32, 36, 64)
SYMBOLS = {10: set("0123456789"), 16: set("0123456789abcdef"), 32: set("abcdefghijklmnopqrstuvwxyz234567"),
           36: set("abcdefghijklmnopqrstuvwxyz0123456789"), 64: set[str]()}  # of names, in small letters  # fmt: skip
EXACT = 128  # symbols up to which what is expected is counted out; beyond, its series is exact to 0.001 bits
NAME = "generic_high_entropy"
AT_ONCE = 1 << 16  # bytes of a stretch
PART, MANY = 4096, 16  # escapes in so many bytes; fewer of them hide 300 bytes, in pieces of 19

# Where data is what one sends: pictures and files go to models as base64.
ENTROPY = Detector(
    NAME, (), b"", (), (),
    homes=(
        *below("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com", "aiplatform.googleapis.com"),
        *below("api.mistral.ai", "api.groq.com", "api.x.ai", "api.perplexity.ai", "api.deepseek.com", "api.cohere.com"),
        *below("api.replicate.com", "openrouter.ai", "router.huggingface.co", "api-inference.huggingface.co"),
        *below("api.together.xyz", "api.fireworks.ai", "api.cerebras.ai", "openai.azure.com", "chatgpt.com"),
        "api.githubcopilot.com", "copilot-proxy.githubusercontent.com", "opencode.ai",
    ),
)  # fmt: skip

_UUID = rb"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_DIGESTS = b"|".join(b"[0-9a-fA-F]{%d}" % digits for digits in (32, 40, 60, 64, 96, 128))  # 60: in paths of PyPI
_INTEGRITY = rb"sha(?:256|384|512)-[A-Za-z0-9+/]{43,86}"  # of npm and the web
_NAMED = re.compile(rb"(?:[A-Za-z]{1,15}[-_])?" + _UUID + b"|" + _DIGESTS + b"|" + _INTEGRITY)


class Stretch(NamedTuple):
    """`is_named`: a digest or a UUID, alone."""

    said: bytes
    is_named: bool


def stretches(text: bytes | bytearray, begins: int = 0) -> Generator[Stretch]:
    """The opaque ones of a text from `begins` on, and of what its escapes stand for. Until it is closed the text cannot
    be changed. Raises Undecodable."""
    if lib.psb_find_escapes(ffi.from_buffer(text), len(text), begins, PART, MANY) == len(text):
        yield from _plain_stretches(text, begins)
        return
    for begin, end in cuts(text, begins):
        yield from _plain_stretches(_unescaped(text[begin:end]), 0)


def _plain_stretches(text: bytes | bytearray, begins: int) -> Iterator[Stretch]:
    for begin, end in _found(lib.psb_find_opaque, text, begins, _expected()):
        said = bytes(text[begin:end])
        of_go = len(said) == 43 and text[max(0, begin - 3) : begin] == b"h1:"
        yield Stretch(said, of_go or _NAMED.fullmatch(said) is not None)
    for begin, end in _found(lib.psb_find_bytes, text, begins):
        for at in range(begin, end, AT_ONCE):
            yield Stretch(bytes(text[at : min(at + AT_ONCE, end)]), False)


def _unescaped(text: bytes | bytearray) -> bytes:
    """With what escapes of URLs, JSON and HTML stand for, where there are enough of them to cut runs in pieces."""
    pieces: list[bytes | bytearray] = []
    at, buffer = 0, ffi.from_buffer(text)
    while (dense := lib.psb_find_escapes(buffer, len(text), at, PART, MANY)) < len(text):
        pieces += [text[at:dense], _plain(text[dense : dense + PART])]
        at = dense + PART
    return b"".join((*pieces, text[at:]))


def _plain(piece: bytes | bytearray) -> bytes:
    """As one line: a line for each would cost a microsecond, and a text may have millions."""
    return bytes(escapes(piece.replace(b"\n", BREAK)) or piece).replace(BREAK, b"\n")


def _found(search: Any, text: bytes | bytearray, begins: int, *more: Any) -> Iterator[tuple[int, int]]:
    found, size, buffer = ffi.new("struct psb_opaque *"), len(text), ffi.from_buffer(text)
    found.next = begins
    while found.next < size:
        search(buffer, size, *more, found)
        for index in range(found.count):
            yield found.begin[index], found.end[index]


# ---- what an alphabet gives ---------------------------------------------------------------------------------------


@cache
def _expected() -> Any:
    """The struct psb_entropy, made once."""
    made = ffi.new("struct psb_entropy *")
    longest = lib.PSB_LONGEST_RUN
    made.weight = [0.0, *(n * math.log2(n) for n in range(1, longest + 1))]
    made.least = [[SHARE * each for each in _by_length(symbols, longest)] for symbols in ALPHABETS]
    made.share = SHARE
    return made


def _by_length(symbols: int, longest: int) -> Iterator[float]:
    """The bits of each symbol, by the length of a run of chance; nothing is said of runs below the shortest."""
    for length in range(longest + 1):
        if length < lib.PSB_SHORTEST_RUN:
            yield 0.0
        elif length <= EXACT:
            yield expected_bits(symbols, length)
        else:  # Miller and Madow, with the next term of the series
            short = (symbols - 1) / (2 * length) + (symbols**2 - 1) / (12 * length**2)
            yield math.log2(symbols) - short / math.log(2)


def share_of(said: str) -> float:
    """How much they have of what the alphabet of these letters and digits gives at their length; 0 below the shortest
    run. For a label of a name: of a text, `stretches` says it."""
    if not lib.PSB_SHORTEST_RUN <= len(said) <= EXACT:
        return 0.0
    symbols = next(size for size, letters in SYMBOLS.items() if letters.issuperset(said) or size == ALPHABETS[-1])
    bits = math.log2(len(said)) - sum(n * math.log2(n) for n in map(said.count, set(said))) / len(said)
    return bits / expected_bits(symbols, len(said))


def expected_bits(symbols: int, length: int) -> float:
    """The mean of the empirical entropy of so many draws out of so many symbols."""
    lost, chance = 0.0, (1 - 1 / symbols) ** length  # of one symbol to come no time
    for count in range(1, length + 1):
        chance *= (length - count + 1) / count / (symbols - 1)
        lost += chance * count * math.log2(count)
        if count > length / symbols and chance < 1e-9:
            break
    return math.log2(length) - symbols * lost / length
