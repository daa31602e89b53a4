"""What turns bytes into something that runs is called only where a list says why: in the cage, or on bytes of our own.

An answer of a cage is read by the codec, which makes plain data. Whoever writes `pickle.loads` (or one of its kin) into
the package has to say here on whose bytes; and what runs in a cage is imported by nothing that runs on the host.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from _support.tree import PACKAGE, modules

LOADERS = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "multiprocessing",
           "copyreg", "numpy", "torch", "yaml", "code", "codeop", "runpy", "imp"}  # fmt: skip
LOADS = {"load", "loads", "Unpickler", "Pickle", "unsafe_load", "run_path", "run_module", "InteractiveInterpreter"}
BUILTIN = {"eval", "exec", "__import__"}
IN_A_CAGE = {
    "pipeline/zygote.py",
    "pipeline/inside.py",
    "pipeline/placing.py",
    "pipeline/walls.py",
    "pipeline/worker.py",
}  # what they are told comes from the host
ON_OUR_OWN_BYTES = {
    "cli/own_modules.py": {"marshal.loads"},  # what Python compiled of our modules, where Python reads it, too
    "shapes/made.py": {"exec"},  # the methods of a dataclass, from its fields
    "gate/reading/session.py": {"pickle.loads"},  # in the reader: the rules of a cage, from the host program
    "pipeline/packing.py": {"cloudpickle.Pickler"},  # writes, and reads nothing
}


def loaders(source: str) -> Iterator[str]:
    """Every name in it that runs what it reads."""
    tree, aliases = ast.parse(source), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if (root := each.name.partition(".")[0]) in LOADERS:
                    aliases[each.asname or root] = root
        elif isinstance(node, ast.ImportFrom) and (root := (node.module or "").partition(".")[0]) in LOADERS:
            yield from (f"{root}.{each.name}" for each in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in BUILTIN:
            yield node.id
        elif isinstance(node, ast.Attribute) and node.attr in LOADS and isinstance(node.value, ast.Name):
            if node.value.id in aliases:
                yield f"{aliases[node.value.id]}.{node.attr}"
        elif isinstance(node, ast.Attribute) and node.attr in BUILTIN and ast.unparse(node.value) == "builtins":
            yield node.attr


def test_what_runs_bytes_is_called_on_none_of_a_cage() -> None:
    found = {str(path.relative_to(PACKAGE)): set(loaders(path.read_text("utf-8"))) for path in modules()}
    used = {name: each for name, each in found.items() if each and name not in IN_A_CAGE}
    assert used == ON_OUR_OWN_BYTES, "say here whose bytes they are; those of a cage are for pysandbox.pipeline.codec"


def test_what_runs_in_a_cage_is_imported_by_nothing_of_the_host() -> None:
    inside = {f"pysandbox.{each.removesuffix('.py').replace('/', '.')}" for each in IN_A_CAGE}
    for path in modules():
        if str(path.relative_to(PACKAGE)) in IN_A_CAGE:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{each.name}" for each in node.names)]
            assert not inside & set(names), f"{path.name} imports what is for a cage: {names}"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle\npickle.loads(answer)",
        "import pickle as p\nclass Mine(p.Unpickler): pass",
        "from pickle import loads",
        "def f(x):\n    import marshal\n    return marshal.loads(x)",
        "import numpy\nnumpy.load(file, allow_pickle=True)",
        "read = eval",
        "import builtins\nbuiltins.exec(x)",
        "__import__(name)",
        "from multiprocessing import connection",
    ],
)
def test_a_loader_is_found(source: str) -> None:
    assert list(loaders(source))


@pytest.mark.parametrize("source", ["import json\njson.loads(x)", "import pickle\npickle.dumps(x)", "cage.exec(x)"])
def test_what_runs_nothing_is_none(source: str) -> None:
    assert not list(loaders(source))
