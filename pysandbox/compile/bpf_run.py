"""What a seccomp program answers: classic BPF as the kernel runs it, for the instructions that `compile.bpf` makes.

Pure. `compile.init_calls` asks it whether cage-init can live under a filter, whatever the filter was made from.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from pysandbox.compile.bpf import AND, JA, JEQ, JGE, JGT, JSET, LD, RET, WORD

ARGUMENTS = 6
DATA = struct.Struct(f"<IIQ{ARGUMENTS}Q")  # struct seccomp_data: number, arch, instruction pointer, arguments
WORDS = struct.Struct(f"<{DATA.size // 4}I")


@lru_cache(maxsize=8)
def _decoded(program: bytes) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(struct.iter_unpack("<HBBI", program))


def answer(program: bytes, arch: int, number: int, arguments: Sequence[int] = ()) -> int:
    """The action word for one call with these registers; those not named are zero."""
    code = _decoded(program)
    words = WORDS.unpack(DATA.pack(number, arch, 0, *arguments, *(0,) * (ARGUMENTS - len(arguments))))
    held = here = 0
    while True:
        operation, yes, no, value = code[here]
        here += 1
        if operation == RET:
            return value
        if operation == LD:
            held = words[value // 4]
        elif operation == AND:
            held &= value & WORD
        elif operation == JA:
            here += value
        else:
            here += yes if _holds(operation, held, value) else no


def _holds(operation: int, held: int, value: int) -> bool:
    if operation == JEQ:
        return held == value
    if operation == JGE:
        return held >= value
    if operation == JGT:
        return held > value
    if operation == JSET:
        return bool(held & value)
    raise ValueError(f"0x{operation:x} is no instruction that compile.bpf makes")
