"""csrc/init/report.c: a host that does not listen is no concern of the cage's."""

from __future__ import annotations

import os

import pytest
from pysandbox._native import ffi

from pysandbox.launch import orders

from .plans import Init, opened, plan

pytestmark = pytest.mark.guest


def deaf(init: Init, *argv: str) -> None:
    """Orders a command whose report pipe nobody reads any more."""
    command = init.start(*argv)
    init.commands.remove(command)
    os.close(command.reports)


def test_a_report_that_nobody_reads_is_no_error() -> None:
    with opened(plan()) as init:
        for argv in (("/bin/true",), ("/nowhere",), ("/bin/sh", "-c", "kill -9 $$")):
            deaf(init, *argv)
        assert init.run("/bin/true").code == 0


def test_a_report_on_what_is_no_pipe_is_no_error() -> None:
    with opened(plan()) as init, open("/etc/passwd", "rb") as unwritable:
        order, _ = init.order(("/bin/true",), {})
        orders.send_exec(init.opened.control, order, unwritable.fileno(), ())
        assert init.run("/bin/true").code == 0


def test_a_report_has_nothing_in_it_that_is_not_said() -> None:
    """A record is cleared before it is filled: not even an earlier one shows through."""
    with opened(plan()) as init:
        for path in (b"/nowhere/" + b"x" * 200, b"/nowhere"):
            record = os.read(init.start(os.fsdecode(path)).reports, 4096)
            assert len(record) == ffi.sizeof("struct psb_report")
            assert record[ffi.offsetof("struct psb_report", "error") + 8 :].rstrip(b"\0") == path
