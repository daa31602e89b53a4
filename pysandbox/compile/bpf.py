"""From rules about system calls to a classic BPF program, and back to text.

A rule is a `Decision`: a `Verdict`, or a `When` that asks one register argument and goes on. `assemble` takes the
decisions for ranges of numbers and makes a binary tree of them; nothing here knows a system call by name, and nothing
here touches the world. Called by `compile.seccomp`; the meaning of each program is checked against a simulator and
against libseccomp in tests/unit/compile.

At install the kernel runs the program once for each of its numbers (`seccomp_cache_prepare`, since 5.11) and never
again for those it allows without looking at an argument. So short *paths* are what counts, and only LD of nr and arch,
JEQ, JGE, JGT, JSET, JA, AND and RET may stand on a path before an argument is loaded: that emulator knows no others.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate, groupby

from pysandbox.shapes import NamedTuple, TypeAlias

LIMIT = 4096  # BPF_MAXINSNS
LD, JA, JEQ, JGT, JGE, JSET, AND, RET = 0x20, 0x05, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
NAMES = {LD: "ld", JA: "ja", JEQ: "jeq", JGT: "jgt", JGE: "jge", JSET: "jset", AND: "and", RET: "ret"}
NR, ARCH, ARGS = 0, 4, 16  # offsets in struct seccomp_data
LOW, HIGH = 0, 4  # halves of an argument; both machines are little-endian
WORD = 0xFFFFFFFF
REACH = 254  # an 8-bit jump offset, less one for the instruction that may be put in between


class CallAction(Enum):
    """What becomes of a call. Which action word that is (strict, monitor) is decided by the caller of `assemble`."""

    ALLOW = "allowed"
    DENY = "refused"
    NEVER = "refused in every profile"
    KILL = "the process is killed"
    MILD = "refused, but never by a kill: programs ask for it unasked"
    ABSENT = "answered as by a kernel without the call"
    UNSUPPORTED = "answered as by a file system without it"
    NOTIFY = "handed to the supervisor"


class When(NamedTuple):
    """`yes` if (argument `arg` & `mask`) is one of `values`, else `no`.

    The mask says how wide the kernel reads the argument: an int or unsigned int is the low 32 bits, whatever a
    program leaves in the upper ones.
    """

    arg: int
    mask: int
    values: tuple[int, ...]
    yes: Decision
    no: Decision


Decision: TypeAlias = CallAction | When
Weight: TypeAlias = Callable[[int, int], int]


class Range(NamedTuple):
    """`decision` holds from number `start` up to the start of the next range."""

    start: int
    decision: Decision


def ranges(decisions: Mapping[int, Decision], gaps: Decision, tail: Sequence[Range]) -> list[Range]:
    """Every number below the first of `tail` with its decision, neighbours of equal treatment made one."""
    rows = [Range(0, gaps)]
    for number in sorted(decisions):
        if number > rows[-1].start:
            rows.append(Range(number, gaps))
        rows[-1] = Range(number, decisions[number])
        rows.append(Range(number + 1, gaps))
    return [next(same) for _, same in groupby((*rows, *tail), key=lambda row: row.decision)]


def assemble(arch: int, rows: Sequence[Range], words: Mapping[CallAction, int], weight: Weight) -> bytes:
    """`struct sock_filter[]`: `rows` for calls of machine `arch`, KILL for those of any other.

    `weight(start, end)` says how much the length of the path to those numbers matters.
    """
    program = _Assembler()
    tree = program.tree(rows, list(accumulate(_weights(rows, weight), initial=0)), 0, len(rows))
    program.load(NR, tree)
    tree = program.size
    kill = program.decide(CallAction.KILL)
    program.load(ARCH, program.jump(JEQ, arch, tree, kill))
    if program.size > LIMIT:
        raise ValueError(f"the filter has {program.size} instructions; the kernel takes {LIMIT}")
    return program.encode(words)


def _weights(rows: Sequence[Range], weight: Weight) -> Iterable[int]:
    ends = [row.start for row in rows[1:]] + [WORD + 1]
    return (weight(row.start, end) for row, end in zip(rows, ends, strict=True))


class _Assembler:
    """Instructions in reverse, so that every jump is to something that is already there.

    A position is the distance from the end: the number of instructions when that one was appended.
    """

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int | CallAction]] = []
        self._placed: dict[tuple[Decision, int | None, int], int] = {}

    @property
    def size(self) -> int:
        return len(self._code)

    def tree(self, rows: Sequence[Range], weights: Sequence[int], low: int, high: int) -> int:
        """Where to go with a number of rows[low:high] in the accumulator."""
        if high - low == 1:
            return self.decide(rows[low].decision)
        alone = rows[low + 1].start
        if high - low == 3 and rows[low].decision == rows[low + 2].decision and rows[low + 2].start == alone + 1:
            return self.jump(JEQ, alone, self.decide(rows[low + 1].decision), self.decide(rows[low].decision))
        half = (weights[low] + weights[high]) / 2
        middle = bisect_left(weights, half, low + 1, high - 1)
        if middle - 1 > low and half - weights[middle - 1] < weights[middle] - half:
            middle -= 1
        right = self.tree(rows, weights, middle, high)
        return self.jump(JGE, rows[middle].start, right, self.tree(rows, weights, low, middle))

    def decide(self, decision: Decision, held: int | None = None, mask: int = WORD) -> int:
        """Where to go for `decision`, when the accumulator holds the word at offset `held`, masked."""
        if isinstance(decision, CallAction) or held != ARGS + 8 * decision.arg + LOW:
            held, mask = None, WORD
        key = (decision, held, mask)
        place = self._placed.get(key)
        if place is None or self.size - place > REACH:
            place = self._append(RET, decision) if isinstance(decision, CallAction) else self._ask(decision, held, mask)
            self._placed[key] = place
        return place

    def _ask(self, when: When, held: int | None, mask: int) -> int:
        offset = ARGS + 8 * when.arg
        if when.mask > WORD:
            return self._ask_wide(when, offset)
        if when.values == (0,):
            yes, no = (self.decide(each, offset + LOW) for each in (when.yes, when.no))
            return self._holding(offset + LOW, WORD, held, mask, self.jump(JSET, when.mask, no, yes))
        yes, place = (self.decide(each, offset + LOW, when.mask) for each in (when.yes, when.no))
        for value in reversed(when.values):
            place = self.jump(JEQ, value, yes, place)
        return self._holding(offset + LOW, when.mask, held, mask, place)

    def _ask_wide(self, when: When, offset: int) -> int:
        yes, place = self.decide(when.yes), self.decide(when.no)
        for value in reversed(when.values):
            no = place
            for half, shift in ((LOW, 0), (HIGH, 32)):
                wanted = self.jump(JEQ, value >> shift & WORD, yes if half == LOW else place, no)
                place = self._holding(offset + half, when.mask >> shift & WORD, None, WORD, wanted)
        return place

    def _holding(self, offset: int, mask: int, held: int | None, held_mask: int, place: int) -> int:
        """Gets the masked word at `offset` into the accumulator before `place`, the newest instruction."""
        if (offset, mask) == (held, held_mask):
            return place
        if mask != WORD:
            place = self._append(AND, mask)
        return place if offset == held and held_mask == WORD else self.load(offset, place)

    def load(self, offset: int, place: int) -> int:
        if place != self.size:
            self._append(JA, self.size - place)
        return self._append(LD, offset)

    def jump(self, code: int, value: int, yes: int, no: int) -> int:
        yes, no = self._near(yes), self._near(no)
        self._code.append((code, self.size - yes, self.size - no, value))
        return self.size

    def _near(self, place: int) -> int:
        if self.size - place <= REACH:
            return place
        code, _, _, value = self._code[place - 1]
        return self._append(RET, value) if code == RET else self._append(JA, self.size - place)

    def _append(self, code: int, value: int | CallAction) -> int:
        self._code.append((code, 0, 0, value))
        return self.size

    def encode(self, words: Mapping[CallAction, int]) -> bytes:
        return b"".join(
            struct.pack("<HBBI", code, yes, no, words[value] if isinstance(value, CallAction) else value)
            for code, yes, no, value in reversed(self._code)
        )


def disassemble(program: bytes) -> str:
    """One line per instruction, jumps as absolute line numbers."""
    lines = []
    for here, (code, yes, no, value) in enumerate(struct.iter_unpack("<HBBI", program)):
        target = f" -> {here + 1 + value}" if code == JA else f" 0x{value:x}"
        if code in (JEQ, JGT, JGE, JSET):
            target += f" -> {here + 1 + yes}, {here + 1 + no}"
        lines.append(f"{here}: {NAMES[code]}{target}")
    return "\n".join(lines)
