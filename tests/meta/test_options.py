"""A policy option that nobody reads is a promise that nobody keeps."""

from __future__ import annotations

import ast

from _support.tree import PACKAGE, modules
from pysandbox.policy.model import options

# Options that are used up before a Plan is compiled, and the one file that does it.
READ_ELSEWHERE = {"base": "policy/recipe.py"}


def names_read(source: str) -> set[str]:
    """`policy.NAME`, or "NAME" as it stands in a table of options that are treated alike."""
    nodes = list(ast.walk(ast.parse(source)))
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return attributes | {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def read_by_the_compiler() -> set[str]:
    compiler = (path for path in modules() if path.is_relative_to(PACKAGE / "compile"))
    return set[str]().union(*(names_read(path.read_text(encoding="utf-8")) for path in compiler))


def test_every_option_is_read_by_the_compiler() -> None:
    wanted = {each.name for each, _ in options()} - READ_ELSEWHERE.keys()
    unread = wanted - read_by_the_compiler()
    assert not unread, f"no file of compile/ reads {sorted(unread)}"


def test_the_options_read_elsewhere_are_read_there() -> None:
    for name, file in READ_ELSEWHERE.items():
        assert name in names_read((PACKAGE / file).read_text(encoding="utf-8")), f"{file} does not read {name}"


def test_every_option_says_what_it_is_for() -> None:
    wordless = [described.toml_key for _, described in options() if not described.doc.endswith(".")]
    assert not wordless, f"no sentence in the doc of {wordless}"


def test_no_two_options_share_a_flag_or_key() -> None:
    keys = [described.toml_key for _, described in options()]
    flags = [described.flag for _, described in options() if described.flag]
    assert len(set(keys)) == len(keys)
    assert len(set(flags)) == len(flags)
