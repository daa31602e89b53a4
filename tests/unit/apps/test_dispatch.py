"""Dispatch: the order of the checks, statuses, the log, and a kernel that is not believed blindly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pysandbox.apps.denials import DenialLog, LogFull
from pysandbox.apps.dispatch import Dispatch, decide, gates
from pysandbox.apps.handles import HALF, MASK, Numbers, SideTable
from pysandbox.apps.kernel.owned import WrapperDenied
from pysandbox.apps.opcodes import EFFECTS, HANDLE, SCOPED, VALUE
from pysandbox.apps.scope import Scopes, checks_of
from pysandbox.errors import AppError
from pysandbox.shapes import NamedTuple


class Rights(NamedTuple):
    capabilities: tuple[str, ...] = ("fs.use", "chan.use")
    scopes: Scopes = Scopes(frozenset(("notes", "mail")), ("docs",), frozenset((("notes", "mail"),)))
    app_id: str = "notes.app"


class Pretend:
    """A kernel that answers what it was told to, and remembers what it was asked."""

    def __init__(self, answer: Any = None) -> None:
        self.table, self.answer = SideTable(), answer
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def call(self, name: str, owner: str, args: Sequence[Any]) -> Any:
        self.asked.append((name, tuple(args)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def step(kernel: Pretend, name: str, *args: Any, rights: Rights | None = None, **options: Any) -> Any:
    log = DenialLog(100)
    dispatch = Dispatch(rights or Rights(), kernel, log, **options)
    return dispatch.step(1, dispatch.gates[name], args), list(log)


def test_what_lacks_all_is_told_the_capability() -> None:
    """No capability, no scope, nobody's handle of the wrong kind: the first check is the one that is told."""
    nothing = Rights((), Scopes())
    for name, row in EFFECTS.items():
        args = ["../x" if kind not in HANDLE.values() else 7 for kind in row.args]
        assert decide(gates(nothing)[name], SideTable(), "notes.app", args) == "denied_capability"


def test_scope_comes_before_owner_and_owner_before_kind() -> None:
    table = SideTable()
    table.hold(7, "other.app", "window")
    table.hold(8, "notes.app", "window")
    gate = gates(Rights())["FS_READ"]
    assert decide(gate, table, "notes.app", [7, 1]) == "denied_handle_owner"
    assert decide(gate, table, "notes.app", [8, 1]) == "invalid_handle_kind"
    assert decide(gates(Rights())["FS_COPY"], table, "notes.app", ["docs/a", "other/b"]) == "denied_scope"
    assert decide(gates(Rights())["FS_COPY"], table, "notes.app", ["other/a", "docs/b"]) == "denied_scope"


@pytest.mark.parametrize("handle", [0, -1, True, 1.0, "7", 2**63, 2**53, b"7"])
def test_what_is_no_live_number_is_nobody_s_handle(handle: object) -> None:
    table = SideTable()
    table.hold(1, "notes.app", "file")
    assert decide(gates(Rights())["FS_READ"], table, "notes.app", [handle, 1]) == "denied_handle_owner"


def test_a_denial_calls_nothing_and_leaves_one_record() -> None:
    kernel = Pretend()
    reply, log = step(kernel, "FS_OPEN", "docs2/a", "r")
    assert kernel.asked == [] and reply == ("denied_scope", None)
    assert [each._asdict() for each in log] == [{
        "tick": 1, "app_id": "notes.app", "opcode": "FS_OPEN", "args_summary": '"docs2/a",str[1]',
        "deny_reason": "denied_scope", "required_capability": "fs.use",
        "granted_capabilities_snapshot": ("chan.use", "fs.use"),
    }]  # fmt: skip


def test_either_capability_of_emit_will_do() -> None:
    for word in ("input.route", "domain.emit"):
        kernel = Pretend()
        assert step(kernel, "EMIT", "notes", "x", rights=Rights((word,)))[0].status == "ok"
    reply, (record,) = step(Pretend(), "EMIT", "notes", "x", rights=Rights(("fs.use",)))
    assert (reply.status, record.required_capability) == ("denied_capability", "input.route or domain.emit")


def test_what_a_wrapper_refuses_is_a_denial_too() -> None:
    reply, (record,) = step(Pretend(WrapperDenied("denied_scope")), "FS_OPEN", "docs/link", "r")
    assert reply.status == record.deny_reason == "denied_scope"


def test_what_fails_is_no_denial_and_has_the_name_of_an_error() -> None:
    reply, log = step(Pretend(FileNotFoundError(2, "x")), "FS_OPEN", "docs/a", "r")
    assert (reply, log) == (("failed", "ENOENT"), [])


@pytest.mark.parametrize("answer", [7, "7", None, True, 7.0])
def test_a_kernel_that_gives_another_s_handle_is_not_believed(answer: object) -> None:
    kernel = Pretend(answer)
    kernel.table.hold(7, "other.app", "file")
    with pytest.raises(AppError, match="handle"):
        step(kernel, "FS_OPEN", "docs/a", "r")


def test_a_kernel_that_breaks_is_not_an_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        step(Pretend(ZeroDivisionError()), "FS_OPEN", "docs/a", "r")


def test_whatever_has_a_scope_is_checked_for_it() -> None:
    assert checks_of(Scopes()).keys() == SCOPED


