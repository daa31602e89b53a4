"""The assembler: a program means what its rules say, whatever its shape."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.compile import bpf
from pysandbox.compile.bpf import CallAction, Decision, Range, When
from unit.compile.bpf_simulator import Machine

ARCH, OTHER_ARCH = 0xC000003E, 0x40000003
WORDS = {verdict: 0x1000 + place for place, verdict in enumerate(CallAction)}
TOP = 600

# Arguments and masks that share bits in both halves, so that a random pair often meets.
values = st.sampled_from(
    [0, 1, 2, 3, 0xF, 0x5412, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 3 << 32, 1 << 63, (1 << 64) - 1]
)
narrow_masks = st.sampled_from([0xFFFFFFFF, 0xF, 1, 3, 0x80000000, 0x5412])
wide_masks = st.sampled_from([(1 << 64) - 1, 1 << 32, 0xFFFFFFFF << 32, (1 << 63) | 1])


def whens(inner: st.SearchStrategy[Decision]) -> st.SearchStrategy[Decision]:
    def of(mask: int) -> st.SearchStrategy[Decision]:
        wanted = st.lists(values.map(lambda value: value & mask), min_size=1, max_size=4).map(tuple)
        return st.builds(When, st.integers(0, 5), st.just(mask), wanted, inner, inner)

    return (narrow_masks | wide_masks).flatmap(of)


decisions = st.recursive(st.sampled_from(CallAction), whens, max_leaves=12)
tables = st.dictionaries(st.integers(0, TOP), decisions, max_size=60)


def naive(decision: Decision, arguments: Sequence[int]) -> CallAction:
    while isinstance(decision, When):
        hit = arguments[decision.arg] & decision.mask in decision.values
        decision = decision.yes if hit else decision.no
    return decision


def assembled(table: Mapping[int, Decision], gaps: Decision = CallAction.ABSENT, tail: Sequence[Range] = ()) -> Machine:
    rows = bpf.ranges(table, gaps, tail or [Range(max(table, default=0) + 1, gaps)])
    return Machine(bpf.assemble(ARCH, rows, WORDS, lambda start, end: min(end, TOP) - min(start, TOP)))


@settings(max_examples=60, deadline=None)
@given(tables, decisions, st.lists(st.tuples(*[values] * 6), min_size=1, max_size=8))
def test_a_tree_gives_the_verdict_of_the_rules_read_one_by_one(
    table: dict[int, Decision], gaps: Decision, calls: list[tuple[int, ...]]
) -> None:
    machine = assembled(table, gaps)
    for number in {*table, *(each + 1 for each in table), 0, TOP, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF}:
        for arguments in calls:
            assert machine.run(ARCH, number, arguments) == WORDS[naive(table.get(number, gaps), arguments)]


@settings(max_examples=10, deadline=None)
@given(tables)
def test_another_machines_calls_are_killed_whatever_their_number(table: dict[int, Decision]) -> None:
    machine = assembled(table)
    assert {machine.run(OTHER_ARCH, number) for number in (*table, 0, 0xFFFFFFFF)} == {WORDS[CallAction.KILL]}


def test_a_program_longer_than_a_jump_can_reach_still_goes_where_it_should() -> None:
    table = {
        number: When(number % 6, 0xFFFFFFFF, (number,), CallAction.ALLOW, CallAction.DENY) for number in range(300)
    }
    machine = assembled(table)
    assert len(machine.code) > 700
    for number in range(300):
        matching = [0] * 6
        matching[number % 6] = number
        assert machine.run(ARCH, number, matching) == WORDS[CallAction.ALLOW]
        assert machine.run(ARCH, number, [number + 1] * 6) == WORDS[CallAction.DENY]


def test_a_program_longer_than_the_kernel_takes_is_refused() -> None:
    table = {number: When(0, 0xFFFFFFFF, (number, 7), CallAction.ALLOW, CallAction.DENY) for number in range(1500)}
    with pytest.raises(ValueError, match="4096"):
        assembled(table)


def test_neighbours_of_equal_treatment_become_one_range() -> None:
    table = dict.fromkeys([3, 4, 5, 9], CallAction.ALLOW)
    assert bpf.ranges(table, CallAction.ABSENT, [Range(20, CallAction.KILL)]) == [
        Range(0, CallAction.ABSENT), Range(3, CallAction.ALLOW), Range(6, CallAction.ABSENT),
        Range(9, CallAction.ALLOW), Range(10, CallAction.ABSENT), Range(20, CallAction.KILL),
    ]  # fmt: skip


def test_one_odd_number_in_a_range_costs_one_comparison() -> None:
    table = {**dict.fromkeys(range(100), CallAction.ALLOW), 50: CallAction.DENY}
    machine = assembled(table, gaps=CallAction.ALLOW)
    assert machine.trace(ARCH, 50)[1] == machine.trace(ARCH, 51)[1] == 5  # ld arch, jeq, ld nr, jeq, ret


def test_heavy_numbers_get_the_short_paths() -> None:
    table: dict[int, Decision] = {number: (CallAction.ALLOW, CallAction.DENY)[number % 2] for number in range(64)}
    rows = bpf.ranges(table, CallAction.ABSENT, [Range(64, CallAction.ABSENT)])
    level = Machine(bpf.assemble(ARCH, rows, WORDS, lambda start, end: 1))
    skewed = Machine(bpf.assemble(ARCH, rows, WORDS, lambda start, end: 1000 if start == 40 else 1))
    assert skewed.trace(ARCH, 40)[1] < level.trace(ARCH, 40)[1]


def test_a_word_already_loaded_is_not_loaded_again() -> None:
    rule = When(0, 0xFFFFFFFF, (1,), CallAction.ALLOW, When(0, 0xFFFFFFFF, (2,), CallAction.ALLOW, CallAction.DENY))
    loads = [value for code, _, _, value in assembled({0: rule}).code if code == bpf.LD]
    assert loads == [bpf.ARCH, bpf.NR, bpf.ARGS]


def test_the_words_do_not_change_the_shape() -> None:
    table = {number: (CallAction.ALLOW, CallAction.DENY, CallAction.NEVER)[number % 3] for number in range(50)}
    rows = bpf.ranges(table, CallAction.ABSENT, [Range(50, CallAction.ABSENT)])
    programs = [
        bpf.assemble(ARCH, rows, {**WORDS, CallAction.DENY: word}, lambda start, end: 1)
        for word in (WORDS[CallAction.NEVER], 0x80000000)
    ]
    plain, killing = (
        [(code, yes, no, value if code != bpf.RET else 0) for code, yes, no, value in struct.iter_unpack("<HBBI", each)]
        for each in programs
    )
    assert plain == killing


def test_a_listing_names_the_lines_that_jumps_go_to() -> None:
    program = bpf.assemble(ARCH, [Range(0, CallAction.ALLOW), Range(7, CallAction.DENY)], WORDS, lambda start, end: 1)
    assert bpf.disassemble(program).splitlines() == [
        "0: ld 0x4", "1: jeq 0xc000003e -> 3, 2", "2: ret 0x1003", "3: ld 0x0", "4: jge 0x7 -> 6, 5", "5: ret 0x1000",
        "6: ret 0x1001",
    ]  # fmt: skip
