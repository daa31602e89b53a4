"""Whatever is done to a stream is found: a byte, a record gone, two changed places, an end cut off."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.audit.chain import SEAL, START, hash_of, link_of, seal
from pysandbox.audit.files import head_text, read_head
from pysandbox.audit.read import ChainReport, records, verify
from pysandbox.errors import AuditError
from pysandbox.sha256 import sha256

from .conftest import EVENTS, filled

with tempfile.TemporaryDirectory() as folder:
    made = filled(Path(folder) / "audit" / "events.jsonl")
    WHOLE, HEAD = made.read_bytes(), Path(f"{made}.head").read_bytes()
LINES = WHOLE.splitlines(keepends=True)


def verdict_on(content: bytes, head: bytes = HEAD) -> ChainReport:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        path.write_bytes(content)
        Path(f"{path}.head").write_bytes(head)
        return verify(str(path))


def test_an_untouched_stream_holds() -> None:
    verdict = verdict_on(WHOLE)
    assert verdict.ok
    assert (verdict.records, verdict.first, verdict.last.seq, verdict.torn) == (EVENTS, 1, EVENTS, ())


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
@settings(max_examples=300, deadline=None)
def test_any_changed_byte_is_found(at: int, change: int) -> None:
    assert not verdict_on(WHOLE[:at] + bytes([WHOLE[at] ^ change]) + WHOLE[at + 1 :]).ok


@given(st.integers(0, len(WHOLE) - 1))
@settings(max_examples=200, deadline=None)
def test_any_shortening_is_found(length: int) -> None:
    assert not verdict_on(WHOLE[:length]).ok


@given(st.integers(0, len(HEAD) - 1), st.integers(1, 255))
@settings(max_examples=100, deadline=None)
def test_a_changed_head_is_found_unless_it_is_only_late(at: int, change: int) -> None:
    forged = HEAD[:at] + bytes([HEAD[at] ^ change]) + HEAD[at + 1 :]
    found = read_head(forged)
    late = found is not None and found[0].seq < EVENTS
    only_size = found is not None and found[0] == read_head(HEAD)[0]  # type: ignore[index]
    assert verdict_on(WHOLE, forged).ok == (late or only_size)


@pytest.mark.parametrize("gone", range(EVENTS))
def test_a_record_that_is_gone_is_found(gone: int) -> None:
    kept = b"".join(LINES[:gone] + LINES[gone + 1 :])
    verdict = verdict_on(kept)
    if gone == 0:  # the stream may begin where older files were put away, and the verdict says where
        assert verdict.first == 2
    else:
        assert not verdict.ok


@given(st.permutations(LINES))
@settings(max_examples=100, deadline=None)
def test_any_other_order_is_found(lines: list[bytes]) -> None:
    assert verdict_on(b"".join(lines)).ok == (lines == LINES)


@given(st.integers(0, EVENTS), st.sampled_from([*LINES, b"\n", b"{}\n", b"x\n"]))
@settings(max_examples=60, deadline=None)
def test_anything_put_in_is_found(at: int, line: bytes) -> None:
    assert not verdict_on(b"".join([*LINES[:at], line, *LINES[at:]])).ok


def test_a_stream_written_anew_differs_from_a_hash_that_was_kept(stream: Path) -> None:
    kept = verify(str(stream)).last.hash
    line, link = seal(START, "2026-01-01T00:00:00.000000Z", 1, "subagent.exit", {})
    stream.write_bytes(line)
    Path(f"{stream}.head").write_bytes(head_text(link, len(line)))
    assert verify(str(stream)).ok  # a chain alone cannot tell
    assert kept not in {each.hash for each in records(str(stream))}


def test_a_line_carries_its_own_hash_and_no_other() -> None:
    line, link = seal(START, "2026-01-01T00:00:00.000000Z", 7, "cage.note", {"key": "k"})
    assert link_of(line[:-1]) == link
    assert hash_of(line) is None  # with its newline
    assert link_of(b"") is None
    assert link_of(line.replace(b'"seq":1', b'"seq":x')[:-1]) is None
    for at in range(len(line) - 1):
        assert hash_of(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 : -1]) is None
    assert link_of(sealed(b'{"seq":12,"x":0')) is not None
    for odd in (
        b"",
        b"{",
        b'{"seq":,',
        b'{"seq":-1,',
        b'{"seq":1.5,',
        b'{"seq":x,',
        b'{"seq":%s,' % (b"1" * 5000),
    ):  # sealed, but not by us
        assert hash_of(sealed(odd)) is not None and link_of(sealed(odd)) is None


def sealed(body: bytes) -> bytes:
    return body + SEAL + sha256(body).hexdigest().encode() + b'"}'


@pytest.mark.parametrize("end", ["\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT TWO}", "x", "", "1x"])
def test_what_only_looks_like_a_full_file_is_none(stream: Path, end: str) -> None:
    Path(f"{stream}.{end}").write_bytes(b"no record\n")
    assert verify(str(stream)).ok and len(list(records(str(stream), since=1))) == EVENTS - 1


def test_what_is_not_there_does_not_hold(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="is not there"):
        verify(str(tmp_path / "events.jsonl"))
    before = LINES[0].replace(START.hash.encode(), b"1" * 64)
    first = sealed(before[: before.index(SEAL)]) + b"\n"
    (found,) = [each for each in verdict_on(first, b"").breaks if each.kind == "order"]
    assert "follows on another one" in found.message
