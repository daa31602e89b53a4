"""From names of recipes to one policy: which files count, in which order, and whether they may.

    base            the system directories; a base.toml of a directory of recipes takes the place of the shipped one
    detected        recipes that the command's program calls for, by where it lies
    asked           the names and files that were asked for, left to right
    manifest|flags  the caller's own last word (`extra`)

`resolve` reads top to bottom: gather the layers (`search.py`), compose them, and refuse what a project brings along
that grants more than would be granted without it, unless its owner has looked at it (`trust.py`). The baseline of
system calls (default.toml) is found the same way and is no layer. `compose` and `loosened_by` are pure.

`kind` is the class of the policy that is made: `compose` is this file for a Policy. What a manifest asks for is not
judged here: `review.py` does, and there nothing counts that was not looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from pysandbox.errors import PolicyError
from pysandbox.policy.fields import MERGE_WORDS, P, PolicyFields, coerced, options
from pysandbox.policy.layers import Dependencies, Layer, Why
from pysandbox.policy.left_out import Holding, held
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.narrow import TIGHTER
from pysandbox.policy.option import Grant
from pysandbox.policy.recipe import PACKAGED, Recipe, completed, with_base
from pysandbox.shapes import TYPE_CHECKING, Any, Generic, dataclass, field, replace

if TYPE_CHECKING:
    from pysandbox.policy.search import Search

_QUOTED = r"'([^']+)'|\"([^\"]+)\""  # what a message quotes


@dataclass(frozen=True, slots=True)
class Resolved(Generic[P]):
    """`baseline` is the default.toml in use, None for the shipped profile."""

    policy: P
    layers: tuple[Layer, ...]
    baseline: Layer | None = None
    looked: Dependencies = field(default_factory=Dependencies, repr=False, compare=False)
    because: str = ""  # what the command's own Python has added, and why

    @property
    def brought(self) -> tuple[Layer, ...]:
        """The layers that a project brings along."""
        layers = (*self.layers, *((self.baseline,) if self.baseline else ()))
        return tuple(layer for layer in layers if layer.place)


def resolve(
    kind: type[P],
    names: Sequence[str],
    *,
    command: Sequence[str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    extra: PolicyFields | Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Resolved[P]:
    """The policy that these recipes make for a command in a working directory. Executes nothing.

    `extra` is laid over everything: a Policy, of which only what differs from the defaults is said, or a mapping that
    says all it holds (so a flag may say "none"). `defaults` lie under everything. Raises PolicyError.
    """
    from pysandbox.policy.search import Search

    search = Search.here(os.path.abspath(cwd) if cwd is not None else os.getcwd(), os.environ)
    last = _last_word(extra, "flags")
    resolved = _resolved(kind, search, names, command, last, defaults or {})
    unpinned = _unpinned(resolved)
    if unpinned:
        without = _resolved(kind, search.without(unpinned), names, command, last, defaults or {})
        _check_no_wider(without.policy, resolved.policy, unpinned[0])
    return resolved


def resolve_for_review(
    kind: type[P], names: Sequence[str], *, command: Sequence[str], cwd: str, extra: Mapping[str, Any],
    defaults: Mapping[str, Any],
) -> tuple[Resolved[P], P]:  # fmt: skip
    """What a manifest asks for, not judged, and what its command would run under if it asked for nothing. For
    `review.py` alone, which judges."""
    from pysandbox.policy.search import Search

    search = Search.here(cwd, os.environ, stranger=True)
    resolved = _resolved(kind, search, names, command, _last_word(extra, "manifest"), defaults)
    without = _resolved(kind, search.without(resolved.brought), (), command, _last_word({}, "manifest"), defaults)
    return resolved, without.policy


def _last_word(extra: PolicyFields | Mapping[str, Any] | None, why: Why) -> Layer:
    return Layer(why, "", why, Recipe(extra.explicit if isinstance(extra, PolicyFields) else coerced(extra or {})))


def _resolved(
    kind: type[P], search: Search, names: Sequence[str], command: Sequence[str] | None, last: Layer,
    defaults: Mapping[str, Any],
) -> Resolved[P]:  # fmt: skip
    base = search.override("base")
    baseline = search.override("default")
    detected = list(search.detected(command))
    layers = without_unheld([*detected, *search.asked(names), *([last] if last.recipe.given else [])], defaults)
    policy, because = compose(kind, layers, base=base, baseline=baseline, defaults=defaults), ""
    if command:
        from pysandbox.policy.found_by_name import for_command
        from pysandbox.policy.user_home import home

        policy, toolchain = for_command(policy, search, command[0], home=home())
        because = toolchain.because if toolchain is not None else ""
    return Resolved(policy, (base or Layer("base", "", "base"), *layers), baseline, search.looked, because)


def without_unheld(layers: Sequence[Layer], defaults: Mapping[str, Any] | None = None) -> list[Layer]:
    """The layers, the recipes that ship without what is not held of them (`left_out.py`)."""
    ours = [layer for layer in layers if layer.why == "asked" and layer.path.startswith(f"{PACKAGED}/")]
    holding = Holding.of([defaults or {}, *(each.given for each in layers)], [each.recipe.given for each in ours])

    def of(layer: Layer) -> Layer:
        return replace(layer, recipe=replace(layer.recipe, given=held(layer.recipe.given, holding)))

    return [of(layer) if layer in ours else layer for layer in layers]


def compose(
    kind: type[P],
    layers: Sequence[Layer],
    *,
    base: Layer | None = None,
    baseline: Layer | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> P:
    """The layers merged left to right. An error says in which file, and on which line, the fault was written."""
    given: dict[str, Any] = dict(defaults or {})
    for layer in layers:
        given = merge_layers(MERGE_WORDS, given, layer.given)
    if base is not None and given.get("base", True):
        given = {**merge_layers(MERGE_WORDS, base.given, given), "base": False}  # it stands for the shipped one
    if baseline is not None:
        given = {**baseline.given, **given}
    try:
        return kind(**completed(given))
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


def loosened_by(before: PolicyFields, after: PolicyFields) -> tuple[str, ...]:
    """The TOML keys in which `after` grants more than `before`, in the order that `narrow` knows."""
    return tuple(
        described.toml_key
        for each, described in options()
        if getattr(before, each.name) != getattr(after, each.name)
        and not TIGHTER[each.name](getattr(before, each.name), getattr(after, each.name), before)
    )


# ---- what a project brings along (T59) ---------------------------------------------------------------------------


def _unpinned(resolved: Resolved[P]) -> list[Layer]:
    brought = resolved.brought
    if not brought:
        return []
    from pysandbox.policy.trust import pins, trust_file

    resolved.looked.paths.add(trust_file())
    resolved.looked.variables.add("XDG_STATE_HOME")
    known = pins()
    return [layer for layer in brought if known.get(layer.place) != layer.digest]


def _check_no_wider(without: PolicyFields, policy: PolicyFields, layer: Layer) -> None:
    import shlex

    keys = loosened_by(with_base(without), with_base(policy))
    if not keys:
        return
    from pysandbox.policy.trust import pins

    changed = layer.place in pins()
    whose = "belongs to another user" if layer.foreign else "comes with the project"
    state = "has changed since you trusted it" if changed else f"{whose}, and you have not trusted it"
    raise PolicyError(
        f"{state}; it grants more than there would be without it ({', '.join(keys)})",
        file=layer.path,
        suggestion=f"read it, then run: pysandbox recipe trust {shlex.quote(layer.path)}",
    )


def shielded(resolved: Resolved[P], cwd: str) -> P:
    """The policy, with the recipes it was made of masked where the cage could otherwise rewrite them.

    For files that were asked for by path: `.pysandbox` and pysandbox.toml are guarded in every cage. Only with mounts;
    without them nothing inside a granted tree can be covered.
    """
    from pysandbox.policy.expand import quote
    from pysandbox.policy.patterns import escape

    policy = resolved.policy
    files = [os.path.join(cwd, layer.path) for layer in resolved.layers if layer.path and layer.why == "asked"]
    mine = [each for each in files if each.startswith(f"{cwd.rstrip('/')}/")]
    if not mine or policy.isolation != "full" or policy.workdir not in ("write", "cow"):
        return policy
    masked = (*policy.mask, *(Grant(quote(escape(each)), optional=True) for each in mine))
    changed: P = replace(policy, mask=masked)
    return changed
