"""The writer: what it promises of a record, of its place, of its counters, and of what it finds after a crash."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pysandbox.audit import AuditLog, files
from pysandbox.audit.read import AuditRecord, read, records, verify
from pysandbox.audit.stream import AuditStream
from pysandbox.errors import AuditError
from pysandbox.events import DENIED, EXIT, SPAWN, TCP_ALLOWED, TCP_DENIED, Event

from .conftest import EVENTS, filled


def types(path: Path) -> list[str]:
    return [each.type for each in records(str(path))]


def test_a_record_holds_what_the_event_did(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "events.jsonl"
    with AuditLog(path) as log:
        log(Event(SPAWN.name, {"invocation_id": "A", "argv": ("ls", "a\nb", "\udcff")}))
    (record,) = records(str(path))
    assert (record.seq, record.pid, record.type) == (1, os.getpid(), SPAWN.name)
    assert record.data == {"invocation_id": "A", "argv": ["ls", "a\nb", "\udcff"]}


def test_directory_and_files_are_for_the_user_alone(stream: Path) -> None:
    assert stream.parent.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in stream.parent.iterdir()} == {0o600}


def test_a_directory_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(AuditError, match="chmod 700"):
        AuditLog(tmp_path / "events.jsonl")


def test_a_symlink_in_place_of_the_stream_is_refused(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditError, match="cannot be opened"):
        AuditLog(tmp_path / "events.jsonl")
    assert not (tmp_path / "elsewhere").exists()


def test_two_writers_share_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "events.jsonl"
    with AuditLog(path) as one, AuditLog(path) as other:
        for number in range(6):
            (one, other)[number % 2].append("cage.note", {"key": str(number)})
    assert [each.data["key"] for each in records(str(path))] == list("012345")
    assert verify(str(path)).ok


def test_threads_share_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "events.jsonl"
    with AuditLog(path) as log:
        threads = [threading.Thread(target=lambda: [log.append("cage.note", {}, durable=True) for _ in range(20)])
                   for _ in range(5)]  # fmt: skip
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    verdict = verify(str(path))
    assert verdict.ok
    assert verdict.records == 100


def test_only_what_must_be_durable_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    with AuditLog(tmp_path / "audit" / "events.jsonl") as log:
        log(Event(EXIT.name, {}))
        assert not synced
        log(Event(SPAWN.name, {}))
        assert len(synced) == 1


def test_one_sync_serves_all_that_was_written_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    stream = AuditStream(str(tmp_path / "events.jsonl"), 1 << 20, lambda: "t")
    first, second = stream.append("a", {}), stream.append("b", {})
    stream.sync(second)
    stream.sync(first)
    stream.close()
    assert len(synced) == 1


def test_a_full_file_is_put_away_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = filled(tmp_path / "audit" / "events.jsonl", events=20, rotate_mb=0.001)
    names = sorted(each.name for each in path.parent.iterdir())
    assert len(names) > 4
    assert all(each.startswith("events.jsonl") for each in names)
    verdict = verify(str(path))
    assert verdict.ok
    assert verdict.files == len(names) - 1
    assert [each.data["exit_code"] for each in records(str(path)) if each.type == EXIT.name] == list(range(20))


def test_a_writer_follows_another_that_rotates(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "events.jsonl"
    with AuditLog(path) as patient:
        patient.append("cage.note", {"key": "first"})
        filled(path, events=20, rotate_mb=0.001)
        patient.append("cage.note", {"key": "last"})
    verdict = verify(str(path))
    assert verdict.ok
    assert list(records(str(path)))[-1].data == {"key": "last"}


def test_a_missing_full_file_is_found_and_older_ones_may_be_put_away(tmp_path: Path) -> None:
    path = filled(tmp_path / "audit" / "events.jsonl", events=20, rotate_mb=0.001)
    first, second, *_ = files.all_files(str(path))
    os.rename(second, tmp_path / "second")
    assert not verify(str(path)).ok
    os.rename(tmp_path / "second", second)
    os.unlink(first)
    verdict = verify(str(path))
    assert verdict.ok
    assert verdict.first > 1


def test_a_torn_last_line_is_reported_and_the_next_writer_goes_on(stream: Path) -> None:
    with stream.open("ab") as file:
        file.write(b'{"seq":9,"time":"20')
    before = verify(str(stream))
    assert before.ok
    assert [each.kind for each in before.torn] == ["torn"]
    filled(stream, events=1)
    after = verify(str(stream))
    assert after.ok
    assert [each.kind for each in after.torn] == ["torn"]
    assert types(stream)[-2:] == ["audit.resumed", EXIT.name]
    assert list(records(str(stream)))[-2].data == {"torn_bytes": 19, "lost": 0}


def test_a_writer_that_died_before_it_wrote_the_head_is_no_break(stream: Path) -> None:
    head = Path(f"{stream}.head")
    early = head.read_bytes()
    filled(stream, events=1)
    head.write_bytes(early)
    assert verify(str(stream)).ok
    filled(stream, events=1)
    verdict = verify(str(stream))
    assert verdict.ok
    assert verdict.records == EVENTS + 2
    assert "audit.resumed" not in types(stream)


def test_lost_records_stay_lost_in_every_later_verdict(stream: Path) -> None:
    lines = stream.read_bytes().splitlines(keepends=True)
    stream.write_bytes(b"".join(lines[:-3]))
    filled(stream, events=2)
    verdict = verify(str(stream))
    assert [each.kind for each in verdict.breaks] == ["missing"]
    assert f"{EVENTS - 2} to {EVENTS}" in str(verdict.breaks[0])
    resumed = next(each for each in records(str(stream)) if each.type == "audit.resumed")
    assert resumed.data == {"torn_bytes": 0, "lost": 3}


def test_a_deleted_head_is_found_and_the_next_writer_goes_on(stream: Path) -> None:
    os.unlink(f"{stream}.head")
    assert not verify(str(stream)).ok
    filled(stream, events=1)
    assert verify(str(stream)).ok
    assert verify(str(stream)).records == EVENTS + 1


def test_a_write_that_does_not_fit_leaves_no_half_record(stream: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, write = stream.read_bytes(), os.write
    with AuditLog(stream) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
            with pytest.raises(AuditError, match="no room"):
                log.append("cage.note", {})
        assert stream.read_bytes() == whole
        log.append("cage.note", {})
    assert verify(str(stream)).ok


def test_a_closed_log_refuses(stream: Path) -> None:
    log = AuditLog(stream)
    log.close()
    log.close()
    with pytest.raises(AuditError, match="is closed"):
        log.append("cage.note", {})


def test_the_counts_are_what_the_result_says_once_a_command_has_ended(stream: Path) -> None:
    """The first refusal of a target has an event; those that repeat it are counted, and told at the end."""
    with AuditLog(stream) as log:
        log(Event(TCP_DENIED.name, {"invocation_id": "A"}))
        log(Event(DENIED.name, {"invocation_id": "A"}))
        assert log.counts("A") == {TCP_DENIED.name: 1, DENIED.name: 1}
        log(Event(EXIT.name, {"invocation_id": "A", "counts": {TCP_DENIED.name: 4}}))
        assert log.counts("A") == {TCP_DENIED.name: 4, DENIED.name: 1}
        log(Event(EXIT.name, {"invocation_id": "B", "counts": {}}))
        assert log.counts("B") == {}


@pytest.mark.parametrize(("rate", "written"), [(0.0, 0), (0.25, 2), (0.5, 5), (1.0, 10)])
def test_what_is_allowed_is_counted_and_written_at_its_rate(tmp_path: Path, rate: float, written: int) -> None:
    path = tmp_path / "audit" / "events.jsonl"
    with AuditLog(path, allow_rate=rate) as log:
        for _ in range(10):
            log(Event(TCP_ALLOWED.name, {"invocation_id": "A"}))
        log(Event(TCP_DENIED.name, {"invocation_id": "A"}))
        log(Event(DENIED.name, {"invocation_id": "B"}))
        assert log.counts("A") == {TCP_ALLOWED.name: 10, TCP_DENIED.name: 1}
        assert log.counts("B") == {DENIED.name: 1}
        assert log.counts("C") == {}
        log(Event(EXIT.name, {"invocation_id": "A"}))
    assert types(path).count(TCP_ALLOWED.name) == written
    assert types(path).count(TCP_DENIED.name) == 1
    assert list(records(str(path)))[-1].data["counts"] == {TCP_ALLOWED.name: 10, TCP_DENIED.name: 1}


@pytest.mark.parametrize("wrong", [{"allow_rate": -0.1}, {"allow_rate": 1.5}, {"rotate_mb": 0}])
def test_numbers_out_of_range_are_refused(tmp_path: Path, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        AuditLog(tmp_path / "audit" / "events.jsonl", **wrong)  # type: ignore[arg-type]


def test_the_default_place_is_the_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert files.default_path() == f"{tmp_path}/pysandbox/audit/events.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/me")
    assert files.default_path() == "/home/me/.local/state/pysandbox/audit/events.jsonl"
    monkeypatch.setenv(files.VARIABLE, "off")
    assert files.chosen_path() is None
    monkeypatch.setenv(files.VARIABLE, "/elsewhere/log")
    assert files.chosen_path() == "/elsewhere/log"


def test_a_reader_may_start_after_a_record(stream: Path) -> None:
    assert [each.seq for each in records(str(stream), 5)] == list(range(6, EVENTS + 1))
    filled(stream, events=20, rotate_mb=0.001)
    last = max(each.seq for each in records(str(stream)))
    assert [each.seq for each in records(str(stream), last - 1)] == [last]
    assert all(isinstance(each, AuditRecord) for each in read(str(stream)))
