"""A test that writes /tmp/some-name on the host fails where another account has that name already. What a cage writes
in its own /tmp meets nobody; what runs without a cage, and the test itself, takes tmp_path or a name of the process.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from _support.tree import REPOSITORY

FOLDERS = ("security", "e2e", "kernel", "clients")
FIXED = re.compile(r"(?<![\w/.}-])/(?:tmp|dev/shm|var/tmp)/[\w.-]+(?![\w.{-])")  # what goes on with a {} is not
UNCAGED = frozenset(("uncaged", "control"))  # what runs these words runs them on the host
OPENS = frozenset(("open", "Path"))
NEVER_MADE = {  # names that nothing is given
    "/tmp/elsewhere.pem": "where a link would lead to, whose making is the attack",
}
ONLY_CAGED = re.compile(r"\b(?:Cage|pysandbox)\b")  # a program that opens cages of its own writes in them

Constants = Mapping[str, ast.expr]


def constants(tree: ast.Module) -> Constants:
    return {target.id: node.value for node in tree.body if isinstance(node, ast.Assign)
            for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip


def texts(node: ast.AST, known: Constants, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """The texts of an expression, and of the constants of the module that it names."""
    match node:
        case ast.JoinedStr(values=parts):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name in known and name not in seen:
            yield from texts(known[name], known, seen | {name})
    for each in ast.iter_child_nodes(node):
        if not (isinstance(node, ast.JoinedStr) and isinstance(each, ast.Constant)):
            yield from texts(each, known, seen)


def called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def is_of_the_host(node: ast.Call) -> bool:
    """os.mkdir(...), shutil.copy(...), subprocess.run(...) in the test's own code."""
    match node.func:
        case ast.Attribute(value=ast.Name(id="os" | "shutil" | "subprocess")):
            return True
    return called(node) in UNCAGED or (isinstance(node.func, ast.Name) and node.func.id in OPENS)


def fixed_names(source: str) -> set[str]:
    tree = ast.parse(source)
    known = constants(tree)
    ours = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and is_of_the_host(each)]
    said = {text for each in ours for text in texts(each, known) if not ONLY_CAGED.search(text)}
    return {name for text in said for name in FIXED.findall(text)} - NEVER_MADE.keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_fixed_name_of_the_host_is_written(folder: str) -> None:
    files = sorted((REPOSITORY / "tests" / folder).rglob("*.py"))
    assert len(files) > 3
    found = {path.name: names for path in files if (names := fixed_names(path.read_text(encoding="utf-8")))}
    assert found == {}, "take tmp_path, or put os.getpid() into the name"


@pytest.mark.parametrize(
    "source",
    [
        'MARK = "/tmp/mark"\ndef test(): assert not Path(MARK).exists()',
        'BODY = """open("/tmp/x", "w")"""\ndef test(): uncaged(program(BODY))',
        'ONE = "/tmp/one"\nBODY = f"{ONE}.x{ONE}"\ndef test(): control([PYTHON, "-c", BODY])',
        'def test(): os.symlink("a", "/dev/shm/there")',
        'def test(): subprocess.run(["touch", "/var/tmp/x.y"])',
    ],
)
def test_each_way_to_write_one_is_found(source: str) -> None:
    assert len(fixed_names(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "BODY = \"open('/tmp/x', 'w')\"\ndef test(): caged(program(BODY), policy())",
        'def test(tmp_path): Path(f"/tmp/{os.getpid()}-x").touch(); (tmp_path / "tmp/x").touch()',
        'MARK = f"/tmp/mark-{os.getpid()}"\ndef test(): assert not Path(MARK).exists()',
        "def test(): subprocess.run([PYTHON, \"-c\", \"import pysandbox; pysandbox.run(['touch', '/tmp/x'])\"])",
    ],
)
def test_a_name_in_a_cage_or_of_the_process_is_none(source: str) -> None:
    assert fixed_names(source) == set()
