"""The shape of a cage block (document 000): a plain mapping checked key by key into frozen data.

A block is `{kind: "disabled"}` or `{kind: "enabled", fs, net, state, seccomp, limits}`, every key present and no other.
The policy parser in front of us has refused everything else already; what still gets here is a fault of that parser,
and every message says so. Nothing here looks at the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import options
from pysandbox.policy.netallow import entry
from pysandbox.policy.option import Option
from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.policy.validate import number, text, whole_number
from pysandbox.shapes import Any, Literal, TypeVar, dataclass

Choice = TypeVar("Choice", bound=str)
_PARSER = "the policy parser should have refused this"
_OPTIONS = {field.name: described for field, described in options()}
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)  # Crockford base 32, 128 bits
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)  # safe as a file name and on one line of a log


@dataclass(frozen=True, slots=True)
class FsEntry:
    mode: str  # "ro" | "rw"
    path: str  # relative to the project root, as written
    resolved: str  # absolute


@dataclass(frozen=True, slots=True)
class Limits:
    memory_mb: int
    cpu_shares: int
    pids: int
    walltime_sec: float


@dataclass(frozen=True, slots=True)
class CageBlock:
    """An enabled block."""

    fs: tuple[FsEntry, ...]
    net_allow: tuple[str, ...]
    state: Literal["ephemeral", "scratch"]
    seccomp: Literal["default", "relaxed"]
    limits: Limits


def refuse(key: str, message: str, suggestion: str = _PARSER) -> SandboxCompileError:
    return SandboxCompileError(message, key=key, suggestion=suggestion)


def read_block(block: Mapping[str, Any], project_root: str) -> CageBlock | None:
    """The block as data, or None for a disabled one."""
    kind = _mapping("cage", block).get("kind")
    if kind == "disabled":
        _exactly("cage", block, ("kind",))
        return None
    if kind != "enabled":
        raise refuse("cage.kind", f'must be "enabled" or "disabled", not {shown(kind)}')
    _exactly("cage", block, ("kind", "fs", "net", "state", "seccomp", "limits"))
    net = _exactly("cage.net", block["net"], ("allow",))
    return CageBlock(
        fs=_fs(_list("cage.fs", block["fs"]), project_root),
        net_allow=_net_allow(_list("cage.net.allow", net["allow"])),
        state=one_of("cage.state", block["state"], ("ephemeral", "scratch")),
        seccomp=one_of("cage.seccomp", block["seccomp"], ("default", "relaxed")),
        limits=_limits(_exactly("cage.limits", block["limits"], tuple(name for name, _, _ in _LIMITS))),
    )


def resolved_root(project_root: object) -> str:
    root = project_root if isinstance(project_root, str) else ""
    if not root.startswith("/") or "\0" in root or any(part in (".", "..") for part in root.split("/")):
        raise refuse("project_root", f"must be an absolute path without . and .., not {shown(project_root)}")
    return "/" + "/".join(part for part in root.split("/") if part)


def is_ulid(value: object) -> bool:
    return isinstance(value, str) and _ULID.fullmatch(value) is not None


def ulid(key: str, value: object) -> str:
    if not isinstance(value, str) or not is_ulid(value):
        raise refuse(key, f"must be a ULID (26 characters of Crockford's base 32), not {shown(value)}")
    return value


def identifier(key: str, value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise refuse(key, f"must be letters, digits, dots, dashes and underscores, not {shown(value)}")
    return value


def user_id(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32 - 1:
        raise refuse(key, f"must be a user id, not {shown(value)}")
    return value


def _fs(entries: list[Any], project_root: str) -> tuple[FsEntry, ...]:
    modes: dict[str, FsEntry] = {}
    for index, value in enumerate(entries):
        key = f"cage.fs[{index}]"
        table = _exactly(key, value, ("mode", "path"))
        mode = one_of(f"{key}.mode", table["mode"], ("ro", "rw"))
        path, resolved = _below_root(f"{key}.path", table["path"], project_root)
        known = modes.setdefault(resolved, FsEntry(mode, path, resolved))
        if known.mode != mode:
            raise refuse(key, f"{shown(path)} is both ro and rw")
    return tuple(modes.values())


def _below_root(key: str, value: object, project_root: str) -> tuple[str, str]:
    """The path as `./a/b` and as an absolute path; one that climbs above the root at any point is refused."""
    try:
        path = text(value)
    except CommandRefused as refused:
        raise refuse(key, refused.message) from None
    if path.startswith("/"):
        raise refuse(key, f"{shown(path)} must be relative to the project root")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise refuse(key, f"{shown(path)} leaves the project root")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join((".", *parts)), "/".join((project_root.rstrip("/"), *parts)) or "/"


def _net_allow(entries: list[Any]) -> tuple[str, ...]:
    allowed: dict[str, None] = {}
    for index, value in enumerate(entries):
        try:
            allowed[entry(value)] = None
        except CommandRefused as refused:
            raise refuse(f"cage.net.allow[{index}]", refused.message) from None
    return tuple(allowed)


# (key of the block, option of Policy whose bounds hold, coercion)
_LIMITS: tuple[tuple[str, str, Callable[[Option, Any], Any]], ...] = (
    ("memory_mb", "memory_mb", whole_number),
    ("cpu_shares", "cpu_shares", whole_number),
    ("pids", "max_pids", whole_number),
    ("walltime_sec", "walltime_sec", number),
)


def _limits(table: Mapping[str, Any]) -> Limits:
    values = {}
    for name, option, coerce in _LIMITS:
        try:
            values[name] = coerce(_OPTIONS[option], table[name])
        except CommandRefused as refused:
            raise refuse(f"cage.limits.{name}", refused.message) from None
    return Limits(**values)


def one_of(key: str, value: object, choices: tuple[Choice, ...]) -> Choice:
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    raise refuse(key, f"must be {' or '.join(map(repr, choices))}, not {shown(value)}")


def _list(key: str, value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise refuse(key, f"must be a list, not {shown(value)}")
    return list(value)


def _mapping(key: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise refuse(key, f"must be a table, not {shown(value)}")
    return value


def _exactly(key: str, value: object, keys: tuple[str, ...]) -> Mapping[str, Any]:
    table = _mapping(key, value)
    for each in table:
        if each not in keys:
            raise refuse(key, f"has no key {shown(each)}, only {', '.join(keys)}")
    for each in keys:
        if each not in table:
            raise refuse(key, f"lacks the key {each!r}")
    return table
