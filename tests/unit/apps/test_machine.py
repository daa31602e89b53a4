"""The machine: typed registers, ticks, traps, and programs that are no programs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _support.apps import package, ran, reasons
from pysandbox.apps import App, Budget, Kernel
from pysandbox.apps.opcodes import OPCODES
from pysandbox.apps.program import CONTROL, PLACE, WRITTEN, MachineProgram, operands_of
from pysandbox.errors import PolicyError

ALL = ["fs.use", "chan.use", "win.manage", "input.route"]


@pytest.mark.parametrize(
    "program",
    [
        [["JUMP", 5]], [["JUMP", -1]], [["JUMP", 1]], [["JUMP", True]], [["JUMP", "0"]],
        [["JUMP_IF", 16, 0]], [["CONST", 0, 1]], [["MOVE", 0, 1]], [["CONST", 16, 1]], [["CONST", 1, 2**63]],
        [["CONST", 1, None]], [["CONST", 1, True]], [["CONST", 1, [1]]], [["CONST", 1, "x" * 4097]],
        [["SLEEP_TICKS", -1]], [["SLEEP_TICKS", 2**63]], [["HALT", 1]], [["halt"]], [[]], ["HALT"], [["FS_READ", 1]],
        [["CONST", 1, "\ud800"]], [["SELF"]], [["FS_OPEN", 0, 1, 2]],
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_program_is_refused_before_it_runs(program: object) -> None:
    with pytest.raises(PolicyError, match="program"):
        MachineProgram.parse(json.dumps({"program": program}).encode(), "main.json")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b'{"program": [], "program": []}', b'{"program": NaN}', b"\xef\xbb\xbf{}", b"\xff",
     b'{"program": [["CONST", 1, 1.5]]}', b"[" * 100_000, b'{"program": [["CONST",1,' + b"9" * 5000 + b"]]}",
     b" " * ((1 << 20) + 1), b'{"program": []} x', b'{"program": {"a": 1}}'],
    ids=lambda content: str(content[:30]),
)  # fmt: skip
def test_a_file_that_is_no_program_is_refused(content: bytes) -> None:
    with pytest.raises(PolicyError):
        MachineProgram.parse(content, "main.json")


def test_a_misspelt_opcode_is_told_the_nearest() -> None:
    with pytest.raises(PolicyError, match="FS_OPEN"):
        MachineProgram.parse(b'{"program": [["fs_opn"]]}')


@pytest.mark.parametrize(
    ("program", "ended", "ticks"),
    [
        ([["HALT"]], "halt", 1),
        ([["NOP"], ["NOP"]], "trap: ran off the end of the program", 3),
        ([], "trap: ran off the end of the program", 1),
        ([["JUMP", 0]], "ticks", 1000),
        ([["SLEEP_TICKS", 2**62], ["HALT"]], "ticks", 1000),
        ([["SLEEP_TICKS", 10], ["HALT"]], "halt", 12),
        ([["JUMP_IF", 1, 2], ["HALT"], ["NOP"]], "halt", 2),
        ([["CONST", 1, "x"], ["JUMP_IF", 1, 3], ["HALT"], ["NOP"], ["HALT"]], "halt", 4),
    ],
    ids=str,
)
def test_how_programs_end(program: list[list[object]], ended: str, ticks: int) -> None:
    outcome = ran(program, budget=Budget(ticks=1000))
    assert (outcome.ended, outcome.ticks) == (ended, ticks)


def test_a_number_is_no_handle_whatever_its_value(tmp_path: object) -> None:
    """The very number that the kernel issued, as a constant: denied, since a constant is none."""
    probe = [["CONST", 1, "t"], ["WIN_CREATE", 2, 1], ["WIN_FOCUS", 2], ["HALT"]]
    first = App.debug(package(probe, requested_capabilities=ALL)).run(Kernel(key=b"k" * 16), debug=True)
    number = json.loads(first.journal.splitlines()[1])[1]
    again = [["CONST", 1, "t"], ["WIN_CREATE", 2, 1], ["CONST", 3, number], ["WIN_FOCUS", 3], ["HALT"]]
    outcome = App.debug(package(again, requested_capabilities=ALL)).run(Kernel(key=b"k" * 16), debug=True)
    assert json.loads(outcome.journal.splitlines()[1])[1] == number
    assert not first.log and reasons(outcome) == ["denied_handle_owner"]
    assert outcome.log[0].args_summary == f"#{number}"


@pytest.mark.parametrize(
    "use",
    [["JUMP_IF", 2, 0], ["WIN_CREATE", 3, 2], ["EMIT", 2, 1], ["FS_LIST", 3, 2], ["CHAN_SEND", 2, 2]],
    ids=lambda use: str(use[0]),
)
def test_a_handle_is_no_value(use: list[object]) -> None:
    outcome = ran([["CONST", 1, "t"], ["WIN_CREATE", 2, 1], use, ["HALT"]], requested_capabilities=ALL)
    assert outcome.ended.startswith("trap: a handle is no")


def test_a_handle_of_another_kind_is_told_so() -> None:
    outcome = ran([["CONST", 1, "t"], ["WIN_CREATE", 2, 1], ["CHAN_RECV", 3, 2], ["HALT"]], requested_capabilities=ALL)
    assert reasons(outcome) == ["invalid_handle_kind"]


def test_a_freed_handle_is_nobody_s() -> None:
    program = [["CONST", 1, "t"], ["WIN_CREATE", 2, 1], ["WIN_CLOSE", 2], ["WIN_FOCUS", 2], ["WIN_CLOSE", 2], ["HALT"]]
    assert reasons(ran(program, requested_capabilities=ALL)) == ["denied_handle_owner"] * 2


def test_a_full_table_is_a_failure_and_no_denial() -> None:
    program = [["CONST", 1, "t"], ["WIN_CREATE", 2, 1], ["JUMP_IF", 0, 4], ["JUMP", 1], ["HALT"]]
    with Kernel() as kernel:
        outcome = ran(program, kernel, Budget(handles=3), requested_capabilities=ALL)
    assert outcome.ended == "halt" and not outcome.log and outcome.journal.count(b'"ok"') == 3


def test_the_status_register_tells_why() -> None:
    program = [["FS_LIST", 1, 2], ["JUMP_IF", 0, 3], ["HALT"], ["NOP"], ["NOP"], ["HALT"]]
    assert ran(program).ticks == 5


VALUES = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(
    ["", "docs", "docs/a", "docs2/a", "../x", "r", "w", "notes"]
)


@st.composite
def instruction(draw: st.DrawFn, length: int) -> list[object]:
    name = draw(st.sampled_from(sorted(OPCODES)))
    made: list[object] = [name]
    for kind in operands_of(name):
        if kind == "a constant":
            made.append(draw(VALUES))
        elif kind == PLACE:
            made.append(draw(st.integers(0, length - 1)))
        elif kind == "ticks":
            made.append(draw(st.sampled_from([0, 1, 100, 2**62])))
        else:
            made.append(draw(st.integers(1 if kind == WRITTEN else 0, 5)))
    return made


PROGRAMS = st.integers(1, 20).flatmap(lambda length: st.lists(instruction(length), min_size=length, max_size=length))


@settings(max_examples=150, deadline=None)
@given(PROGRAMS)
def test_any_program_ends_and_its_replay_is_the_same_to_a_byte(program: list[list[object]]) -> None:
    app = App.debug(package(program, requested_capabilities=ALL))
    budget = Budget(ticks=200, log_records=50)
    with Kernel() as kernel:
        outcome = app.run(kernel, budget=budget, debug=True)
    assert outcome.ticks <= budget.ticks
    again = app.replay(outcome.journal)
    assert (again.log.text(), again.ended, again.ticks) == (outcome.log.text(), outcome.ended, outcome.ticks)


def test_every_control_opcode_has_operands() -> None:
    assert set(CONTROL) | set(OPCODES) == set(OPCODES)
