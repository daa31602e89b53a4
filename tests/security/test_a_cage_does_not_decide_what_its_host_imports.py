"""Claim: whatever a function in a cage returns, the host imports no module because of it: arrays are read where the
program has imported numpy itself, and values of the standard library by what was imported with the first function.

An import runs code of the host, at a time and in a thread that the cage would choose.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pysandbox.pipeline.codec import encode

ANSWERS = """
import sys
from pysandbox.pipeline import answers, decoder
from pysandbox.pipeline.exchange import ReceivedAnswer
before = set(sys.modules)
for kind in (5, 6, 7):
    for message in {messages!r}:
        try:
            print(repr(answers.value_of(ReceivedAnswer(kind, [message], b""), decoder.Shapes())))
        except Exception as error:
            print(type(error).__name__, str(error).partition("\\n")[0])
print("imported", sorted(set(sys.modules) - before))
"""
CALL = """
import sys
from pysandbox import CageExecutor, SandboxedError
def array():
    import numpy
    return numpy.arange(4)
{first}
with CageExecutor(max_workers=1, timeout=60) as executor:
    try:
        print(repr(executor.submit(array).result()))
    except SandboxedError as error:
        print(error)
print("numpy" in sys.modules)
"""


def told(tmp_path: Path, program: str) -> str:
    script = tmp_path / "script.py"
    script.write_text(program)
    return subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout


def of_every_kind() -> list[bytes]:
    """A value of every tag that the codec has, with some that no annotation declares."""
    import datetime
    import decimal
    import pathlib
    import uuid

    size = (3).to_bytes(8, "little")
    values = [None, True, False, 1, 1.5, 2j, "a", b"b", bytearray(b"c"), [1], (2,), {3: 4}, {5}, frozenset([6]),
              datetime.date(2026, 1, 2), datetime.time(3), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
              datetime.timedelta(4), decimal.Decimal("5.6"), uuid.UUID(int=7), pathlib.Path("/8")]  # fmt: skip
    arrays = [b"A" + size + dtype + b"t" + bytes(8) + b"b" + bytes(8) for dtype in (b"<i8", b"|O8", b"os ", b"i,i")]
    return [*(encode(each)[0] for each in values), *arrays, b"E" + size + b"a:bN", b"C" + size + b"c:dd" + bytes(8)]


def test_no_answer_makes_the_host_import_anything(tmp_path: Path) -> None:
    said = told(tmp_path, ANSWERS.format(messages=of_every_kind())).splitlines()
    assert said[-1] == "imported []"
    assert "Decimal('5.6')" in said, "control: they are read"
    assert any("not imported: import numpy" in line for line in said)


@pytest.mark.skipif(find_spec("numpy") is None, reason="numpy is not installed")
def test_an_array_is_refused_by_name_where_the_program_has_no_numpy(tmp_path: Path) -> None:
    assert "array([0, 1, 2, 3])\nTrue\n" in told(tmp_path, CALL.format(first="import numpy")), "control"
    refused = told(tmp_path, CALL.format(first=""))
    assert "import numpy, to receive some" in refused and refused.endswith("False\n")
