"""The manifest of an app (document 004) or of a plugin (document 000): one loader, strict, TOML or JSON.

    app_id = "notes.app"                          name = "fetcher"
    version = "1.2.0"                             version = "0.3"
    entrypoint = ["python3", "notes.py"]          capabilities = ["read:fs:./data", "net:api.example.com:443"]
    requested_capabilities = ["fs.use"]

    [resource_scopes]
    fs_prefixes = ["docs"]

Both become an AppManifest. An entrypoint that is a text names a program of the machine (`program.py`), one that is a
list is the argv of a process in a cage, which speaks through the port. Each word of `requested_capabilities` is one of
document 004's (fs.use), or one of a plugin's (read:fs:./data), which becomes a part of the cage's policy. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pysandbox.apps.opcodes import CAPABILITIES
from pysandbox.apps.plugin import PluginCapability, is_plugin_word, parse_capability
from pysandbox.apps.scope import ANY_PEER, WHOLE, Scopes, is_domain, is_path
from pysandbox.apps.strict import is_encodable, parse_json, parse_toml
from pysandbox.errors import PolicyError
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.shapes import Any, NoReturn, dataclass

FILES = ("app.toml", "app.json")
REQUIRED = ("app_id", "version", "entrypoint", "requested_capabilities")
OPTIONAL = ("resource_scopes", "description")
PLUGIN_REQUIRED, PLUGIN_OPTIONAL = ("name", "version", "capabilities"), ("description", "entrypoint")
SCOPES = ("domains_allowed", "fs_prefixes", "channel_peers_allowed")
MOST = 1024  # entries of a list
_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.(?:0|[1-9][0-9]{0,8})){0,3}")


@dataclass(frozen=True, slots=True)
class AppManifest:
    """What an app is and asks for. `program` is a file of the machine, else `argv` a process's; a plugin may have
    neither."""

    app_id: str
    version: str
    program: str
    argv: tuple[str, ...]
    requested: tuple[str, ...]
    scopes: Scopes
    description: str = ""

    @classmethod
    def parse(cls, content: bytes, file: str = "app.toml") -> AppManifest:
        """Raises PolicyError, which names file and key."""
        document = parse_json(content, file) if file.endswith(".json") else parse_toml(content, file)
        if not isinstance(document, dict):
            raise PolicyError("is no manifest", file=file, suggestion="write a table with app_id and version")
        reader = _ManifestReader(file)
        if "capabilities" in document and "requested_capabilities" not in document:
            return reader.plugin(document)
        return reader.app(document)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The capabilities of document 004."""
        return tuple(each for each in self.requested if not is_plugin_word(each))

    @property
    def plugin_words(self) -> tuple[PluginCapability, ...]:
        return plugin_words(self.requested)


def plugin_words(words: tuple[str, ...]) -> tuple[PluginCapability, ...]:
    return tuple(parse_capability(each) for each in words if is_plugin_word(each))


def matches_app_id(text: object) -> bool:
    return isinstance(text, str) and len(text) <= 128 and _ID.fullmatch(text) is not None


def version_key(version: str) -> tuple[int, ...]:
    """1.2 is 1.2.0.0."""
    parts = [int(part) for part in version.split(".")]
    return tuple(parts + [0] * (4 - len(parts)))


def parse_word(value: object) -> str:
    """One requested capability in its one spelling. Raises CommandRefused."""
    if isinstance(value, str) and is_plugin_word(value):
        return str(parse_capability(value))
    if value in CAPABILITIES:
        return str(value)
    near = did_you_mean(value, CAPABILITIES) if isinstance(value, str) and value.isascii() else None
    raise CommandRefused(f"{shown(value)} is no capability", near or f"there are {', '.join(CAPABILITIES)}")


