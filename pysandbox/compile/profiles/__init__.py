"""The shipped system-call profiles, as data: names in groups, each group with its reason.

    tiers      what holds in every profile, and what is off until it is asked for by name
    arguments  the rules on register arguments that hold in every profile
    seed_187   document 001's baseline, name for name
    baseline   the default: seed_187 and what common programs need beyond it
    default    document 000: allows what it does not list
    relaxed    document 000: refuses only what no cage may do

No code here decides about a call; `compile.seccomp` does. To add a profile: a file here with a PROFILE, a row in
SHIPPED, the choice in policy.model, and one in seccomp.TWO_MODES if it can be used in both modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType

from pysandbox.compile.bpf import Decision
from pysandbox.shapes import NamedTuple

SHIPPED = ("baseline", "seed-187", "default", "relaxed")


class CallGroup(NamedTuple):
    reason: str
    names: tuple[str, ...]


class Profile(NamedTuple):
    """`modes`: the seccomp modes it can be used in; the first is meant when a policy names one it cannot.

    allow-list: what `allow` does not name is refused. deny-list: what `deny` and the tiers do not name is allowed.
    `opens`: names of a closed tier that this profile leaves open. `kill`: refused by SIGSYS even when not strict.
    `limited`: allowed as far as the decision says; a policy that names such a call in allow_extra lifts the limit.
    """

    name: str
    summary: str
    modes: tuple[str, ...]
    allow: tuple[CallGroup, ...] = ()
    deny: tuple[CallGroup, ...] = ()
    kill: tuple[CallGroup, ...] = ()
    opens: tuple[CallGroup, ...] = ()
    limited: Mapping[str, Decision] = MappingProxyType({})


def group(reason: str, names: str) -> CallGroup:
    return CallGroup(reason, tuple(names.split()))


def names_of(groups: Iterable[CallGroup]) -> tuple[str, ...]:
    """Every name of the groups, in order, once."""
    return tuple(dict.fromkeys(name for each in groups for name in each.names))


def profile(name: str) -> Profile:
    """A shipped profile by its name in a policy."""
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    found: Profile = module.PROFILE
    return found
