"""Events to OpenTelemetry: a span for each command, an event on it for whatever happened to it meanwhile.

    Runtime(audit=AuditLog(), sink=to_opentelemetry())      pip install 'pysandbox[otel]'

A command that failed, or was ended by force, leaves a span with status ERROR. An event of no running command becomes a
span of its own, of no length. Attributes are the fields, as `pysandbox.<field>`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pysandbox.audit.canonical import canonical
from pysandbox.events import EXIT, SPAWN, SPAWN_UNCAGED, START_FAILED, Event, Sink
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

SPANS_KEPT = 4096  # of commands whose end was never told; the oldest is ended first


def to_opentelemetry(tracer: Tracer | None = None) -> Sink:
    """A sink for `tracer`, by default the global provider's. Raises ImportError without the extra."""
    from opentelemetry import trace

    return _Exporter(tracer or trace.get_tracer("pysandbox"))


class _Exporter:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[tuple[object, object], Span] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            if event.type in (SPAWN.name, SPAWN_UNCAGED.name):
                self._begin(event)
            elif event.type in (EXIT.name, START_FAILED.name):
                self._end(event)
            else:
                self._tell(event)

    def _begin(self, event: Event) -> None:
        if len(self._open) >= SPANS_KEPT:
            self._open.pop(next(iter(self._open))).end()
        span = self._tracer.start_span(event.type, attributes=attributes(event.data))
        self._open[_key(event)] = span

    def _end(self, event: Event) -> None:
        from opentelemetry.trace import StatusCode

        span = self._open.pop(_key(event), None)
        if span is None:
            self._alone(event)
            return
        span.set_attributes(attributes(event.data))
        if event.type == START_FAILED.name or event.data.get("exit_code") != 0:
            span.set_status(StatusCode.ERROR, str(event.data.get("reason", event.data.get("step", ""))))
        span.end()

    def _tell(self, event: Event) -> None:
        span = self._open.get(_key(event)) or self._any_of(event.data.get("invocation_id"))
        if span is None:
            self._alone(event)
        else:
            span.add_event(event.type, attributes(event.data))

    def _any_of(self, invocation: object) -> Span | None:
        """The span of a cage's first running command, for an event that names only the cage."""
        if invocation is None:
            return None
        return next((span for (owner, _), span in self._open.items() if owner == invocation), None)

    def _alone(self, event: Event) -> None:
        self._tracer.start_span(event.type, attributes=attributes(event.data)).end()


def _key(event: Event) -> tuple[object, object]:
    return event.data.get("invocation_id"), event.data.get("command")


def attributes(data: Mapping[str, object]) -> dict[str, str | bool | int | float | list[str]]:
    """OpenTelemetry knows plain values and lists of strings; whatever else becomes JSON. Nothing is said of a None."""
    return {f"pysandbox.{name}": _attribute(value) for name, value in data.items() if value is not None}


def _attribute(value: object) -> str | bool | int | float | list[str]:
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return [str(each) for each in value]
    return canonical(value)
