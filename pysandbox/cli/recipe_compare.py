"""`pysandbox recipe check` and `recipe diff`: whether recipes and manifests can be carried out; how two recipes differ.

Nothing is executed, trusted or written.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator

from pysandbox.cli import console
from pysandbox.cli.flags import Parser
from pysandbox.cli.policy_of import search_here
from pysandbox.cli.recipe_text import toml_diff
from pysandbox.compile.absent import left_out_notes, refuse_absent
from pysandbox.errors import PolicyError
from pysandbox.policy.compose import compose, loosened_by, without_unheld
from pysandbox.policy.manifest import MANIFEST
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import with_base


def declare_check(parser: Parser) -> None:
    parser.usage = "pysandbox recipe check [--json] NAME..."
    parser.add_argument("name", nargs="+", metavar="NAME", help=f"A recipe, its file, or a {MANIFEST}.")


def check(namespace: Namespace) -> int:
    """0 when all that is named can be carried out, 1 when something cannot."""
    left_out: dict[str, list[str]] = {}
    found = {name: [str(error) for error in _problems(name, left_out)] for name in namespace.name}
    if namespace.json:
        console.document({"checked": found, "left_out": left_out}, indent=2)
    else:
        for name, problems in found.items():
            console.out(*(problems or ["; ".join((f"{name}: ok", *left_out[name]))]))
    return 1 if any(found.values()) else 0


def _problems(name: str, left_out: dict[str, list[str]]) -> Iterator[PolicyError]:
    """`left_out` is told what of it runs without."""
    left_out[name] = []
    try:
        for policy in _policies(name):
            refuse_absent(policy)
            left_out[name] += [note.message for note in left_out_notes(policy)]
    except PolicyError as error:
        yield (
            error
            if error.file
            else PolicyError(error.message, file=name, line=error.line, key=error.key, suggestion=error.suggestion)
        )


def _policies(name: str) -> Iterator[Policy]:
    if os.path.basename(name) == MANIFEST:
        yield from _of_manifest(name)
        return
    yield compose(without_unheld(list(search_here().asked([name]))))


def _policy(name: str) -> Policy:
    return compose(list(search_here().asked([name])))


def _of_manifest(path: str) -> Iterator[Policy]:
    from pysandbox.policy.manifest_file import read_manifest
    from pysandbox.policy.review import named, review

    manifest = read_manifest(path)
    for sandbox in manifest.sandboxes.values():
        policy = review(manifest, sandbox, extra=sandbox.overrides, defaults={}).resolved.policy
        try:
            refuse_absent(policy)
        except PolicyError as error:
            raise named(error, manifest, sandbox) from None
        yield policy


def declare_diff(parser: Parser) -> None:
    parser.usage = "pysandbox recipe diff [--json] OLD NEW"
    parser.add_argument("old", metavar="OLD", help="A recipe, or its file.")
    parser.add_argument("new", metavar="NEW", help="Another one.")


def diff(namespace: Namespace) -> int:
    """0 when both come to the same policy, 1 when they do not, as diff(1)."""
    old, new = (with_base(_policy(name)) for name in (namespace.old, namespace.new))
    lines = list(toml_diff(old, new, namespace.old, namespace.new))
    wider, narrower = loosened_by(old, new), loosened_by(new, old)
    if namespace.json:
        console.document({"diff": lines, "grants_more": list(wider), "grants_less": list(narrower)}, indent=2)
    else:
        console.out(*lines, *_told("more", wider), *_told("less", narrower))
    return 1 if lines else 0


def _told(word: str, keys: tuple[str, ...]) -> list[str]:
    return [f"grants {word} in: {', '.join(keys)}"] if keys else []
