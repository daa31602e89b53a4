"""Workers of a template that is loaded when the first one is taken, and again when it has ended: for an executor."""

from __future__ import annotations

from pysandbox.pipeline.template import Template
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.pipeline.idle import TemplateWorker


class ForkedWorkers:
    """One thread takes them; a `CallWorkers`."""

    def __init__(self, template: Template) -> None:
        """Raises UnsupportedError."""
        template.require_scope()
        self._template = template

    def take(self) -> TemplateWorker:
        """Raises CageError."""
        if self._template.is_over:
            self._template.close()
            self._template.open()
        return self._template.take()

    def close(self) -> None:
        self._template.close()
