"""Where in a TOML text a key, an element or a value stands, for error messages and edits; tomllib does not say.

This reads the layout of a text, not its values: it knows strings, brackets, comments and keys, and skips the rest. It
is asked only after a text was refused for what it says, so it costs nothing otherwise, and where it is lost (the text
is not TOML) it answers None rather than guess.
"""

from __future__ import annotations

import re

Path = tuple[str | int, ...]  # keys and list indexes from the top of the document

_SPACE = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_LITERAL = re.compile(r"'[^'\n]*'")
# Up to two quotes may stand directly before the three that close.
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}\n#]+")  # a date may hold a space


class _Lost(Exception):
    """The text is not what it should be at this place."""


def line_of(text: str, path: Path) -> int | None:
    """The line (from 1) of `path`, or of the closest part of it that is written down; None when nothing is."""
    layout = _TomlLayout(text)
    try:
        layout.document()
    except (_Lost, RecursionError):
        pass  # what was found before is still right
    while path:
        if path in layout.offsets:
            return text.count("\n", 0, layout.offsets[path]) + 1
        path = path[:-1]
    return None


class _TomlLayout:
    """One pass over a text, noting where each key, table and list element begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.offsets: dict[Path, int] = {}
        self._elements: dict[Path, int] = {}  # [[name]] tables seen so far, by name

    def document(self) -> None:
        table: Path = ()
        self._skip(_GAP)
        while self.at < len(self.text):
            if self._accept("[["):
                table = self._header(array=True)
            elif self._accept("["):
                table = self._header(array=False)
            else:
                self._pair(table)
            self._skip(_GAP)

    def _header(self, *, array: bool) -> Path:
        start = self.at
        keys = self._key()
        self._expect("]]" if array else "]")
        table: Path = ()
        for key in keys[:-1]:
            table = self._latest((*table, key))
        name = (*table, keys[-1])
        if array:
            self._elements[name] = self._elements.get(name, -1) + 1
        for length in range(1, len(name) + 1):
            self.offsets.setdefault(name[:length], start)
        table = self._latest(name)
        self.offsets.setdefault(table, start)
        return table

    def _latest(self, name: Path) -> Path:
        return (*name, self._elements[name]) if name in self._elements else name

    def _pair(self, table: Path) -> None:
        start = self.at
        path = table
        for key in self._key():
            path = (*path, key)
            self.offsets.setdefault(path, start)
        self._expect("=")
        self._skip(_SPACE)
        self._value(path)

    def _key(self) -> tuple[str, ...]:
        parts = []
        while True:
            self._skip(_SPACE)
            parts.append(self._key_part())
            self._skip(_SPACE)
            if not self._accept("."):
                return tuple(parts)

    def _key_part(self) -> str:
        quote = self.text[self.at : self.at + 1]
        if quote == "'":
            return self._skip(_LITERAL)[1:-1]
        if quote == '"':
            return _unescaped(self._skip(_BASIC))
        return self._skip(_BARE_KEY)

    def _value(self, path: Path) -> None:
        if self._accept("["):
            self._array(path)
        elif self._accept("{"):
            self._inline_table(path)
        else:
            self._skip(self._scalar())

    def _scalar(self) -> re.Pattern[str]:
        for opening, pattern in (('"""', _LONG_BASIC), ("'''", _LONG_LITERAL), ('"', _BASIC), ("'", _LITERAL)):
            if self.text.startswith(opening, self.at):
                return pattern
        return _SCALAR

    def _array(self, path: Path) -> None:
        index = 0
        self._skip(_GAP)
        while not self._accept("]"):
            self.offsets[(*path, index)] = self.at
            self._value((*path, index))
            index += 1
            self._skip(_GAP)
            if not self._accept(","):
                self._expect("]")
                return
            self._skip(_GAP)

    def _inline_table(self, path: Path) -> None:
        self._skip(_GAP)
        while not self._accept("}"):
            self._pair(path)
            self._skip(_GAP)
            if not self._accept(","):
                self._expect("}")
                return
            self._skip(_GAP)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _Lost
        self.at = match.end()
        return match.group()

    def _accept(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise _Lost


def _unescaped(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    import tomllib

    return str(tomllib.loads(f"key = {quoted}")["key"])
