"""csrc/host/notify/verdict.c runs a filter as the kernel does, and refuses what it does not know.

Monitor mode lets calls pass by what it says: a program that this cannot follow to its end must never come out as one
that allows.
"""

from __future__ import annotations

import struct
import subprocess
from errno import EPERM
from pathlib import Path

import pytest

from tests._support.ccode import compile_c

SOURCES = Path(__file__).parents[2] / "csrc" / "host" / "notify"
MAIN = """
#include <stdio.h>
static const char *const NAMES[] = {
    [VERDICT_NEVER] = "never", [VERDICT_REFUSED] = "refused", [VERDICT_ALLOWED] = "allowed"};
int main(void) {
    static uint8_t program[4096];
    struct seccomp_data data;
    struct psb_rules rules = {.verdicts = program};
    int number = -1, verdict;
    if (fread(&data, sizeof data, 1, stdin) != 1) return 1;
    rules.verdicts_size = fread(program, 1, sizeof program, stdin);
    verdict = verdict_of(&rules, &data, &number);
    return printf("%s %d\\n", NAMES[verdict], number) < 0;
}
"""
ALLOWED, REFUSED, NEVER = "allowed", "refused", "never"
LD, AND, JA, JEQ, JGT, JGE, JSET, RET = 0x20, 0x54, 0x05, 0x15, 0x25, 0x35, 0x45, 0x06
UNKNOWN = (0, 0x04, 0x07, 0x16, 0x28, 0x30, 0x40, 0x55, 0x60, 0x61, 0x80, 0xFF)
ALLOW, ERRNO, LOG, NOTIF, TRACE, TRAP = 0x7FFF0000, 0x50000, 0x7FFC0000, 0x7FC00000, 0x7FF00000, 0x30000
KILL_THREAD, KILL_PROCESS = 0, 0x80000000
NUMBER, ARCHITECTURE, LAST = 0, 4, 60  # offsets in struct seccomp_data

Instruction = tuple[int, int, int, int]  # code, jt, jf, k
DATA = struct.pack("=iIQ6Q", 7, 0xC000003E, 0, 0, 0, 0, 0, 0, 0x80000001 << 32)


def ret(action: int) -> Instruction:
    return RET, 0, 0, action


def judged(*program: Instruction) -> tuple[str, int]:
    source = "#define _GNU_SOURCE\n" + (SOURCES / "verdict.c").read_text() + MAIN
    text = DATA + b"".join(struct.pack("=HBBI", *each) for each in program)
    judge = compile_c(source, f"-I{SOURCES}")
    said = subprocess.run([judge], input=text, capture_output=True, check=True, timeout=60).stdout
    verdict, number = said.decode().split()
    return verdict, int(number)


def jumps(code: int, held: int, against: int, offset: int = NUMBER) -> bool:
    """Whether it jumps where it holds `held`, which the data has at the offset."""
    assert struct.unpack_from("=I", DATA, offset)[0] == held
    return judged((LD, 0, 0, offset), (code, 0, 1, against), ret(ALLOW), ret(ERRNO | 5))[0] == ALLOWED


@pytest.mark.parametrize(
    ("action", "verdict", "number"),
    [
        (ALLOW, ALLOWED, None), (NOTIF, ALLOWED, None), (LOG, REFUSED, 0), (LOG | 13, REFUSED, 13),
        (ERRNO | 13, NEVER, 13), (ERRNO | 4095, NEVER, 4095), (KILL_PROCESS, NEVER, EPERM),
        (KILL_THREAD, NEVER, EPERM), (TRAP | 13, NEVER, EPERM), (TRACE | 13, NEVER, EPERM), (0x12340000, NEVER, EPERM),
    ],
)  # fmt: skip
def test_what_an_action_comes_to(action: int, verdict: str, number: int | None) -> None:
    said = judged(ret(action))
    assert said[0] == verdict and number in (None, said[1])


def test_a_jump_is_the_kernel_s() -> None:
    assert [jumps(JEQ, 7, each) for each in (6, 7, 8)] == [False, True, False]
    assert [jumps(JGT, 7, each) for each in (6, 7, 8)] == [True, False, False]
    assert [jumps(JGE, 7, each) for each in (6, 7, 8)] == [True, True, False]
    assert [jumps(JSET, 7, each) for each in (0, 8, 4, 12)] == [False, False, True, True]
    assert jumps(JGT, 0x80000001, 0x7FFFFFFF, LAST), "without a sign"


def test_what_is_masked_and_what_is_skipped() -> None:
    assert judged((LD, 0, 0, NUMBER), (AND, 0, 0, 5), (JEQ, 0, 1, 5), ret(ALLOW), ret(ERRNO))[0] == ALLOWED
    assert judged((JA, 0, 0, 1), ret(ERRNO), ret(ALLOW))[0] == ALLOWED
    assert judged((LD, 0, 0, LAST), (JEQ, 0, 1, 0x80000001), ret(ALLOW), ret(ERRNO))[0] == ALLOWED


@pytest.mark.parametrize(
    "program",
    [
        [], [(LD, 0, 0, NUMBER)], [(JA, 0, 0, 1), ret(ALLOW)], [(JA, 0, 0, 0xFFFFFFFF), ret(ALLOW)],
        [(JEQ, 9, 9, 0), ret(ALLOW)],
        *([(LD, 0, 0, offset), ret(ALLOW)] for offset in (LAST + 1, LAST + 4, 64, 0x7FFFFFFF, 0xFFFFFFFC)),
        *([(code, 0, 0, 1), ret(ALLOW)] for code in UNKNOWN),
    ],
)  # fmt: skip
def test_whatever_else_it_meets_is_a_refusal(program: list[Instruction]) -> None:
    assert judged(*program) == (NEVER, EPERM)
