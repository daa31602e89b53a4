"""`pysandbox recipe`: what recipes there are, what they come to, and which of a project's are trusted.

One function for each word, in the order of ACTIONS; what is printed for people is in `cli.recipe_text`. Nothing here
runs a command: one that is named after `--` is only looked at.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator

from pysandbox.cli import console, recipe_compare, recipe_text
from pysandbox.cli.actions import Action, act, answer, parser_of
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.cli.policy_of import search_here, working_directory
from pysandbox.cli.trusting import ManifestReport, agreed
from pysandbox.compile.seccomp import describe
from pysandbox.errors import PolicyError
from pysandbox.policy import user_home
from pysandbox.policy.compose import Layer, Resolved, compose, loosened_by, resolve
from pysandbox.policy.expand import expand, expand_prefixes, quoted
from pysandbox.policy.manifest import MANIFEST
from pysandbox.policy.model import Policy
from pysandbox.policy.places import home
from pysandbox.policy.recipe import with_base
from pysandbox.policy.render import to_toml
from pysandbox.policy.search import Search, known, place_of
from pysandbox.shapes import Any, NamedTuple, replace

HELP = """\
Usage: pysandbox recipe ACTION ...

Actions:
  list                          the recipes there are, where they are looked for, the baseline of system calls
  show [NAME...] [-- COMMAND]   the policy they come to, as TOML that is a recipe itself
  explain NAME...               what a recipe does, in words
  suggest COMMAND               recipes that a command may want
  check NAME...                 whether recipes, or a manifest, can be carried out
  diff OLD NEW                  how the policies of two recipes differ
  trust FILE                    let a recipe, or the manifest, of a project grant what it grants

Each takes --json, and --help says more. Nothing is executed.

Examples:
  pysandbox recipe show python -- pytest
  pysandbox recipe show node service:npm > mine.toml
  pysandbox recipe explain claude-code
