"""Events in the standard library's logging."""

from __future__ import annotations

import logging

import pytest

from pysandbox.audit.log import WARNINGS, to_logging
from pysandbox.events import DENIED, EXIT, SPAWN_UNCAGED, TYPES, Event


def test_an_event_becomes_one_message_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pysandbox")
    to_logging()(Event(EXIT.name, {"invocation_id": "A", "exit_code": 3}))
    (found,) = caplog.records
    assert found.getMessage() == 'subagent.exit {"exit_code":3,"invocation_id":"A"}'
    assert (found.name, found.levelno) == ("pysandbox", logging.INFO)
    assert (vars(found)["event"], vars(found)["fields"]["exit_code"]) == (EXIT.name, 3)


@pytest.mark.parametrize("name", [DENIED.name, SPAWN_UNCAGED.name])
def test_what_should_be_looked_at_is_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    mine = logging.getLogger("mine")
    to_logging(mine)(Event(name, {"argv": ("a\nb",)}))
    (found,) = caplog.records
    assert (found.name, found.levelno) == ("mine", logging.WARNING)
    assert "\n" not in found.getMessage()


def test_a_level_that_is_off_costs_no_text() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("nobody asked for the text")

    quiet = logging.getLogger("quiet")
    quiet.setLevel(logging.ERROR)
    to_logging(quiet)(Event(EXIT.name, {"reason": Costly()}))


def test_every_warning_is_a_type_that_exists() -> None:
    assert set(TYPES) >= WARNINGS
