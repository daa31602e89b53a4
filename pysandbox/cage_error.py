"""The root of every error of this package (`pysandbox.errors` has them all)."""

from __future__ import annotations


class CageError(Exception):
    """Root of every error of this package. It survives a pickle, so that pools of processes may hand it over."""

    def __reduce__(self) -> tuple[object, ...]:
        filename = getattr(self, "filename", None)
        args = self.args if filename is None else (*self.args, filename)
        return _again, (type(self), args, {**vars(self)})


def _again(kind: type[CageError], args: tuple[object, ...], state: dict[str, object]) -> CageError:
    """The error of a pickle. Not by its own __init__, which takes what the text was made from."""
    base = OSError if issubclass(kind, OSError) else Exception
    error: CageError = base.__new__(kind)
    base.__init__(error, *args)
    vars(error).update(state)
    return error