"""


def main(arguments: list[str], verbose: bool) -> int:
    return act("recipe", HELP, ACTIONS, arguments)


def actions() -> dict[str, Parser]:
    return {name: parser_of("recipe", name, action) for name, action in ACTIONS.items()}


# ---- list --------------------------------------------------------------------------------------------------------


def _list(namespace: Namespace) -> int:
    search = search_here()
    problems: list[PolicyError] = []
    found = list(_readable(search, problems))
    baseline = _baseline(search, problems)
    counts = describe(compose([], baseline=baseline))
    document = {
        "search_path": list(search.directories),
        "recipes": [_row(layer) for layer in found],
        "baseline": {
            "source": baseline.path if baseline else f"shipped profile {counts.profile}",
            "allowed": len(counts.allowed),
            "denied": len(counts.denied),
        },
        "problems": [str(error) for error in problems],
    }
    for error in problems:
        console.warning(str(error))
    return answer(namespace, document, recipe_text.listing(document))


def _readable(search: Search, problems: list[PolicyError]) -> Iterator[Layer]:
    """The layers that can be read; one that cannot is told, and hides no other."""
    for name, path in search.available(problems):
        if name == "default":
            continue
        try:
            yield search.read(path, "asked", name)
        except PolicyError as error:
            problems.append(error)


def _baseline(search: Search, problems: list[PolicyError]) -> Layer | None:
    try:
        return search.override("default")
    except PolicyError as error:
        problems.append(error)
        return None


def _row(layer: Layer) -> dict[str, Any]:
    meta, given = layer.recipe.meta, layer.recipe.given
    return {
        "name": layer.name,
        "description": meta.description if meta else "",
        "version": meta.version if meta else "",
        "match_prefix": list(meta.match_prefix) if meta else [],
        "path": layer.path,
        "allow_syscalls": list(given.get("allow_syscalls", ())),
        "deny_syscalls": list(given.get("deny_syscalls", ())),
        "strict": bool(given.get("strict", False)),
    }


# ---- show --------------------------------------------------------------------------------------------------------


def _declare_show(parser: Parser) -> None:
    parser.usage = "pysandbox recipe show [--json] [NAME]... [-- COMMAND]"
    parser.add_argument("name", nargs="*", metavar="NAME", help="A recipe, or several that are put together.")
    parser.add_argument("-r", "--recipe", action="append", default=[], metavar="NAME", help="Such a NAME as well.")
    parser.add_argument("--baseline", action="store_true", help="Print the baseline of system calls, a default.toml.")
    parser.takes_command = True  # what it calls for is added


def _show(namespace: Namespace) -> int:
    if namespace.baseline:
        return _show_baseline(namespace)
    resolved = resolve([*namespace.name, *namespace.recipe], command=namespace.command or None)
    policy = standalone(resolved)
    document = {"policy": _plain(policy), "layers": _layers(resolved), "digest": policy.digest}
    return answer(namespace, document, recipe_text.shown(to_toml(policy), document["layers"]))


def standalone(resolved: Resolved) -> Policy:
    """The policy with everything in it that it was made of: expanded, the base spelled out. Resolving its TOML gives
    it again (RCP-25)."""
    cwd = working_directory()
    policy = with_base(expand(resolved.policy, env=os.environ, cwd=cwd, home=user_home.home()))
    return quoted(replace(policy, base=False))


def _plain(policy: Policy) -> Any:
    import json

    return json.loads(policy.to_json())


def _layers(resolved: Resolved) -> list[dict[str, str]]:
    layers = [*resolved.layers, *([resolved.baseline] if resolved.baseline else [])]
    rows = [{"name": each.name, "path": each.path or "shipped", "why": each.why} for each in layers]
    return rows + ([{"name": "command", "path": resolved.because, "why": "detected"}] if resolved.because else [])


def _show_baseline(namespace: Namespace) -> int:
    counts = describe(compose([], baseline=search_here().override("default")))
    document = {"allow": list(counts.allowed), "deny": list(counts.denied)}
    return answer(namespace, document, recipe_text.baseline(document))


# ---- explain -----------------------------------------------------------------------------------------------------


def _declare_explain(parser: Parser) -> None:
    parser.usage = "pysandbox recipe explain [--json] NAME..."
    parser.add_argument("name", nargs="+", metavar="NAME", help="A recipe, or several that are put together.")


def _explain(namespace: Namespace) -> int:
    layers = list(search_here().asked(namespace.name))
    policy = compose(layers)
    prefixes = [each for layer in layers if layer.recipe.meta for each in layer.recipe.meta.match_prefix]
    document = {
        "recipes": [_row(layer) for layer in layers],
        "policy": _plain(policy),
        "match_prefix": list(
            expand_prefixes(prefixes, env=os.environ, cwd=working_directory(), home=home(known(os.environ)))
        ),
        "env_set": [name for name in policy.env_passthrough if name in os.environ],
        "env_unset": [name for name in policy.env_passthrough if name not in os.environ],
    }
    return answer(namespace, document, recipe_text.explanation(policy, document))


# ---- suggest -----------------------------------------------------------------------------------------------------

# Programs by what they are called, for which no place speaks; the best recipe first.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "python": ("python", "untrusted"), "python3": ("python", "untrusted"), "pip": ("python-pip",),
    "pip3": ("python-pip",), "pytest": ("pytest", "python"), "uv": ("uv",), "uvx": ("uv",), "node": ("node",),
    "npm": ("node-build",), "npx": ("node-build",), "yarn": ("node-build",), "pnpm": ("node-build",),
    "go": ("go",), "gofmt": ("go",), "java": ("java",), "javac": ("java",), "mvn": ("java",), "gradle": ("java",),
    "cargo": ("rust",), "rustc": ("rust",), "mix": ("elixir",), "iex": ("elixir",), "elixir": ("elixir",),
    "erl": ("elixir",), "nvim": ("neovim",), "opencode": ("opencode",), "claude": ("claude-code",),
    "codex": ("codex",), "gh": ("tool:gh",), "git": ("tool:git",), "aws": ("tool:aws",),
}  # fmt: skip


def _declare_suggest(parser: Parser) -> None:
    parser.usage = "pysandbox recipe suggest [--json] [--] COMMAND [ARGUMENTS]"
    parser.add_argument("command", nargs="...", metavar="COMMAND", help="The command; it is not executed.")


def _suggest(namespace: Namespace) -> int:
    command = namespace.command[1:] if namespace.command[:1] == ["--"] else namespace.command
    if not command:
        raise UsageError("no command given")
    search = search_here()
    detected = {layer.name: "its program lies there" for layer in search.detected(command)}
    known = dict(search.available())
    stem = os.path.basename(command[0])
    by_name = (*PROGRAMS.get(stem, ()), *PROGRAMS.get(stem.rstrip("0123456789."), ()), stem)
    named = {name: "its program is called so" for name in by_name if name in known and name not in ("base", "default")}
    found = {**named, **detected}
    rows = [
        {"name": name, "because": why, "path": known[name], "automatic": name in detected}
        for name, why in found.items()
    ]
    return answer(namespace, {"command": command, "recipes": rows}, recipe_text.suggestions(command, rows))


# ---- trust -------------------------------------------------------------------------------------------------------


def _declare_trust(parser: Parser) -> None:
    parser.usage = "pysandbox recipe trust [--yes | --revoke] FILE"
    parser.add_argument("file", metavar="FILE", help="A recipe of a project, or its pysandbox.toml.")
    parser.add_argument("--yes", action="store_true", help="Do not ask.")
    parser.add_argument("--revoke", action="store_true", help="Trust it no longer.")


def _trust(namespace: Namespace) -> int:
    from pysandbox.policy.trust import pin, trust_file

    path = place_of(namespace.file)
    if namespace.revoke:
        pin({path: None})
        return answer(namespace, {"file": path, "trusted": False}, iter([f"no longer trusted: {path}"]))
    shown = _manifest_shown(path) if os.path.basename(path) == MANIFEST else _recipe_shown(path)
    if not namespace.json:
        console.out(*shown.lines)
    if not (namespace.yes or agreed(f"Trust {path}?")):
        raise PolicyError("is not trusted", file=path, suggestion="to trust it without being asked, add --yes")
    pin(shown.digests)
    others = [place for place in shown.digests if place != path]
    document = {
        "file": path, "trusted": True, "sha256": shown.digests[path], "loosens": shown.loosens, "with": others,
    }  # fmt: skip
    said = (f"trusted as it is now (in {trust_file()}): {each}" for each in (path, *others))
    return answer(namespace, document, said)


class _RecipeReport(NamedTuple):
    """What is put before the user, and what is remembered of it: the SHA-256 of the bytes that were read for it,
    whatever the files hold by the time he answers."""

    lines: list[str]
    digests: dict[str, str]
    loosens: list[str]


def _recipe_shown(path: str) -> _RecipeReport:
    stem = os.path.basename(path).removesuffix(".toml")
    layer = search_here().read(path, "base" if stem in ("base", "default") else "asked", stem)
    without, policy = _with_and_without(layer)
    keys = list(loosened_by(without, policy))
    return _RecipeReport(list(recipe_text.difference(without, policy, path, keys)), {path: layer.digest}, keys)


def _manifest_shown(path: str) -> _RecipeReport:
    from pysandbox.policy.manifest_file import read_manifest

    shown = ManifestReport(read_manifest(path))
    return _RecipeReport(list(shown.lines()), shown.digests, shown.loosens)


def _with_and_without(layer: Layer) -> tuple[Policy, Policy]:
    """What the file is laid over: nothing, or the base or baseline that it would replace."""
    if layer.why != "base":
        return Policy(), compose([layer])
    if layer.name == "default":
        return Policy(), compose([], baseline=layer)
    return with_base(Policy()), compose([], base=layer)


ACTIONS: dict[str, Action] = {
    "list": (_list, lambda parser: None, "The recipes there are, and the baseline of system calls."),
    "show": (_show, _declare_show, "The policy that recipes come to, as TOML. The command is not executed."),
    "explain": (_explain, _declare_explain, "What a recipe does, in words."),
    "suggest": (_suggest, _declare_suggest, "Recipes that a command may want. The command is not executed."),
    "check": (
        recipe_compare.check,
        recipe_compare.declare_check,
        "Whether recipes, or a manifest, can be carried out.",
    ),
    "diff": (recipe_compare.diff, recipe_compare.declare_diff, "How the policies of two recipes differ."),
    "trust": (_trust, _declare_trust, "Show what a recipe of a project grants, and trust it as it is now."),
}
