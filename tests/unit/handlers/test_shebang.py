"""A script's arguments as the kernel writes them. The kernel's own answers are held against these in
tests/e2e/test_execs_that_a_callback_allows.py."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.handlers.shebang import AT_FDCWD, HEAD, image_name, interpreter, script_arguments


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (b"#!/bin/sh\n", (b"/bin/sh",)),
        (b"#! \t/bin/sh \t\nrest", (b"/bin/sh",)),
        (b"#!/usr/bin/env -S python3 -u\n", (b"/usr/bin/env", b"-S python3 -u")),
        (b"#!/bin/sh\t-e  \n", (b"/bin/sh", b"-e")),
        (b"#!/bin/sh", (b"/bin/sh",)),
        (b"#!/bin/sh -e", (b"/bin/sh", b"-e")),
        (b"#!/bin/sh\0 -e\n", (b"/bin/sh",)),
        (b"#!/bin/sh -e\r\n", (b"/bin/sh", b"-e\r")),
        (b"#!/bin/sh " + b"a" * 400, (b"/bin/sh", b"a" * (HEAD - 1 - len(b"#!/bin/sh ")))),
    ],
)
def test_the_first_line_names_an_interpreter_and_one_argument(head: bytes, line: tuple[bytes, ...]) -> None:
    assert interpreter(head) == line


@pytest.mark.parametrize(
    "head", [b"", b"#", b"#!", b"#!\n", b"#!  \t\n", b"\x7fELF", b" #!/bin/sh\n", b"#!/" + b"a" * 400]
)
def test_what_the_kernel_refuses_or_runs_itself_is_no_script(head: bytes) -> None:
    assert interpreter(head) is None


@settings(database=None, deadline=None)
@given(st.binary(max_size=400))
def test_no_file_confuses_it(rest: bytes) -> None:
    line = interpreter(b"#!" + rest)
    assert line is None or (
        1 <= len(line) <= 2 and line[0] and not any(b"\0" in each or b"\n" in each for each in line)
    )


def test_a_program_is_named_as_the_kernel_names_it() -> None:
    assert image_name(b"./x", AT_FDCWD) == b"./x"
    assert image_name(b"/x", 7) == b"/x"
    assert image_name(b"x/y", 7) == b"/dev/fd/7/x/y"
    assert image_name(b"", 7) == b"/dev/fd/7"


def test_interpreters_come_first_the_innermost_before_all() -> None:
    lines = [(b"/tmp/t", b"arg"), (b"/bin/sh", b"-e")]
    assert script_arguments(b"./s", [b"zero", b"one"], lines) == (b"/bin/sh", b"-e", b"/tmp/t", b"arg", b"./s", b"one")
    assert script_arguments(b"./s", [], [(b"/bin/sh",)]) == (b"/bin/sh", b"./s")
