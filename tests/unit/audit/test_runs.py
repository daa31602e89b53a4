"""What the records of one cage come to, and how it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from _support.work import growth
from pysandbox.audit import AuditLog
from pysandbox.audit.read import AuditRecord
from pysandbox.audit.runs import all_runs, find_id, find_run, run_of
from pysandbox.audit.tell import NOT_WATCHED, describe_run, fixes, refusals
from pysandbox.errors import AuditError
from pysandbox.events import TYPES

from .samples import ID, denied, exited, ordinary, record, silent, spawned


def test_a_run_holds_its_commands_with_their_ends() -> None:
    run = ordinary()
    assert [(each.argv, each.exit_code, each.duration_ms) for each in run.commands] == [
        (("pytest", "-q"), 1, 1500), (("ruff", "check"), 0, 1500),
    ]  # fmt: skip
    assert (run.digest, run.recipes, run.limits["memory_mb"], run.records) == ("ab12", ("python",), 64, 7)


def test_the_same_refusal_is_told_once_with_its_count() -> None:
    run = ordinary()
    assert [(each.target, each.count) for each in refusals(run)] == [("/etc/shadow", 3), ("/usr/bin/curl", 1)]
    assert fixes(run) == (
        '[[also]]\nfilesystem.allow = ["/etc/shadow"]', '[[also]]\nprocess.allow_execve = ["/usr/bin/curl"]'
    )  # fmt: skip
    told = "\n".join(describe_run(run))
    assert "Refused (4):" in told
    assert 'pysandbox.toml:\n        [[also]]\n        filesystem.allow = ["/etc/shadow"]' in told
    assert "as a flag: --allow /etc/shadow" in told and "Policy(allow=['/etc/shadow'])" in told
    assert "by: process.allow_execve" in told


def test_the_end_of_a_command_sums_up_what_had_no_event_of_its_own() -> None:
    known = {"kind": "open", "target": "/a", "rule": "r", "fix": 'allow = ["/a"]', "count": 5}
    other = {"kind": "exec", "target": "/b", "rule": "process.allow_execve", "fix": 'allow_execve = ["/b"]', "count": 2}
    run = run_of(ID, [
        spawned(1, 1, 1, "x"), record(2, 2, "cage.denied", **(known | {"count": 1})),
        exited(3, 3, 1, denials=[known, other]),
    ])  # fmt: skip
    assert [(each.target, each.count) for each in refusals(run)] == [("/a", 5), ("/b", 2)]
    assert fixes(run) == (
        '[[also]]\nfilesystem.allow = ["/a"]', '[[also]]\nprocess.allow_execve = ["/b"]'
    )  # fmt: skip


def test_what_was_only_monitored_says_so() -> None:
    found = record(2, 2, "cage.denied", kind="open", target="/a", rule="r", fix="", monitor=True)
    assert "only monitored" in "\n".join(describe_run(run_of(ID, [spawned(1, 1, 1, "x"), found])))


def test_what_was_not_recorded_is_not_invented() -> None:
    told = "\n".join(describe_run(silent()))
    assert "No end was recorded" in told
    assert NOT_WATCHED in told


def test_every_kind_of_end_is_told() -> None:
    ends = [
        record(2, 2, "subagent.killed", command=1, reason="walltime_exceeded"), exited(3, 2, 1, 124, reason="timeout"),
        spawned(4, 3, 2, "nope"),
        record(5, 3, "cage.start_failed", command=2, step="exec", errno=2, path="nope"),
    ]  # fmt: skip
    told = "\n".join(describe_run(run_of(ID, [spawned(1, 1, 1, "sleep"), *ends])))
    assert "Ended by force: walltime_exceeded, exit code 124" in told
    assert "It never ran: exec: errno 2: nope." in told


def test_an_uncaged_run_says_so() -> None:
    found = record(1, 1, "subagent.spawn.uncaged", command=1, argv=["ls"], reason="dsl_disabled", cage_summary="x")
    run = run_of(ID, [found])
    assert not run.caged
    assert "There was NO CAGE (dsl_disabled)." in "\n".join(describe_run(run))


def test_a_record_of_an_odd_shape_does_no_harm() -> None:
    for name in TYPES:
        run_of(ID, [record(1, 1, name)])
        run_of(ID, [record(1, 1, name, command=[], argv=3, grants=[], limits=None, notes=[3], counts=1, count="x")])


@pytest.fixture
def stream(tmp_path: Path) -> str:
    path = tmp_path / "audit" / "events.jsonl"
    with AuditLog(path) as log:
        for name in ("01AAAA11", "01AAAA22", "01BBBB33"):
            log.append("subagent.spawn", {"invocation_id": name, "command": 1, "argv": ["x"]})
            log.append("subagent.exit", {"invocation_id": name, "command": 1, "exit_code": 3})
    return str(path)


def test_a_run_is_found_by_what_only_it_begins_or_ends_with(stream: str) -> None:
    assert find_id(stream, None) == "01BBBB33"
    assert find_id(stream, "01b") == find_id(stream, "33") == "01BBBB33"
    assert find_run(stream, "22").commands[0].exit_code == 3
    assert [run.id for run in all_runs(stream)] == ["01AAAA11", "01AAAA22", "01BBBB33"]


@pytest.mark.parametrize(("wanted", "why"), [("01AAAA", "2 runs"), ("zz", "no run")])
def test_any_other_name_is_refused_with_what_to_do(stream: str, wanted: str, why: str) -> None:
    with pytest.raises(AuditError, match=why) as caught:
        find_id(stream, wanted)
    assert "audit list" in str(caught.value)


def test_an_empty_stream_holds_no_run(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="holds no run"):
        find_id(str(tmp_path / "events.jsonl"), None)


def many(count: int) -> list[AuditRecord]:
    """Commands, each with a denial of its own and one that all have."""
    told: list[AuditRecord] = []
    for number in range(count):
        said = [{"kind": "open", "target": target, "count": 2} for target in (f"/own/{number}", "/all")]
        own = denied(1, 1, f"/own/{number}", command=number)
        told += [spawned(1, 1, number, "true"), own, exited(1, 1, number, denials=said)]
    return told


def test_many_commands_are_summed_by_work_in_proportion() -> None:
    assert growth(lambda size: run_of(ID, many(size)), 40) < 2.6
    run = run_of(ID, many(3))
    found = {(each.target, each.command): each.count for each in run.refusals}
    assert found == {(f"/own/{each}", each): 2 for each in range(3)} | {("/all", each): 2 for each in range(3)}
    nobodys = [denied(1, 1, "/all"), *many(2)]
    assert [each.count for each in run_of(ID, nobodys).refusals if each.target == "/all"] == [2]
