"""DNS messages: what is read of strangers' bytes, and what is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.gate.dns import message
from pysandbox.gate.dns.message import A, Malformed, ResourceRecord


def asked(name: bytes = b"\x07example\x03com\0", kind: int = A, *, flags=0x0100, counts=(1, 0, 0, 0), of=1, rest=b""):
    return struct.pack("!6H", 77, flags, *counts) + name + struct.pack("!2H", kind, of) + rest


OPTIONS = b"\0" + struct.pack("!2HIH", 41, 4096, 0, 0)


def test_a_question_is_read_and_its_answer_repeats_it_as_it_was_spelled():
    question = message.read_question(asked(b"\x07eXaMple\x03com\0"))
    assert (question.number, question.labels, question.kind) == (77, (b"eXaMple", b"com"), A)
    answer = message.answer(question, 0, [ResourceRecord(A, 60, bytes((198, 18, 1, 0)))])
    assert answer == (
        struct.pack("!6H", 77, 0x8180, 1, 1, 0, 0) + b"\x07eXaMple\x03com\0\0\x01\0\x01"
        + b"\xc0\x0c" + struct.pack("!2HIH", 1, 1, 60, 4) + bytes((198, 18, 1, 0))
    )  # fmt: skip


def test_options_are_answered_with_options():
    question = message.read_question(asked(counts=(1, 0, 0, 1), rest=OPTIONS))
    assert question.edns and message.answer(question, 3).endswith(b"\0" + struct.pack("!2HIH", 41, 1232, 0, 0))


@pytest.mark.parametrize(
    ("bytes_of_it", "code"),
    [
        (asked(counts=(2, 0, 0, 0)), message.FORMERR), (asked(counts=(0, 0, 0, 0)), message.FORMERR),
        (asked(counts=(1, 1, 0, 0)), message.FORMERR), (asked(counts=(1, 0, 1, 0)), message.FORMERR),
        (asked(rest=b"x"), message.FORMERR), (asked(counts=(1, 0, 0, 2), rest=OPTIONS * 2), message.FORMERR),
        (asked(counts=(1, 0, 0, 1)), message.FORMERR), (asked(b"\xc0\x0c"), message.FORMERR),
        (asked(b"\x07exam"), message.FORMERR), (asked(b"\x40" + b"a" * 64 + b"\0"), message.FORMERR),
        (asked((b"\x3f" + b"a" * 63) * 4 + b"\0"), message.FORMERR), (asked(of=3), message.REFUSED),
        (asked(of=255), message.REFUSED), (asked(flags=0x2800), message.NOTIMP),
        (asked(counts=(1, 0, 0, 1), rest=b"\0" + struct.pack("!2HIH", 41, 512, 1 << 16, 0)), message.BADVERS),
    ],
)  # fmt: skip
def test_what_is_no_plain_question_is_refused_with_a_code(bytes_of_it, code):
    with pytest.raises(Malformed) as caught:
        message.read_question(bytes_of_it)
    assert caught.value.code == code
    answer = message.refusal(caught.value)
    assert answer is not None and answer[:2] == b"\0\x4d" and answer[3] & 0xF == code & 0xF


@pytest.mark.parametrize("bytes_of_it", [b"", b"short", asked(flags=0x8100)])
def test_an_answer_or_a_scrap_is_not_answered_at_all(bytes_of_it):
    with pytest.raises(Malformed) as caught:
        message.read_question(bytes_of_it)
    assert message.refusal(caught.value) is None


@settings(max_examples=500, deadline=None)
@given(st.one_of(st.binary(max_size=600), st.binary(max_size=80).map(lambda tail: asked()[:12] + tail)))
def test_no_bytes_make_the_reader_of_questions_fail_otherwise(junk):
    try:
        question = message.read_question(junk)
    except Malformed:
        return
    assert len(message.answer(question, 0)) <= len(junk) + 20


def reply(records: bytes, count: int, *, flags: int = 0x8180, name: bytes = b"\x07example\x03com\0") -> bytes:
    return asked(name, flags=flags, counts=(1, count, 0, 0)) + records


def record(name: bytes, kind: int, data: bytes, ttl: int = 300) -> bytes:
    return name + struct.pack("!2HIH", kind, 1, ttl, len(data)) + data


def read(bytes_of_it: bytes) -> message.Reply:
    return message.read_reply(bytes_of_it, 77, "example.com", A)


def test_an_answer_is_read_along_its_aliases_with_the_least_of_their_times():
    records = record(b"\xc0\x0c", 5, b"\x01b\xc0\x14", 20) + record(b"\x01b\xc0\x14", A, b"\x08\x08\x08\x08", 90)
    assert read(reply(records, 2)) == (0, False, (b"\x08\x08\x08\x08",), 20)


def test_addresses_of_other_names_in_an_answer_are_not_taken():
    assert read(reply(record(b"\x04evil\x03com\0", A, b"\x08\x08\x08\x08"), 1)).data == ()


@pytest.mark.parametrize(("kind", "of"), [(28, 1), (16, 1), (A, 3), (A, 254), (28, 3)])
def test_records_of_another_kind_or_class_are_no_addresses(kind: int, of: int):
    other = b"\xc0\x0c" + struct.pack("!2HIH", kind, of, 300, 4) + b"\x7f\0\0\1"
    assert read(reply(other, 1)).data == ()
    assert read(reply(other + record(b"\xc0\x0c", A, b"\x08\x08\x08\x08"), 2)).data == (b"\x08\x08\x08\x08",)


def test_aliases_in_a_circle_come_to_an_end():
    records = record(b"\xc0\x0c", 5, b"\x01b\0") + record(b"\x01b\0", 5, b"\x07example\x03com\0")
    assert read(reply(records, 2)).data == ()


@pytest.mark.parametrize(
    "bytes_of_it",
    [
        reply(b"", 0)[2:], b"\0\0" + reply(b"", 0)[2:], reply(b"", 0, flags=0x0100),
        reply(b"", 0, name=b"\x04evil\x03com\0"),
        reply(b"\xc0\x1d", 1), reply(b"\xc0\xff", 1), reply(record(b"\xc0\x0c", A, b"1234")[:-1], 1), b"",
        reply(b"", 1),
    ],
)  # fmt: skip
def test_an_answer_to_something_else_or_that_does_not_end_is_refused(bytes_of_it):
    with pytest.raises(Malformed):
        read(bytes_of_it)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 300))
def test_no_bytes_make_the_reader_of_answers_fail_otherwise(junk, count):
    for each in (junk, reply(junk, count)):
        try:
            read(each)
        except Malformed:
            continue


def test_a_time_with_its_highest_bit_set_is_no_time():
    assert read(reply(record(b"\xc0\x0c", A, b"\x08\x08\x08\x08", 1 << 31), 1)).ttl == 0