@pytest.mark.parametrize(
    ("peers", "first", "second", "status"),
    [
        (frozenset((("notes", "mail"),)), "notes", "mail", "ok"),
        (frozenset((("notes", "mail"),)), "mail", "notes", "denied_scope"),
        (frozenset((("notes", "mail"),)), "notes", "notes", "denied_scope"),
        (frozenset(), "notes", "mail", "denied_scope"),
        (None, "mail", "notes", "ok"),
        (None, "notes", "other", "denied_scope"),  # any pair, of the domains that are allowed
        (None, "other", "notes", "denied_scope"),
        (None, "notes", 7, "denied_scope"),
    ],
)
def test_a_channel_is_between_two_domains_that_are_a_pair(
    peers: frozenset[tuple[str, str]] | None, first: str, second: object, status: str
) -> None:
    kernel = Pretend(5)
    rights = Rights(scopes=Scopes(frozenset(("notes", "mail")), (), peers))
    assert step(kernel, "CHAN_OPEN", first, second, rights=rights)[0].status == status
    assert bool(kernel.asked) is (status == "ok")


def test_handles_are_bounded_and_what_is_closed_makes_room() -> None:
    kernel, log = Pretend(5), DenialLog(100)
    dispatch = Dispatch(Rights(), kernel, log, most_handles=1)
    take = lambda name, *args: dispatch.step(1, dispatch.gates[name], args)  # noqa: E731
    assert take("FS_OPEN", "docs/a", "r") == ("ok", 5)
    kernel.answer, asked = 6, len(kernel.asked)
    assert take("FS_OPEN", "docs/b", "r") == ("failed", "EMFILE") and len(kernel.asked) == asked
    assert take("FS_READ", 5, 1) == ("ok", 6)  # what makes no handle goes on
    assert take("FS_CLOSE", 5) == ("ok", None)
    assert take("FS_READ", 5, 1).status == "denied_handle_owner"
    assert take("FS_OPEN", "docs/b", "r") == ("ok", 6)


def test_whoever_listens_hears_of_each_denial_whoever_refused() -> None:
    heard: list[Any] = []
    _, (first,) = step(Pretend(), "FS_OPEN", "elsewhere", "r", on_denied=heard.append)
    _, (second,) = step(Pretend(WrapperDenied("denied_scope")), "FS_OPEN", "docs/a", "r", on_denied=heard.append)
    assert heard == [first, second]


def test_what_is_only_reported_is_in_the_log_once() -> None:
    reply, log = step(Pretend(WrapperDenied("denied_scope")), "FS_OPEN", "elsewhere", "r", report_only=True)
    assert (reply.status, len(log)) == ("denied_scope", 1)


@pytest.mark.parametrize("args", [("elsewhere/a", 5), (5, "elsewhere/a"), ("elsewhere/a", "a\0b"), (None, None)])
def test_what_no_scope_could_hold_is_for_no_wrapper(args: tuple[Any, ...]) -> None:
    kernel = Pretend()
    reply, log = step(kernel, "FS_COPY", *args, report_only=True)
    assert (reply, len(log), kernel.asked) == (("failed", "EINVAL"), 1, [])


def test_report_only_logs_and_performs() -> None:
    kernel = Pretend(5)
    reply, log = step(kernel, "FS_OPEN", "elsewhere/a", "r", report_only=True)
    assert reply == ("ok", 5) and len(log) == 1 and kernel.asked


def test_a_full_log_ends_the_app_with_the_last_denial_in_it() -> None:
    log = DenialLog(2)
    dispatch = Dispatch(Rights(), Pretend(), log)
    dispatch.step(1, dispatch.gates["FS_LIST"], ["x"])
    with pytest.raises(LogFull):
        dispatch.step(2, dispatch.gates["FS_LIST"], ["x"])
    assert len(log) == 2


def test_a_summary_shows_no_content_and_no_line_end() -> None:
    evil = "</script>\n\x1b[31m" + "x" * 200
    _, (record,) = step(Pretend(), "EMIT", evil, evil, rights=Rights(("input.route",)))
    assert len(record.args_summary) <= 80 and record.args_summary.isprintable() and record.args_summary.isascii()
    assert record.args_summary.endswith("str[215]") and "\n" not in record.line().decode()[:-1]
    _, (record,) = step(Pretend(), "FS_READ", "secret", b"secret")
    assert record.args_summary == "str[6],bytes[6]"


def test_numbers_are_never_alike_and_follow_from_their_key() -> None:
    numbers, again = Numbers(b"k" * 16), Numbers(b"k" * 16)
    issued = [numbers.next() for _ in range(10_000)]
    assert len(set(issued)) == len(issued) and issued == [again.next() for _ in issued]
    assert all(1 << 52 <= each < 1 << 53 for each in issued)
    assert min(len({each & MASK for each in issued}), len({each >> HALF for each in issued})) > 9_000  # in both halves
    assert issued != [Numbers(b"l" * 16).next() for _ in issued]
    assert sorted(issued) != issued


def test_every_value_operand_is_passed_on_as_it_is() -> None:
    for name, row in EFFECTS.items():
        if row.args == (VALUE,) and name == "WIN_CREATE":
            kernel = Pretend(3)
            assert step(kernel, name, "title", rights=Rights(("win.manage",)))[0] == ("ok", 3)
            assert kernel.asked == [("win.create", ("title",))]
