"""Markup that cannot be forged: text is escaped because it is text, and only what `el` made is markup.

Names, arguments and hosts in a run are chosen by the program that was caged. They also lose what would lie to the eye:
a control, a half of a surrogate pair, a character that turns the direction of writing is shown by its number.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is markup already. Made by `el` and `page` alone."""

    __slots__ = ()


Child = str | Iterable["Markup"] | None
VOID = frozenset({"meta", "br", "rect", "line", "circle", "path"})


def visible(text: str) -> str:
    return "".join(each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in text)


def shortened(text: str, length: int) -> str:
    """At most `length` characters: the beginning and the end, which tell paths apart."""
    shown = visible(text)
    if len(shown) <= length:
        return shown
    half = (length - 1) // 2
    return f"{shown[: length - 1 - half]}…{shown[-half:]}"


def el(name: str, /, *children: Child, **attributes: object) -> Markup:
    """One element. A trailing underscore of an attribute's name falls away, other underscores are dashes."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(visible(_value(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID and not children:
        return Markup(f"<{name}{named}/>")
    return Markup(f"<{name}{named}>{''.join(map(_child, children))}</{name}>")


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(visible(child))
    return "".join(child)
