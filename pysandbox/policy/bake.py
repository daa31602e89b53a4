"""Write base_grants.py, shipped_list.py and shipped_tables.py from recipes/: `python -m pysandbox.policy.bake`. A test
fails when they differ.

Reading TOML costs a process 6 ms once, four times what a whole cage costs; the base recipe is in every cage, and which
recipes a program calls for is asked at every start. A table is found by the digest of its text: any other text is read
as TOML, wherever it lies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pysandbox.policy.option import Grant, RecipeMeta

_HERE = os.path.dirname(__file__)
_HEAD = '''"""Generated from {source} by `python -m pysandbox.policy.bake`."""

from __future__ import annotations

{imported}
'''


def baked() -> dict[str, str]:
    """File name to text, for each."""
    return {"base_grants.py": _base(), "shipped_list.py": _list(), "shipped_tables.py": _tables()}


def target(name: str) -> str:
    return os.path.join(_HERE, name)


def _base() -> str:
    from pysandbox.policy.sources import read_recipe

    given = read_recipe(os.path.join(_HERE, "recipes", "base.toml")).given
    head = _HEAD.format(
        source="recipes/base.toml, where the reasons stand,", imported="from pysandbox.policy.option import Grant"
    )
    return "\n".join((head, _table("ALLOW", given["allow"]), _table("DENY", given["deny"]), ""))


def _table(name: str, grants: tuple[Grant, ...]) -> str:
    rows = "".join(f'    Grant("{grant.path}", optional={grant.optional}),\n' for grant in grants)
    return f"{name}: tuple[Grant, ...] = (\n{rows})"


def _list() -> str:
    from pysandbox.policy.sources import read_recipe

    rows = []
    for name, file in sorted(packaged()):
        meta = read_recipe(file).meta or RecipeMeta()
        prefixes = "".join(f'"{each}", ' for each in meta.match_prefix)
        words = ", ".join(f'"{each}"' for each in (meta.name, meta.description, meta.version))
        row = f'    "{name}": RecipeMeta({words}, ({prefixes})),'
        rows.append(f"{row}  # noqa: E501\n" if len(row) > 120 else f"{row}\n")
    head = _HEAD.format(
        source="the [recipe] sections of recipes/", imported="from pysandbox.policy.option import RecipeMeta"
    )
    return f"{head}\n# fmt: off\nSHIPPED: dict[str, RecipeMeta] = {{\n{''.join(rows)}}}\n"


def _tables() -> str:
    import tomllib

    from pysandbox.policy.reading import recipe_text, sha256

    rows = []
    for name, file in sorted(packaged()):
        text = recipe_text(file)
        rows.append(f'    "{sha256(text.encode())}": {tomllib.loads(text)!r},  # {name}\n')
    head = _HEAD.format(source="recipes/", imported="from pysandbox.shapes import Any")
    return f"# ruff: noqa: E501\n{head}\n# fmt: off\nTABLES: dict[str, dict[str, Any]] = {{\n{''.join(rows)}}}\n"


def packaged() -> Iterator[tuple[str, str]]:
    """(name, file) of each recipe in the package."""
    for kind, folder in (("", "recipes"), ("service:", "recipes/services"), ("tool:", "recipes/tools")):
        for file in sorted(os.listdir(os.path.join(_HERE, folder))):
            if file.endswith(".toml"):
                yield f"{kind}{file.removesuffix('.toml')}", os.path.join(_HERE, folder, file)


if __name__ == "__main__":
    for name, text in baked().items():
        with open(target(name), "w", encoding="utf-8") as stream:
            stream.write(text)
