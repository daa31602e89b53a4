"""A Policy as TOML: a recipe that reads back equal. Only what differs from the defaults is written, except for the
three options whose value nobody should have to look up: strict, egress and the mode of the filter. The blocks of the
hosts, of the secrets and of the detectors come last."""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.policy.fields import PolicyFields, options
from pysandbox.policy.host import HostRule
from pysandbox.policy.option import Grant
from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.policy.secret import Secret
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox.policy.own_detector import OwnDetector

BLOCKS = {"hosts": "host", "secrets": "secret", "dlp_detectors": "network.dlp.detector"}
_ALWAYS = frozenset({"strict", "egress", "seccomp_mode"})
_ESCAPES = {code: f"\\u{code:04X}" for code in (*range(0x20), 0x7F)} | {ord('"'): '\\"', ord("\\"): "\\\\"}


def to_toml(policy: PolicyFields) -> str:
    """PolicyError for the one thing TOML cannot hold: a file name that is not UTF-8."""
    sections: dict[str, list[str]] = {"": []}  # the keys of no section come first, or they would belong to one
    for field, described in options():
        value = getattr(policy, field.name)
        if field.name in BLOCKS or (value == field.default and field.name not in _ALWAYS):
            continue
        try:
            line = f"{described.key} = {_value(value)}"
        except CommandRefused as refused:
            raise refused.error(described.toml_key) from None
        sections.setdefault(described.section, []).append(line)
    written = [_section(name, lines) for name, lines in sections.items() if lines]
    blocks = (_block(key, rule) for name, key in BLOCKS.items() for rule in getattr(policy, name))
    return "\n\n".join([*written, *blocks]) + "\n"


def _block(key: str, rule: HostRule | Secret | OwnDetector) -> str:
    return "\n".join([f"[[{key}]]", *(f"{name} = {_value(each)}" for name, each in rule.given.items())])


def literal(value: Any) -> str:
    """One value as TOML, a short list on one line. PolicyError as above, without a key."""
    try:
        if isinstance(value, tuple) and len(value) == 1 and not isinstance(value[0], tuple):
            return f"[{_value(value[0])}]"
        return _value(value)
    except CommandRefused as refused:
        raise refused.error("") from None


def _section(name: str, lines: list[str]) -> str:
    return "\n".join([f"[{name}]", *lines] if name else lines)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Grant):
        return _grant(value)
    if not isinstance(value, tuple):
        return repr(value)
    if value and isinstance(value[0], tuple):
        return f"{{ {', '.join(f'{_string(name)} = {_inline(each)}' for name, each in value)} }}"
    return _array(_value(each) for each in value)


def _inline(value: Any) -> str:
    """A value inside an inline table, which TOML wants on one line up to the bracket of an array."""
    return _string(value) if isinstance(value, str) else f"[{', '.join(_string(each) for each in value)}]"


def _array(items: Iterator[str]) -> str:
    return "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _grant(grant: Grant) -> str:
    return f"{{ path = {_string(grant.path)}, optional = true }}" if grant.optional else _string(grant.path)


def _string(text: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise CommandRefused(f"{shown(text)} is not UTF-8, and TOML can hold nothing else", "use to_json")
    written = text.translate(_ESCAPES)
    return f'"{written if written.isprintable() else "".join(map(_visible, written))}"'


def _visible(letter: str) -> str:
    """What a reader would not see, or see in another order, by its number."""
    code = ord(letter)
    return letter if letter.isprintable() else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