class _ManifestReader:
    def __init__(self, file: str) -> None:
        self._file = file

    def app(self, given: Mapping[str, Any]) -> AppManifest:
        self._keys("", given, REQUIRED, OPTIONAL)
        program, argv = self._entrypoint(given["entrypoint"])
        words = self._words("requested_capabilities", given["requested_capabilities"])
        for word in words if program else ():
            if is_plugin_word(word):
                self._refuse("requested_capabilities", f"{word} is for a process, which {program} is not",
                             'write the entrypoint of a process, such as ["python3", "main.py"]')  # fmt: skip
        return AppManifest(
            self._matched("app_id", given["app_id"], _ID, "lower-case words with dots, such as notes.app"),
            self._matched("version", given["version"], _VERSION, "numbers with dots, such as 1.2.0"),
            program,
            argv,
            words,
            self.scopes(given.get("resource_scopes", {})),
            self._description(given),
        )

    def plugin(self, given: Mapping[str, Any]) -> AppManifest:
        self._keys("", given, PLUGIN_REQUIRED, PLUGIN_OPTIONAL)
        words = self._words("capabilities", given["capabilities"])
        for index, word in enumerate(words):
            if not is_plugin_word(word):
                self._refuse(f"capabilities[{index}]", f"{word} needs app_id and requested_capabilities")
        program, argv = self._entrypoint(given["entrypoint"]) if "entrypoint" in given else ("", ())
        if program:
            self._refuse("entrypoint", f"must be the argv of a process, not {shown(program)}",
                         'write ["python3", "main.py"]')  # fmt: skip
        return AppManifest(
            self._matched("name", given["name"], _ID, "lower-case words with dots, such as fetcher"),
            self._matched("version", given["version"], _VERSION, "numbers with dots, such as 1.2.0"),
            "",
            argv,
            words,
            Scopes(),
            self._description(given),
        )

    def scopes(self, given: object) -> Scopes:
        if not isinstance(given, dict):
            self._refuse("resource_scopes", f"must be a table, not {shown(given)}")
        self._keys("resource_scopes", given, (), SCOPES)
        domains = given.get("domains_allowed")
        return Scopes(
            None if domains is None else frozenset(self._list("domains_allowed", domains, self._domain)),
            tuple(sorted(set(self._list("fs_prefixes", given.get("fs_prefixes", []), self._prefix)))),
            self._peers(given.get("channel_peers_allowed", [])),
        )

    def _peers(self, given: object) -> frozenset[tuple[str, str]] | None:
        if given == ANY_PEER:
            return None
        return frozenset(self._list("channel_peers_allowed", given, self._pair))

    def _entrypoint(self, given: object) -> tuple[str, tuple[str, ...]]:
        if isinstance(given, str):
            if not is_path(given):
                self._refuse("entrypoint", f"{shown(given)} is no file of the package")
            return given, ()
        words = self._list("entrypoint", given, self._argument)
        if not words or not words[0] or words[0].startswith("-"):
            self._refuse("entrypoint", "names no program", 'write ["python3", "main.py"]')
        return "", tuple(words)

    def _words(self, key: str, given: object) -> tuple[str, ...]:
        def word(place: str, value: object) -> str:
            try:
                return parse_word(value)
            except CommandRefused as refused:
                self._refuse(place, refused.message, refused.suggestion)

        return tuple(sorted(set(self._list(key, given, word))))

    def _description(self, given: Mapping[str, Any]) -> str:
        text = given.get("description", "")
        if not isinstance(text, str) or len(text) > 200 or not text.isprintable():
            self._refuse("description", "must be one line of at most 200 characters")
        return text

    # ---- one value ----------------------------------------------------------------------------------------------

    def _domain(self, key: str, value: object) -> str:
        if not is_domain(value):
            self._refuse(key, f"{shown(value)} is no domain", "write lower-case words with dots, such as notes")
        return str(value)

    def _prefix(self, key: str, value: object) -> str:
        text = value.removesuffix("/") if isinstance(value, str) and value != "/" else value
        if text != WHOLE and not is_path(text):
            self._refuse(key, f"{shown(value)} is no prefix", 'write "docs", or "." for the whole workspace')
        return str(text)

    def _pair(self, key: str, value: object) -> tuple[str, str]:
        if not isinstance(value, list) or len(value) != 2:
            self._refuse(
                key, f"{shown(value)} is no pair of domains", f'write ["notes", "mail"], or "{ANY_PEER}" alone'
            )
        return self._domain(f"{key}[0]", value[0]), self._domain(f"{key}[1]", value[1])

    def _argument(self, key: str, value: object) -> str:
        if not isinstance(value, str) or "\0" in value or len(value) > 4096 or not is_encodable(value):
            self._refuse(key, f"{shown(value)} is no argument")
        return value

    def _matched(self, key: str, value: object, pattern: re.Pattern[str], what: str) -> str:
        if not isinstance(value, str) or len(value) > 128 or not pattern.fullmatch(value):
            self._refuse(key, f"must be {what}, not {shown(value)}")
        return value

    def _list(self, key: str, value: object, read: Callable[[str, object], Any]) -> list[Any]:
        if not isinstance(value, list) or len(value) > MOST:
            self._refuse(key, f"must be a list of at most {MOST} entries, not {shown(value)}")
        return [read(f"{key}[{index}]", each) for index, each in enumerate(value)]

    def _keys(self, key: str, table: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...]) -> None:
        for each in table:
            if each not in (*required, *optional):
                self._refuse(f"{key}.{each}".strip("."), "no such key", did_you_mean(each, (*required, *optional)))
        for each in required:
            if each not in table:
                self._refuse(key or None, f"lacks {each!r}", f"write {each} = ...")

    def _refuse(self, key: str | None, message: str, suggestion: str | None = None) -> NoReturn:
        raise PolicyError(message, file=self._file, key=key, suggestion=suggestion)


def read_scopes(given: Mapping[str, Any], file: str) -> Scopes:
    """The scopes of a table as a manifest has it. Raises PolicyError."""
    return _ManifestReader(file).scopes(given)
