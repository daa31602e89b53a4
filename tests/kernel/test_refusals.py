"""csrc/host/notify/refusals.c: what was refused is counted by its kind, for each session, and what there is no room for
is counted, too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests._support.ccode import compile_c

NOTIFY = Path(__file__).parents[2] / "csrc" / "host" / "notify"
MAIN = """
#include <stdio.h>
int session_of(const struct target *caller) { return (int)caller->id; }
int main(void) {
    static struct refusals refusals;
    struct psb_denial copied[REFUSALS];
    uint64_t lost[PSB_CALL_CLASSES];
    unsigned session, call, number, protocol, size, byte, room, i;
    if (scanf("%u", &room) != 1) return 1;
    while (scanf("%u %u %u %u %u %u", &session, &call, &number, &protocol, &size, &byte) == 6) {
        struct call_facts facts = {.caller = {.id = session}, .number = (int)number, .protocol = (int)protocol,
                                   .address.size = size};
        facts.address.bytes[sizeof facts.address.bytes - 1] = (uint8_t)byte;
        count_refusal(&refusals, call, &facts);
    }
    memset(copied, 0, sizeof copied);
    printf("%d", copy_refusals(&refusals, copied, room, lost));
    for (i = 0; i < PSB_CALL_CLASSES; i++) printf(" %u", (unsigned)lost[i]);
    printf("\\n");
    for (i = 0; i < REFUSALS && copied[i].count; i++) printf("%u\\n", (unsigned)copied[i].count);
    return 0;
}
"""
MOST, CALL = 64, 2  # REFUSALS, and a class
ONE = (5, CALL, 42, 6, 16, 1)  # session, class, number, protocol, size of the address, its last byte


def counted(calls: list[tuple[int, ...]], room: int = MOST) -> tuple[list[int], list[int]]:
    """How often each kind was seen, and how many calls of each class there was no room for."""
    source = "#define _GNU_SOURCE\n#define MAY_CLOSE\n" + (NOTIFY / "refusals.c").read_text() + MAIN
    text = f"{room}\n" + "\n".join(" ".join(map(str, call)) for call in calls)
    program = compile_c(source, f"-I{NOTIFY}")
    done = subprocess.run([program], input=text.encode(), capture_output=True, check=True, timeout=60)
    first, *counts = done.stdout.decode().splitlines()
    how_many, *lost = map(int, first.split())
    assert how_many == len(counts)
    return [int(count) for count in counts], lost


def test_the_same_is_counted_and_told_once() -> None:
    assert counted([ONE, ONE, ONE])[0] == [3]


@pytest.mark.parametrize("part", range(len(ONE)))
def test_what_differs_in_one_thing_is_another_kind(part: int) -> None:
    other = tuple(each + (at == part) for at, each in enumerate(ONE))
    assert counted([ONE, other, ONE])[0] == [2, 1]


@pytest.mark.parametrize("more", [0, 1, 3])
def test_what_there_is_no_room_for_is_lost_and_counted(more: int) -> None:
    kinds = [(session, *ONE[1:]) for session in range(MOST + more)]
    counts, lost = counted([*kinds, *kinds[:2]])
    assert counts == [2, 2, *[1] * (MOST - 2)]
    assert lost[CALL] == more and sum(lost) == more


def test_no_more_is_copied_than_there_is_room_for() -> None:
    assert counted([ONE, (6, *ONE[1:]), (7, *ONE[1:])], room=2)[0] == [1, 1]
