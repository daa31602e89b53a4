"""Events in OpenTelemetry: a span for a command, what happened to it as the span's events."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from pysandbox.audit.otel import SPANS_KEPT, to_opentelemetry
from pysandbox.events import DENIED, EXIT, KILLED, LEFTOVER, NOTE, SPAWN, START_FAILED, Event, Sink


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def sink(exporter: InMemorySpanExporter) -> Sink:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return to_opentelemetry(provider.get_tracer("test"))


def event(type: str, command: int = 1, **data: object) -> Event:
    return Event(type, {"invocation_id": "A", "command": command, **data})


def test_a_command_is_a_span_with_its_fields(sink: Sink, exporter: InMemorySpanExporter) -> None:
    sink(event(SPAWN.name, argv=("ls", "-l"), limits={"memory_mb": 64}))
    sink(event(EXIT.name, exit_code=0, path=None))
    (span,) = exporter.get_finished_spans()
    assert span.name == SPAWN.name
    assert span.attributes is not None
    assert span.attributes["pysandbox.argv"] == ("ls", "-l")
    assert span.attributes["pysandbox.limits"] == '{"memory_mb":64}'
    assert span.attributes["pysandbox.exit_code"] == 0
    assert "pysandbox.path" not in span.attributes
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("end", [event(EXIT.name, exit_code=3, reason="exited"), event(START_FAILED.name, step="exec")])
def test_a_failure_is_an_error(end: Event, sink: Sink, exporter: InMemorySpanExporter) -> None:
    sink(event(SPAWN.name))
    sink(end)
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR


def test_what_happens_meanwhile_is_told_on_the_span_of_its_command(sink: Sink, exporter: InMemorySpanExporter) -> None:
    sink(event(SPAWN.name, 1))
    sink(event(SPAWN.name, 2))
    sink(event(KILLED.name, 2, reason="oom"))
    sink(Event(DENIED.name, {"invocation_id": "A", "target": "/x"}))
    sink(event(EXIT.name, 2, exit_code=137))
    sink(event(EXIT.name, 1, exit_code=0))
    second, first = exporter.get_finished_spans()
    assert [each.name for each in second.events] == [KILLED.name]
    assert [each.name for each in first.events] == [DENIED.name]


def test_what_belongs_to_no_command_is_a_span_of_its_own(sink: Sink, exporter: InMemorySpanExporter) -> None:
    for each in (Event(NOTE.name, {"key": "k"}), Event(LEFTOVER.name, {"invocation_id": "B"}), event(EXIT.name)):
        sink(each)
    assert [span.name for span in exporter.get_finished_spans()] == [NOTE.name, LEFTOVER.name, EXIT.name]


def test_spans_that_never_end_are_not_gathered(sink: Sink, exporter: InMemorySpanExporter) -> None:
    for number in range(SPANS_KEPT + 1):
        sink(event(SPAWN.name, number))
    assert len(exporter.get_finished_spans()) == 1
