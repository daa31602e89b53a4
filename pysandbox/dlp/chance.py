"""Whether what has the form of a credential is there by chance. A megabyte of base64 has three letters of its alphabet
at any place four times, and with them now and then the form of a short token.

It is chance where all of this holds: the beginning that gave it away is short (SHORT); letters of such data stand right
before it and right after it, so that it is longer than its form; of these around it there are LEAST and more, and all
(up to MOST on each side) are opaque (`opaque`: a budget has each) and fill base64; and no checksum of it is right.

A real credential ends at something. Whoever puts one between so many random letters could as well encrypt it. False
credentials, and the detectors of a policy, are never taken for chance.
"""

from __future__ import annotations

import zlib

from pysandbox.dlp.detector import Detector
from pysandbox.dlp.opaque import stretches
from pysandbox.dlp.passes import DIGITS, LETTERS, Text
from pysandbox.policy.detector_names import LISTABLE, OF_PACKS

SHORT = 5  # letters; six of 64 come by chance once in 64 GiB
LEAST, MOST = 128, 512  # letters around it
PRICE = 4096  # of a look, in bytes of a scan
FILLED = 0.7  # of its size is left of base64 when it is compressed; of digits half
RUN, BREAKS = LETTERS + DIGITS + b"+/-_", b"\r\n"
CHECKED = {"github_pat": 30, "npm_token": 30}  # letters after the first four; the rest is their sum
SUMS = DIGITS + LETTERS  # in the order of their values
KNOWN = frozenset((*LISTABLE, *OF_PACKS))  # no detector of a policy has one of these names


def is_open(detector: Detector, text: Text, at: int, begin: int, end: int) -> bool:
    """Whether it could be chance, by a look at two letters: `at` is where its literal stands."""
    if detector.never or detector.name not in KNOWN:
        return False
    if not (begin > 0 and end < len(text) and text[begin - 1] in RUN and text[end] in RUN):
        return False
    return max(len(each) for each in detector.literals if text[at : at + len(each)] == each) <= SHORT


def is_chance(detector: Detector, text: Text, begin: int, end: int) -> bool:
    """Whether a match is there by chance that `is_open` leaves open."""
    if detector.name in CHECKED and has_sum(bytes(text[begin:end]), CHECKED[detector.name]):
        return False
    before, after = bytes(text[max(0, begin - MOST) : begin]), bytes(text[end : end + MOST])
    before = before[len(before.rstrip(RUN + BREAKS)) :]
    after = after[: len(after) - len(after.lstrip(RUN + BREAKS))]
    around = (before + after).translate(None, BREAKS)
    if len(around) < LEAST or len(zlib.compress(around, 1)) < FILLED * len(around):
        return False  # a few letters over and over are as even, and whatever has ten symbols is
    return [each.said for each in stretches(around)] == [around]


def has_sum(said: bytes, letters: int) -> bool:
    """Whether it ends with the CRC-32 of so many letters of it, in base 62."""
    body, total = said[4 : 4 + letters], 0
    for each in said[4 + letters :]:
        value = SUMS.find(each)
        if value < 0:
            return False
        total = 62 * total + value
    return len(said) == 4 + letters + 6 and total == zlib.crc32(body)
