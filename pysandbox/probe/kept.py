"""The directories that pysandbox keeps for itself, named once for those who keep cages out of them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pysandbox.policy.places import NAMED, own_places
from pysandbox.policy.user_home import home
from pysandbox.probe.facts import ProtectedDirectory
from pysandbox.probe.state import apps_directory, audit_directory, own_home


def own_directories() -> tuple[str, ...]:
    """The real paths of all that is ours, whether it exists yet or not."""
    return tuple(dict.fromkeys(map(os.path.realpath, own_names())))


def own_names() -> tuple[str, ...]:
    """By which names they are reached, in the environment as it is now."""
    return (*_places(), audit_directory(), apps_directory())


def protected_directories(*, audit: Iterable[str], registry: Iterable[str]) -> tuple[ProtectedDirectory, ...]:
    """Every directory that no cage reaches, by the environment as it is now. A trail that does not exist yet is left
    out: it is another look's."""
    apps = os.path.realpath(apps_directory())  # absent, it lies in a directory that is guarded below
    trails = dict.fromkeys(os.path.realpath(each) for each in (*audit, audit_directory()))
    return (
        *(ProtectedDirectory(each, "the audit trail", closed=True) for each in trails if os.path.isdir(each)),
        *(ProtectedDirectory(each, "the installed apps", closed=True) for each in (apps,) if os.path.isdir(each)),
        *(ProtectedDirectory(each, "the registry of cages", closed=True) for each in registry),
        *(ProtectedDirectory(each, "what you trust, and your recipes", closed=False)
          for each in _places()),
    )  # fmt: skip


def _places() -> tuple[str, ...]:
    """By the environment, and by root's own home where it was given another's."""
    named = {name: value for name in NAMED if (value := os.environ.get(name)) is not None}  # not all of it: it is large
    given = {"HOME": home(), **named}
    return tuple(dict.fromkeys((*own_places(given), *own_places({**given, "HOME": own_home()}))))
