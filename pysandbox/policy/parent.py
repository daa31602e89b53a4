"""The proxy that a network asks everybody to use, as a policy names it: `[proxy] parent`, and where its password is.

A policy holds no password: what is in it is shown, kept and told. So an address with one in it is refused, without
being repeated, and `parent_credentials` says which variable of the host program has it. Pure.
"""

from __future__ import annotations

import re

from pysandbox.policy.names import BadName, canonical
from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.shapes import dataclass

SCHEME = "http://"
EXAMPLE = 'write such as "http://proxy.example:3128"'
ENV = "env:"


@dataclass(frozen=True, slots=True)
class ParentProxy:
    """The proxy that named hosts are asked of."""

    host: str  # a canonical name, or an address
    port: int
    variable: str  # of the host program, with USER:PASSWORD; "" is none
    without: tuple[str, ...]  # names and patterns that are reached without it


def parent_proxy(said: str) -> str:
    """The one spelling of it. Raises CommandRefused."""
    if "@" in said:
        raise CommandRefused(
            "an address with a user in it: a policy holds no password",
            'leave that out, put USER:PASSWORD into a variable, and write parent_credentials = "env:NAME"',
        )
    if not said.lower().startswith(SCHEME):
        raise CommandRefused(f"{shown(said)} is no proxy that is spoken to in plain HTTP", EXAMPLE)
    host, port = _apart(said[len(SCHEME) :].removesuffix("/"))
    if not re.fullmatch("[1-9][0-9]{0,4}", port) or int(port) > 65535:
        raise CommandRefused(f"{shown(said)} names no port", EXAMPLE)
    try:
        name = str(canonical(host))
    except BadName as error:
        raise CommandRefused(f"not a proxy: {error}", EXAMPLE) from None
    return f"{SCHEME}[{name}]:{port}" if ":" in name else f"{SCHEME}{name}:{port}"


def place_of(parent: str) -> tuple[str, int]:
    """Host and port of what `parent_proxy` returned."""
    host, port = _apart(parent.removeprefix(SCHEME))
    return host.strip("[]"), int(port)


def parent_credentials(said: str) -> str:
    """Raises CommandRefused, without repeating what may be a password."""
    if not re.fullmatch(f"{ENV}[A-Za-z_][A-Za-z0-9_]*", said):
        raise CommandRefused("not the name of a variable: a policy holds no password", 'write "env:NAME"')
    return said


def _apart(said: str) -> tuple[str, str]:
    host, _, port = said.rpartition(":")
    return host, port
