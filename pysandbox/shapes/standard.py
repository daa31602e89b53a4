"""The standard dataclass with the same fields: what the functions of `dataclasses` are shown of a class of ours."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from pysandbox.shapes.made import MISSING


@functools.cache
def twin(cls: Any) -> type:
    """For `dataclasses.fields`, `replace`, `is_dataclass`; made once."""
    described = [(name, each.type, _field(each)) for name, each in cls.__shape__.items()]
    return dataclasses.make_dataclass("Twin", described, frozen=cls.__shape_is_frozen__)


def _field(each: Any) -> Any:
    said: dict[str, Any] = {"repr": each.repr, "compare": each.compare, "kw_only": each.kw_only}
    if each.default is not MISSING:
        said["default"] = each.default
    elif each.default_factory is not MISSING:
        said["default_factory"] = each.default_factory
    return dataclasses.field(metadata=dict(each.metadata), **said)
