"""What a value of a policy may be: one coercion per kind of field. What contradicts another is in `contradictions`.

A coercion takes the declaration and the value and returns the value as the Policy keeps it (lists become tuples,
strings become Grants), or raises `Refused`. Nothing here looks at the host: whether a path exists is for the look to
say, and whether a system call of that name exists is for the filter's compiler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

from pysandbox.policy import netallow
from pysandbox.policy.host import COLUMNS, HostRule, content_type, method, url_path
from pysandbox.policy.merge import blocks, named, scopes, union, union_grants
from pysandbox.policy.option import Grant, Option
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.policy.secret import Secret, secret_name, secret_of, secret_place, secret_source
from pysandbox.shapes import Any, Field, TypeVar

LARGEST = 2**31 - 1  # a count, MiB or GiB up to here fits the kernel's 64-bit fields once it is scaled to bytes
_SYSCALL = r"[a-z_][a-z0-9_]*"
_Number = TypeVar("_Number", int, float)


def boolean(option: Option, value: object) -> bool:
    if value is True or value is False:
        return value
    raise CommandRefused(f"must be true or false, not {shown(value)}")


def whole_number(option: Option, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return _within(option, value)
    raise CommandRefused(f"must be a whole number, not {shown(value)}")


def number(option: Option, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CommandRefused(f"must be a number, not {shown(value)}")
    if isinstance(value, float) and not isfinite(value):
        raise CommandRefused(f"must be finite, not {shown(value)}")
    return float(_within(option, value))


def _within(option: Option, value: _Number) -> _Number:
    least = option.minimum or 0
    most = LARGEST if option.maximum is None else option.maximum
    if value < least:
        raise CommandRefused(f"must be at least {least}{_unit(option)}, not {shown(value)}")
    if value > most:
        meant = "it is a share, from 0 to 1, and no number of bits" if most == 1 else None
        raise CommandRefused(f"must be at most {most}{_unit(option)}, not {shown(value)}", meant)
    return value


def _unit(option: Option) -> str:
    return f" {option.unit}" if option.unit else ""


def choice(option: Option, value: object) -> str:
    """One of the choices; for a string without choices, whatever its grammar takes."""
    if option.item:
        return _GRAMMARS[option.item][1](value)
    if not isinstance(value, str):
        raise CommandRefused(f"must be one of {_listed(option.choices)}, not {shown(value)}")
    if value not in option.choices:
        raise CommandRefused(
            f"must be one of {_listed(option.choices)}, not {shown(value)}", did_you_mean(value, option.choices)
        )
    return value


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def optional(coerce: Callable[[Option, Any], Any]) -> Callable[[Option, Any], Any]:
    def coerce_unless_none(option: Option, value: object) -> Any:
        return None if value is None else coerce(option, value)

    return coerce_unless_none


def text(value: object) -> str:
    """A string that the kernel can be handed: a C string cannot hold NUL, and an empty path names nothing."""
    if not isinstance(value, str):
        raise CommandRefused(f"must be a string, not {shown(value)}")
    if not value:
        raise CommandRefused("must not be empty")
    if "\0" in value:
        raise CommandRefused(f"must not contain a NUL character: {shown(value)}")
    return value


def _items(value: object, what: str) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return value
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str):
        raise CommandRefused(f"must be a list of {what}, not one string", f"write [{shown(value)}]")
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return tuple(value)
    raise CommandRefused(f"must be a list of {what}, not {shown(value)}")


def grants(option: Option, value: object) -> tuple[Grant, ...]:
    return union_grants(_each(_grant, _items(value, "paths")))


def _grant(value: object) -> Grant:
    if type(value) is Grant:
        text(value.path)
        if not isinstance(value.optional, bool):
            raise CommandRefused(f"optional must be true or false, not {shown(value.optional)}")
        return value
    if isinstance(value, Mapping):
        return _grant_of_table(value)
    path = getattr(value, "__fspath__", None)  # pathlib, without importing os
    return Grant(text(path() if callable(path) else value))


def _grant_of_table(table: Mapping[Any, Any]) -> Grant:
    for key in table:
        if key not in ("path", "optional"):
            raise CommandRefused(
                f"{shown(key)} is not part of a path", did_you_mean(str(key), ("path", "optional")), (key,)
            )
    if "path" not in table:
        raise CommandRefused("a table that stands for a path needs the key path", 'write { path = "/some/path" }')
    return _grant(Grant(table["path"], table.get("optional", False)))


def strings(option: Option, value: object) -> tuple[str, ...]:
    what, grammar = _GRAMMARS[option.item]
    return union((), _each(grammar, _items(value, what)))


def _each(coerce: Callable[[Any], Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
    coerced = []
    for index, value in enumerate(values):
        try:
            coerced.append(coerce(value))
        except CommandRefused as refused:
            raise CommandRefused(refused.message, refused.suggestion, (index, *refused.at)) from None
    return tuple(coerced)


def _variable(value: object) -> str:
    name = text(value)
    if "=" in name:
        raise CommandRefused(f"{shown(name)} is not the name of a variable", "to set a variable, use env")
    return name


def _certificates(value: object) -> str:
    path = text(value)
    if not path.startswith("/"):
        raise CommandRefused(f"{shown(path)} is not an absolute path", "write the whole path of the file")
    return path


def _executable(value: object) -> str:
    path = text(value)
    if "/" not in path and path[0] not in "$~":
        raise CommandRefused(f"{shown(path)} is not a path", f'write where it is, such as "/usr/bin/{path}"')
    if "*" in path.removesuffix("/*"):
        raise CommandRefused(
            f"{shown(path)}: a star stands only at the end, after a slash", 'write "/dir/*" for a tree'
        )
    return path


def _endpoint(value: object) -> str:
    from pysandbox.policy.endpoint import parse_endpoint

    written = text(value)
    parse_endpoint(written)
    return written


def _private_address(value: object) -> str:
    from pysandbox.policy.private_networks import private_address

    return private_address(text(value))


def _syscall(value: object) -> str:
    name = text(value)
    if not re.fullmatch(_SYSCALL, name):
        raise CommandRefused(f"{shown(name)} is not the name of a system call")
    return name


def _detector(value: object) -> str:
    from pysandbox.policy.detector_names import listable

    return listable(text(value))


def _pack(value: object) -> str:
    from pysandbox.policy.detector_names import pack

    return pack(text(value))


def _interface(value: object) -> str:
    name = text(value)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", name):
        raise CommandRefused(f"{shown(name)} is not the name of a network interface", "at most 15 of a-z, 0-9, _ . -")
    return name


def _guard(value: object) -> str:
    from pysandbox.policy.guarded import WORDS

    name = text(value)
    if name not in WORDS:
        meant = did_you_mean(name, WORDS)
        raise CommandRefused(f"{shown(name)} is not the name of a guard", meant or f"one of {', '.join(WORDS)}")
    return name


def _parent_proxy(value: object) -> str:
    from pysandbox.policy.parent import parent_proxy

    return parent_proxy(text(value))


def _parent_credentials(value: object) -> str:
    from pysandbox.policy.parent import parent_credentials

    return parent_credentials(text(value))


_GRAMMARS: Mapping[str, tuple[str, Callable[[object], str]]] = {
    "port": ("ports", netallow.published),
    "domain": ("domains", netallow.domain),
    "method": ("HTTP methods", lambda value: method(text(value))),
    "content type": ("content types", lambda value: content_type(text(value))),
    "URL path": ("URL paths", lambda value: url_path(text(value))),
    "detector": ("names of detectors", _detector),
    "pack": ("names of packs", _pack),
    "executable": ("paths of executables", _executable),
    "variable": ("names of variables", _variable),
    "syscall": ("names of system calls", _syscall),
    "endpoint": ("addresses", _endpoint),
    "private address": ("addresses", _private_address),
    "interface": ("names of interfaces", _interface),
    "guard": ("names of guards", _guard),
    "certificates": ("files of certificates", _certificates),
    "secret name": ("names of variables", lambda value: secret_name(text(value))),
    "secret source": ("sources", lambda value: secret_source(text(value))),
    "secret place": ("places of a request", lambda value: secret_place(text(value))),
    "parent proxy": ("proxies", _parent_proxy),
    "parent credentials": ("sources", _parent_credentials),
    "text": ("texts", text),
    "": ("strings", text),
}


def environment(option: Option, value: object) -> tuple[tuple[str, str], ...]:
    """A table, or the (name, value) pairs of one, in their order; of two values for one name the later stays."""
    if isinstance(value, Mapping):
        pairs = tuple(value.items())
    elif isinstance(value, tuple | list):
        pairs = tuple(value)
    else:
        raise CommandRefused(f"must be a table of strings, not {shown(value)}")
    return union((), tuple(_pair(index, pair) for index, pair in enumerate(pairs)))


def _pair(index: int, pair: object) -> tuple[str, str]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise CommandRefused(f"must be pairs of a name and a value, not {shown(pair)}", at=(index,))
    name, value = pair
    at = (name if isinstance(name, str) else index,)
    try:
        name = _variable(name)
    except CommandRefused as refused:
        raise CommandRefused(f"name of a variable: {refused.message}", at=at) from None
    if not isinstance(value, str):
        raise CommandRefused(f"the value of {shown(name)} must be a string, not {shown(value)}", at=at)
    if "\0" in value:
        raise CommandRefused(f"the value of {shown(name)} must not contain a NUL character", at=at)
    return name, value


def port_numbers(option: Option, value: object) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_each(_port_number, _items(value, "ports"))))


def _port_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65535:
        raise CommandRefused(f"must be a port, a number from 1 to 65535, not {shown(value)}")
    return value


def host_rules(option: Option, value: object) -> tuple[HostRule, ...]:
    return blocks(_each(_host_rule, _items(value, "tables")))


def _host_rule(value: object) -> HostRule:
    given = value.given if type(value) is HostRule else _host_text(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise CommandRefused(
            f"must be a table, not {shown(value)}", 'write [[host]] and below it domain = "example.com"'
        )
    names = [column.name for column in COLUMNS]
    for key in given:
        if key not in names:
            from pysandbox.policy.other_words import HOST_KEYS, OF_NETWORK_ALONE

            above = f"write {key} in [network], above the first [[host]]" if key in OF_NETWORK_ALONE else None
            meant = above or did_you_mean(HOST_KEYS.get(str(key), str(key)), names)
            raise CommandRefused(f"{shown(key)} is not a key of a host", meant, (key,))
    if "domain" not in given:
        raise CommandRefused("a host needs the key domain", 'write domain = "example.com"')
    return HostRule(**{each.name: _column(each, given[each.name]) for each in COLUMNS if each.name in given})


def secrets(option: Option, value: object) -> tuple[Secret, ...]:
    return named(_each(lambda each: secret_of(each, _column), _items(value, "tables")))


def own_detectors(option: Option, value: object) -> tuple[Any, ...]:
    if not (tables := _items(value, "tables")):
        return ()
    from pysandbox.policy.own_detector import detectors_of

    return detectors_of(tables, _column)


def _host_text(text: str) -> Mapping[str, object]:
    """NAME or NAME:PORT."""
    name, colon, port = text.partition(":")
    if colon and not (port.isascii() and port.isdecimal()):
        meant = text.partition("://")[2].partition("/")[0].rpartition("@")[2] or "example.com or example.com:443"
        raise CommandRefused(f"{shown(text)} is not NAME or NAME:PORT", f"write {meant}")
    return {"domain": name, "ports": [int(port)]} if colon else {"domain": name}


def _column(column: Field[Any], value: object) -> Any:
    try:
        return KINDS[str(column.type)](column.metadata["option"], value)
    except CommandRefused as refused:
        raise CommandRefused(
            f"{column.name}: {refused.message}", refused.suggestion, (column.name, *refused.at)
        ) from None


def lists_by_name(option: Option, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A table of lists, or the (name, list) pairs of one; the names are detectors, or allow and deny."""
    if not isinstance(value, Mapping | tuple | list):
        raise CommandRefused(f"must be a table of lists, not {shown(value)}")
    pairs = value.items() if isinstance(value, Mapping) else (_two(each) for each in value)
    read = []
    for name, items in pairs:
        if option.choices and name not in option.choices:
            known = _listed(option.choices)
            raise CommandRefused(
                f"must be one of {known}, not {shown(name)}", did_you_mean(str(name), option.choices), (name,)
            )
        try:
            read.append((str(name) if option.choices else _detector(name), strings(option, items)))
        except CommandRefused as refused:
            at = (str(name) if isinstance(name, str) else 0, *refused.at)
            raise CommandRefused(refused.message, refused.suggestion, at) from None
    return scopes(read)


def _two(pair: object) -> tuple[Any, Any]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise CommandRefused(f"must be pairs of a name and a list, not {shown(pair)}")
    return pair[0], pair[1]


# Every annotation a field of Policy, or a column of a host, may have, as written there.
KINDS: Mapping[str, Callable[[Option, Any], Any]] = {
    "bool": boolean,
    "bool | None": optional(boolean),
    "int": whole_number,
    "int | None": optional(whole_number),
    "float": number,
    "float | None": optional(number),
    "str": choice,
    "str | None": optional(choice),
    "tuple[Grant, ...]": grants,
    "tuple[str, ...]": strings,
    "tuple[int, ...]": port_numbers,
    "tuple[tuple[str, str], ...]": environment,
    "tuple[tuple[str, tuple[str, ...]], ...]": lists_by_name,
    "tuple[HostRule, ...]": host_rules,
    "tuple[Secret, ...]": secrets,
    "tuple[OwnDetector, ...]": own_detectors,
}
