"""A regular expression that is compiled when it is first used: the half of them that one command does not meet cost it
nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import compile as pattern
    from typing import Any
else:

    class pattern:  # noqa: N801  # it is called as re.compile is, and answers as what that gives
        def __init__(self, text: str) -> None:
            self.pattern = text

        def __getattr__(self, name: str) -> Any:
            """Whatever is asked for first brings all of it."""
            if name.startswith("_"):
                raise AttributeError(name)
            import re

            compiled = re.compile(self.pattern)
            for each in ("fullmatch", "match", "search", "findall", "finditer", "split", "sub"):
                setattr(self, each, getattr(compiled, each))
            return getattr(compiled, name)


__all__ = ["pattern"]
