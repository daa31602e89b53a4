"""What was recorded is read back as it was, and decided as it was."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysandbox.handlers.call import Call
from pysandbox.handlers.decide import HANDLERS, decide
from pysandbox.handlers.network_rules import NetworkRules
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import Errno
from pysandbox.policy.endpoint import ANYWHERE, LOOPBACK
from pysandbox.supervise.policy_fn import Nonsense, read_answer
from pysandbox.supervise.record import VerdictWriter, read_records, replay

CALLS = st.builds(
    Call, st.sampled_from(sorted(HANDLERS)), st.sampled_from(["connect", "openat"]), st.integers(1, 2**22),
    st.integers(0, 40), st.sampled_from([0, 6, 17]), st.binary(max_size=128), st.text(), st.lists(st.text()).map(tuple),
    st.integers(0, 2**31), st.integers(0, 0o7777), st.frozensets(st.sampled_from([3, 4])),
)  # fmt: skip
LISTS = st.sampled_from([(), (ANYWHERE,), LOOPBACK])
NETWORKS = st.builds(NetworkRules, LISTS, LISTS, LISTS, LISTS)
RULES = st.builds(CallRules, NETWORKS, st.fixed_dictionaries({3: LISTS, 4: LISTS}), st.sampled_from(["a", "b"]))


@given(CALLS, RULES)
def test_a_record_reads_back_equal_and_replays_without_a_difference(call: Call, rules: CallRules) -> None:
    file = io.StringIO()
    verdict = decide(call, rules)
    VerdictWriter(file).write(call, rules, verdict)
    assert list(read_records(file.getvalue().splitlines())) == [(call, rules, verdict)]
    assert replay(file.getvalue().splitlines()) == []


def test_a_verdict_that_is_not_the_handlers_shows() -> None:
    file = io.StringIO()
    call = Call("BIND", "bind", 1)
    VerdictWriter(file).write(call, CallRules(NetworkRules()), Errno(13))
    ((found, then, now),) = replay(file.getvalue().splitlines())
    assert (found, then) == (call, Errno(13)) and then != now


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"call": {}, "rules": {}, "verdict": ["Errno", {}]}'])
def test_what_is_no_record_is_named_by_its_line(line: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        replay([line])


@pytest.mark.parametrize(
    ("answer", "means"),
    [(None, (0, False)), (False, (0, False)), (0, (0, False)), ("audit", (0, True)), (True, (1, False)),
     (-1, (1, False)), (1, (1, False)), (13, (13, False)), (4095, (4095, False))],
)  # fmt: skip
def test_the_table_of_answers(answer: object, means: tuple[int, bool]) -> None:
    assert read_answer(answer) == means


@pytest.mark.parametrize("answer", [-2, 4096, 2**64, 0.0, 1.0, "", "Audit", b"audit", (), [], {}, object()])
def test_everything_else_is_nonsense(answer: object) -> None:
    with pytest.raises(Nonsense):
        read_answer(answer)
