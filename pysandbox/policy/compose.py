"""From names of recipes to one Policy: which files count, in which order, and whether they may.

    base            the system directories; a base.toml of a directory of recipes takes the place of the shipped one
    detected        recipes that the command's program calls for, by where it lies
    asked           the names and files that were asked for, left to right
    manifest|flags  the caller's own last word (`extra`)

`resolve` reads top to bottom: gather the layers (`search.py`), compose them, and refuse what a project brings along
that grants more than would be granted without it, unless its owner has looked at it (`trust.py`). The baseline of
system calls (default.toml) is found the same way and is no layer. `compose` and `loosened_by` are pure.

What a manifest asks for is not judged here: `review.py` does, and there nothing counts that was not looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pysandbox.errors import PolicyError
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS, Policy, coerced, options
from pysandbox.policy.option import Grant
from pysandbox.policy.recipe import Recipe, completed, with_base

if TYPE_CHECKING:
    from pysandbox.policy.search import Search

_QUOTED = r"'([^']+)'|\"([^\"]+)\""  # what a message quotes
Why = Literal["base", "detected", "asked", "manifest", "flags"]

# All that the place of a program brings, whatever its recipe says besides: that it can be seen, with the settings it
# needs to run. Never permission to execute or to write, a network, or less of a cage; and no limit either (RCP-20).
BY_DETECTION = frozenset(("allow", "deny", "mask", "env", "env_passthrough", "address_space_gb"))

GRANTS = frozenset(("allow", "allow_write", "unix_sockets"))  # of paths; a denial that cannot be made is an error


@dataclass(frozen=True, slots=True)
class Layer:
    """One recipe that counted. `path` is "" for what came from no file, and for the shipped base. `digest` is the
    SHA-256 of the bytes that were read; `place` is the name that a file which a project brings along is trusted by, ""
    for what is the user's, the system's or ours. `shared`: found by its name among those, so written for many hosts."""

    name: str
    path: str
    why: Why
    recipe: Recipe = field(default_factory=lambda: Recipe({}), repr=False, compare=False)
    text: str = field(default="", repr=False, compare=False)
    digest: str = ""
    place: str = ""
    shared: bool = False

    @property
    def given(self) -> Mapping[str, Any]:
        """What it adds to the policy. What a shared one grants may be missing on this host (T50)."""
        given = self.recipe.given
        if self.shared:
            given = {name: _optional(value) if name in GRANTS else value for name, value in given.items()}
        if self.why != "detected":
            return given
        return {name: value for name, value in given.items() if name in BY_DETECTION}


def _optional(grants: tuple[Grant, ...]) -> tuple[Grant, ...]:
    return tuple(replace(grant, optional=True) for grant in grants)


@dataclass(slots=True)
class Looked:
    """What a policy came from, so that somebody who keeps what was made of it can tell when it may be another.

    `paths`: files that were read, directories that were searched, names that were not there. `variables` of the
    environment. `programs`: where the command's program was looked for, and where the one that was found really lies.
    """

    paths: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    programs: dict[str, str | None] = field(default_factory=dict)
    size: int = 0  # of all that was read


@dataclass(frozen=True, slots=True)
class Resolved:
    """`baseline` is the default.toml in use, None for the shipped profile."""

    policy: Policy
    layers: tuple[Layer, ...]
    baseline: Layer | None = None
    looked: Looked = field(default_factory=Looked, repr=False, compare=False)

    @property
    def brought(self) -> tuple[Layer, ...]:
        """Those that a project brings along."""
        layers = (*self.layers, *((self.baseline,) if self.baseline else ()))
        return tuple(layer for layer in layers if layer.place)


def resolve(
    names: Sequence[str],
    *,
    command: Sequence[str] | None = None,
    cwd: str | None = None,
    extra: Policy | Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Resolved:
    """The policy that these recipes make for a command in a working directory. Executes nothing.

    `extra` is laid over everything: a Policy, of which only what differs from the defaults is said, or a mapping that
    says all it holds (so a flag may say "none"). `defaults` lie under everything. Raises PolicyError.
    """
    from pysandbox.policy.search import Search

    search = Search.here(cwd or os.getcwd(), os.environ)
    last = _last_word(extra, "flags")
    resolved = _resolved(search, names, command, last, defaults or {})
    unpinned = _unpinned(resolved)
    if unpinned:
        without = _resolved(search.without(unpinned), names, command, last, defaults or {})
        _demand_no_wider(without.policy, resolved.policy, unpinned[0])
    return resolved


def resolve_for_review(
    names: Sequence[str], *, command: Sequence[str], cwd: str, extra: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[Resolved, Policy]:
    """What a manifest asks for, not judged, and what its command would run under if it asked for nothing. For
    `review.py` alone, which judges."""
    from pysandbox.policy.search import Search

    search = Search.here(cwd, os.environ, stranger=True)
    resolved = _resolved(search, names, command, _last_word(extra, "manifest"), defaults)
    without = _resolved(search.without(resolved.brought), (), command, _last_word({}, "manifest"), defaults)
    return resolved, without.policy


def _last_word(extra: Policy | Mapping[str, Any] | None, why: Why) -> Layer:
    return Layer(why, "", why, Recipe(extra.given if isinstance(extra, Policy) else coerced(extra or {})))


def _resolved(
    search: Search, names: Sequence[str], command: Sequence[str] | None, last: Layer, defaults: Mapping[str, Any]
) -> Resolved:
    base = search.override("base")
    baseline = search.override("default")
    detected = list(search.detected(command))
    layers = [*detected, *search.asked(names), *([last] if last.recipe.given else [])]
    policy = compose(layers, base=base, baseline=baseline, defaults=defaults)
    if detected and command:
        from pysandbox.policy.found_by_name import with_path

        policy = with_path(policy, search, command[0])
    return Resolved(
        policy,
        (base or Layer("base", "", "base"), *layers),
        baseline,
        search.looked,
    )


def compose(
    layers: Sequence[Layer],
    *,
    base: Layer | None = None,
    baseline: Layer | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Policy:
    """The layers merged left to right. An error says in which file, and on which line, the fault was written."""
    given: dict[str, Any] = dict(defaults or {})
    for layer in layers:
        given = merge_layers(MERGE_WORDS, given, layer.given)
    if base is not None and given.get("base", True):
        given = {**merge_layers(MERGE_WORDS, base.given, given), "base": False}  # it stands for the shipped one
    if baseline is not None:
        given = {**baseline.given, **given}
    try:
        return Policy(**completed(given))
    except PolicyError as error:
        raise located(error, layers) from None


def located(error: PolicyError, layers: Sequence[Layer]) -> PolicyError:
    from pysandbox.policy.toml_lines import line_of

    if error.file is not None:
        return error
    named = [word for pair in re.findall(_QUOTED, error.message) for word in pair if word]
    first = [layer for layer in layers if any(word in layer.text for word in named)]  # what the message is about
    for layer in (*reversed(first), *reversed(layers)):
        line = line_of(layer.text, tuple((error.key or "").split("."))) if layer.text else None
        if line is not None:
            return PolicyError(error.message, file=layer.path, line=line, key=error.key, suggestion=error.suggestion)
    return error


def loosened_by(before: Policy, after: Policy) -> tuple[str, ...]:
    """The TOML keys in which `after` grants more than `before`, in the order that `narrow` knows."""
    from pysandbox.policy.narrow import TIGHTER

    return tuple(
        described.toml_key
        for each, described in options()
        if getattr(before, each.name) != getattr(after, each.name)
        and not TIGHTER[each.name](getattr(before, each.name), getattr(after, each.name), before)
    )


# ---- what a project brings along (T59) ---------------------------------------------------------------------------


def _unpinned(resolved: Resolved) -> list[Layer]:
    brought = resolved.brought
    if not brought:
        return []
    from pysandbox.policy.trust import pins, trust_file

    resolved.looked.paths.add(trust_file())
    resolved.looked.variables.add("XDG_STATE_HOME")
    known = pins()
    return [layer for layer in brought if known.get(layer.place) != layer.digest]


def _demand_no_wider(without: Policy, policy: Policy, layer: Layer) -> None:
    import shlex

    keys = loosened_by(with_base(without), with_base(policy))
    if not keys:
        return
    from pysandbox.policy.trust import pins

    changed = layer.place in pins()
    state = "has changed since you trusted it" if changed else "comes with the project, and you have not trusted it"
    raise PolicyError(
        f"{state}; it grants more than there would be without it ({', '.join(keys)})",
        file=layer.path,
        suggestion=f"read it, then run: pysandbox recipe trust {shlex.quote(layer.path)}",
    )


def shielded(resolved: Resolved, cwd: str) -> Policy:
    """The policy, with the recipes it was made of masked where the cage could otherwise rewrite them.

    For files that were asked for by path: `.pysandbox` and pysandbox.toml are guarded in every cage. Only with mounts;
    without them nothing inside a granted tree can be covered.
    """
    from pysandbox.policy.expand import quote

    policy = resolved.policy
    files = [os.path.join(cwd, layer.path) for layer in resolved.layers if layer.path and layer.why == "asked"]
    mine = [each for each in files if each.startswith(f"{cwd.rstrip('/')}/")]
    if not mine or policy.isolation != "full" or policy.workdir != "write":
        return policy
    return replace(policy, mask=(*policy.mask, *(Grant(quote(each), optional=True) for each in mine)))
