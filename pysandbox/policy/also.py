"""What a policy is to have besides, as a text for each place where people write one: at the end of any TOML file, on a
command line, in Python.

    [[also]]                                  pysandbox run --allow-execve /usr/bin/git ...
    process.allow_execve = ["/usr/bin/git"]   policy.merge(Policy(allow_execve=["/usr/bin/git"]))

A table `[[also]]` has the keys of a recipe and is merged after the file that it stands in, as a recipe that was asked
for after it would be. So it may stand below any other table, and more than once (ADR 18). `as_toml` writes one,
`layer_of` reads one text back, and `as_flag` and `as_python` say what it says. A text may be long and must not lie, so
each value goes through the renderer of recipes, or Python's own. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pysandbox.errors import PolicyError
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import coerced, options
from pysandbox.policy.option import Grant, Option
from pysandbox.policy.refusal import shown
from pysandbox.policy.render import literal
from pysandbox.shapes import Any

HEADER = "[[also]]"
ADDITIVE = ("union", "or", "blocks", "named")  # merged into what is there already, by `Policy.merge` as by TOML


def as_toml(given: Mapping[str, Any]) -> str:
    """A table `[[also]]` with these fields of Policy; "" where TOML cannot hold a value (it is not UTF-8)."""
    layer = coerced(given)
    try:
        lines = [f"{said.toml_key} = {_literal(layer[name])}" for name, said in _declared(layer)]
    except PolicyError:
        return ""
    return "\n".join([HEADER, *lines])


def layer_of(text: str) -> Mapping[str, Any]:
    """The fields that such a text gives. Raises PolicyError for anything that is more, or less, than one table."""
    from pysandbox.policy.sources import parse_recipe

    head, _, rest = text.partition("\n")
    given = parse_recipe(text).given if head == HEADER and rest else {}
    if not given or len(text.splitlines()) != 1 + len(given):
        raise PolicyError(f"{shown(text)} is not one table {HEADER}", suggestion="give what a refusal was told with")
    return given


def as_flag(text: str) -> str:
    """`--allow-ip 192.0.2.1:443/tcp`, quoted for a shell; "" for what no flag can say."""
    try:
        layer = layer_of(text)
        return " ".join(_flag(said, layer[name]) for name, said in _declared(layer))
    except (PolicyError, _NoFlag):
        return ""


def as_python(text: str) -> str:
    """An expression for the policy that allows it, of `policy`, the one that refused; "" where there is none."""
    try:
        layer = layer_of(text)
    except PolicyError:
        return ""
    said = ", ".join(f"{name}={_python(layer[name])}" for name, _ in _declared(layer))
    if all(described.merge in ADDITIVE for _, described in _declared(layer)):
        return f"policy.merge(Policy({said}))"
    return f"dataclasses.replace(policy, {said})"


def _declared(layer: Mapping[str, Any]) -> list[tuple[str, Option]]:
    return [(field.name, described) for field, described in options() if field.name in layer]


# ---- one value ---------------------------------------------------------------------------------------------------


def _literal(value: Any) -> str:
    if isinstance(value, tuple) and value and _is_block(value[0]):
        return f"[{', '.join(_table(rule) for rule in value)}]"
    if isinstance(value, tuple) and not (value and isinstance(value[0], tuple)):
        return f"[{', '.join(literal(each) for each in value)}]"
    return literal(value)


def _is_block(value: Any) -> bool:
    """Whether it is a table of its own: a host, a secret, a detector, whose file is loaded for one alone."""
    return hasattr(value, "given")


def _table(rule: Any) -> str:
    columns = (f"{name} = {_literal(value)}" for name, value in rule.given.items())
    return f"{{ {', '.join(columns)} }}"


class _NoFlag(Exception):
    """A value that no flag can say."""


def _flag(described: Option, value: Any) -> str:
    if not described.flag:
        raise _NoFlag
    if value is True:
        return described.flag
    values = value if isinstance(value, tuple) else (value,)
    return " ".join(_argument(described.flag, text) for each in values for text in _texts(each))


def _texts(value: Any) -> list[str]:
    if isinstance(value, HostRule):
        return _host_texts(value)
    if isinstance(value, Grant):
        if value != Grant(value.path) or value.path[:1] not in ("/", "~", "$"):
            raise _NoFlag
        return [value.path]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _NoFlag
    return [str(value)]


def _host_texts(rule: HostRule) -> list[str]:
    """NAME, or NAME:PORT for each port."""
    if not set(rule.given) <= {"domain", "ports"}:
        raise _NoFlag
    return [f"{rule.domain}:{port}" for port in rule.ports] or [rule.domain]


def _argument(flag: str, text: str) -> str:
    quoted = shlex.quote(text)
    return f"{flag}={quoted}" if text.startswith("-") else f"{flag} {quoted}"


def _python(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_python, value))}]"
    if isinstance(value, Grant):
        return ascii(value.path) if value == Grant(value.path) else ascii({"path": value.path, "optional": True})
    if isinstance(value, HostRule):
        columns = (f"{name!r}: {_python(each)}" for name, each in value.given.items())
        return ascii(value.domain) if set(value.given) == {"domain"} else f"{{{', '.join(columns)}}}"
    if _is_block(value):
        return f"{{{', '.join(f'{name!r}: {_python(each)}' for name, each in value.given.items())}}}"
    return ascii(value)
