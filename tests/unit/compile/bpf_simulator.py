"""A classic BPF machine in a page: what the kernel does with a seccomp filter, for the tests of this directory."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pysandbox.compile.bpf import AND, JA, JEQ, JGE, JGT, JSET, LD, RET

WORD = 0xFFFFFFFF
DATA = struct.Struct("<iIQ6Q")  # struct seccomp_data
INSTRUCTION = struct.Struct("<HBBI")


class Refused(Exception):
    """The kernel would not have taken the program (bpf_check_classic, seccomp_check_filter)."""


class Machine:
    def __init__(self, program: bytes) -> None:
        self.code = list(INSTRUCTION.iter_unpack(program))
        self.check()

    def check(self) -> None:
        size = len(self.code)
        if not 0 < size <= 4096 or self.code[-1][0] != RET:
            raise Refused("size, or no return at the end")
        for here, (code, yes, no, value) in enumerate(self.code):
            if code not in (LD, JA, JEQ, JGT, JGE, JSET, AND, RET):
                raise Refused(f"{here}: instruction 0x{code:x}")
            if code == LD and (value % 4 or value >= DATA.size):
                raise Refused(f"{here}: load at {value}")
            furthest = value if code == JA else max(yes, no)
            if here + 1 + furthest >= size and code != RET:
                raise Refused(f"{here}: jump out of the program")

    def run(self, arch: int, number: int, arguments: Sequence[int] = (0,) * 6) -> int:
        return self.trace(arch, number, arguments)[0]

    def trace(self, arch: int, number: int, arguments: Sequence[int] = (0,) * 6) -> tuple[int, int]:
        """The action word and how many instructions it took."""
        padded = (*arguments, *(0,) * (6 - len(arguments)))
        words = struct.unpack("<16I", struct.pack("<IIQ6Q", number & WORD, arch, 0, *padded))
        accumulator = here = steps = 0
        while True:
            code, yes, no, value = self.code[here]
            here += 1
            steps += 1
            if code == RET:
                return value, steps
            if code == LD:
                accumulator = words[value // 4]
            elif code == AND:
                accumulator &= value
            elif code == JA:
                here += value
            else:
                taken = {
                    JEQ: accumulator == value,
                    JGT: accumulator > value,
                    JGE: accumulator >= value,
                    JSET: bool(accumulator & value),
                }[code]
                here += yes if taken else no
