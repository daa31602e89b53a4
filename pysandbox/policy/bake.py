"""Write base_grants.py from recipes/base.toml: `python -m pysandbox.policy.bake`. A test fails when they differ.

Reading TOML costs a process 6 ms once, four times what a whole cage costs; the base recipe is in every cage.
"""

from __future__ import annotations

import os

from pysandbox.policy.option import Grant

TARGET = os.path.join(os.path.dirname(__file__), "base_grants.py")
_HEAD = '''"""Generated from recipes/base.toml, where the reasons stand, by `python -m pysandbox.policy.bake`."""

from __future__ import annotations

from pysandbox.policy.option import Grant
'''


def baked() -> str:
    """The text of base_grants.py."""
    from pysandbox.policy.recipe import shipped_file
    from pysandbox.policy.sources import read_recipe

    given = read_recipe(shipped_file("base")).given
    return "\n".join((_HEAD, _table("ALLOW", given["allow"]), _table("DENY", given["deny"]), ""))


def _table(name: str, grants: tuple[Grant, ...]) -> str:
    rows = "".join(f'    Grant("{grant.path}", optional={grant.optional}),\n' for grant in grants)
    return f"{name}: tuple[Grant, ...] = (\n{rows})"


if __name__ == "__main__":
    with open(TARGET, "w", encoding="utf-8") as target:
        target.write(baked())
