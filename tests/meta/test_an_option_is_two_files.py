"""An option is its declaration and the one file of the compiler that reads it; nothing else has to know.

Two pretend options are written into a copy of the package, each in those two files, as a contributor would. Then the
copy is asked for everything that is said of an option anywhere. Whoever makes a list of options by hand, in a third
place, fails here: his list does not have them.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from _support.tree import PACKAGE, REPOSITORY, modules
from pysandbox.policy.model import GRANT_LISTS, options
from pysandbox.policy.option import option
from pysandbox.policy.tighter import falls

A_NUMBER = """
    stack_mb: int = option(
        "resources", "stack_mb", "RLIMIT_STACK of each process.",
        default=8, merge="last", tighter=falls, flag="--stack-mb", minimum=1, unit="MiB",
        in_plan=True, recorded="limit", violation="stack", listed="Limits",
        sentence=Sentence("Uses", "A stack has {} MiB."),
    )  # fmt: skip
    heap_mb: int | None = option(
        "resources", "heap_mb", "RLIMIT_DATA of each process.",
        default=None, merge="last", tighter=falls, in_plan=False,
    )  # fmt: skip
"""
ITS_READER = """
LIMITS += (("STACK", lambda policy: policy.stack_mb << 20), ("HEAP", lambda policy: policy.heap_mb))
"""
PATHS = """
    allow_mapped: tuple[Grant, ...] = option(
        "filesystem", "allow_mapped", "Files that may be mapped.",
        default=(), merge="union", tighter=writes_less, flag="--allow-mapped",
        in_plan=True, recorded="mapped", listed="Mapped",
        sentence=Sentence("Writes", "Files that may be mapped: {}."),
    )  # fmt: skip
"""
THEIR_READER = """
_asked_before = _asked


def _asked(policy: Policy, cwd: str) -> Iterator[tuple[str, str, bool, bool]]:
    yield from _asked_before(policy, cwd)
    for grant in policy.allow_mapped:
        yield absolute(grant.path, cwd), "filesystem.allow_mapped", False, grant.optional
"""
ADDED = (
    ("policy/declared/resources.py", A_NUMBER), ("compile/limits.py", ITS_READER),
    ("policy/declared/files.py", PATHS), ("compile/view.py", THEIR_READER),
)  # fmt: skip

CLAIMS = {
    "a document has it, and a document is made of it":
        "policy.stack_mb == 3 and Policy.parse(policy.to_toml()) == policy == Policy.from_json(policy.to_json())",
    "layers merge by its rule":
        "Policy(stack_mb=9).merge(policy).stack_mb == 3 and len(policy.merge(other).allow_mapped) == 2",
    "narrow knows what is tighter":
        "policy.narrow(stack_mb=2, allow_mapped=[]) and refused(stack_mb=4) and refused(allow_mapped=['/b'])",
    "a recipe that a project brings along may not widen it":
        "loosened_by(Policy(), other) == ('filesystem.allow_mapped', 'resources.stack_mb')",
    "the command line has its flag":
        "given == {'stack_mb': 3, 'allow_mapped': (Grant('/data/set'),)}",
    "the compiler reads it":
        'Limit("STACK", 3 << 20) in plan.limits and any(step.target == "/data/set" for step in plan.mounts)',
    "a path is expanded and looked at":
        'wanted_paths(expanded, "/") == ("/home/ann/log",)',
    "a plan in memory is another one where its path is expanded from the environment":
        'plan_key(Policy(allow_mapped=["$HOME/log"]), "/", frozenset())[-1] == frozenset(os.environ.items())',
    "a recipe for many hosts may name a path that one lacks":
        "'allow_mapped' in GRANTING",
    "explain has its sentence":
        '{"A stack has 3 MiB.", "Files that may be mapped: /data/set."} <= {*explain(policy)}',
    "explain tells what has no sentence":
        '"resources.heap_mb = 7: RLIMIT_DATA of each process." in explain(policy)',
    "recipe explain lists it":
        'shown.index("Limits:") < shown.index("  stack_mb: 3") and "Mapped:" in shown and "  heap_mb: 7" in shown',
    "the spawn record has it":
        'record["limits"]["stack_mb"] == 3 and record["grants"]["mapped"] == ["/data/set"]',
    "a violation names the limit":
        'limit_values(policy)["stack"] == 3',
    "a kept plan holds it, where its whole effect is in the plan":
        '{"stack_mb", "allow_mapped"} <= IN_THE_PLAN and "heap_mb" not in IN_THE_PLAN',
    "type checkers know it":
        '"    stack_mb: int\\n" in keywords and "    allow_mapped: Paths\\n" in keywords',
    "the reference page has it":
        'all(f"### `{name}`" in page for name in ("stack_mb", "heap_mb", "allow_mapped"))',
}  # fmt: skip

ASK = """
import os, runpy, sys, types
from golden.pretend import MODERN, look, no_filter
from pysandbox.audit.told import limit_values, spawn_record
from pysandbox.cli.flags import Parser, add_policy_flags, policy_values
from pysandbox.cli.keep import IN_THE_PLAN
from pysandbox.cli.recipe_text import explanation
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.plan import Limit
from pysandbox.errors import PolicyError
from pysandbox.policy.compose import loosened_by
from pysandbox.policy.expand import expand
from pysandbox.policy.explain import explain
from pysandbox.policy.model import GRANTING, Grant, Policy
from pysandbox.policy.paths_wanted import wanted_paths
from pysandbox.runtime.plans import plan_key

def refused(**looser):
    try:
        policy.narrow(**looser)
    except PolicyError:
        return True

def flags(*arguments):
    parser = Parser("pretend", "", "")
    add_policy_flags(parser, {})
    return parser.read(list(arguments))

policy = Policy.parse("[resources]\\nstack_mb = 3\\nheap_mb = 7\\n[filesystem]\\nallow_mapped = ['/data/set']\\n")
other = Policy(stack_mb=9, allow_mapped=["/b"])
given = policy_values(flags("--stack-mb", "3", "--allow-mapped", "/data/set"))
plan = compile_plan(policy, MODERN, look(policy), compile_filter=no_filter)
expanded = expand(Policy(allow_mapped=["~/log"]), env={}, cwd="/", home="/home/ann")
nothing = {"recipes": (), "env_set": (), "env_unset": (), "match_prefix": ()}
shown = list(explanation(policy, nothing))
record = spawn_record(policy, types.SimpleNamespace(spawn_record={}, plan=plan), caged=True)
pages = runpy.run_path(sys.argv[1])
page, keywords = pages["policy_page"](), pages["keywords"]()
for claim in sys.stdin.read().splitlines():
    name, _, expression = claim.partition("\\t")
    try:
        held = eval(expression)
    except Exception as error:
        held, name = False, f"{name} ({error!r})"
    if not held:
        print(name)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the pretend options, ready for PYTHONPATH."""
    top = tmp_path_factory.mktemp("pretend")
    shutil.copytree(PACKAGE, top / "pysandbox", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in ADDED:
        file = top / "pysandbox" / name
        file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")
    return top


def asked(top: Path, claims: dict[str, str]) -> list[str]:
    """The claims that do not hold in a copy of the package."""
    path = os.pathsep.join((str(top), str(REPOSITORY / "tests")))
    told = "\n".join(f"{name}\t{expression}" for name, expression in claims.items())
    command = [sys.executable, "-c", ASK, str(REPOSITORY / "tools" / "genref.py")]
    done = subprocess.run(command, input=told, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_files_are_enough(copy: Path) -> None:
    lost = asked(copy, CLAIMS)
    assert not lost, f"a third place has to know of an option: {lost}"


def test_a_claim_that_is_wrong_is_told(copy: Path) -> None:
    assert asked(copy, {"wrong": "policy.stack_mb == 4", "broken": "nothing_of_that_name"})[0] == "wrong"


@pytest.mark.parametrize("forgotten", ["tighter", "in_plan", "merge"])
def test_what_would_be_forgotten_silently_has_to_be_said(forgotten: str) -> None:
    said: dict[str, Any] = {"default": 1, "merge": "last", "tighter": falls, "in_plan": False}
    assert option("resources", "stack_mb", "A stack.", **said).default == 1
    del said[forgotten]
    with pytest.raises(TypeError, match=forgotten):
        option("resources", "stack_mb", "A stack.", **said)


# ---- nobody writes such a list again ------------------------------------------------------------------------------

# Collections of options that are no list of all options of a kind: what each of them is for, and why it is by hand.
BY_HAND: dict[str, str] = {
    "policy/layers.py": "BY_DETECTION: what a recipe may say that nobody asked for; what is not listed is left out",
    "policy/left_out.py": "UNSCANNED: what a recipe's scan yields to; what is not listed is refused by name",
    "policy/shipped_tables.py": "TABLES: shipped recipes as TOML reads them; generated, and compared with the files",
    "compile/confine.py": "HELD, REFUSED: what a process can hold itself to; what is not listed is refused",
}


def displays(path: Path) -> Iterator[tuple[int, Sequence[ast.expr | None]]]:
    """Each tuple, list, set and dict that is written out, with its line and its items or keys."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield node.lineno, node.elts
        elif isinstance(node, ast.Dict):
            yield node.lineno, node.keys


def lists_by_hand(path: Path) -> Iterator[str]:
    """Names of five or more options and nothing else, or most of the options that hold paths."""
    names = {field.name for field, _ in options()}
    for line, items in displays(path):
        words = {each.value for each in items if isinstance(each, ast.Constant) and isinstance(each.value, str)}
        read = {each.attr for item in items if item for each in ast.walk(item) if isinstance(each, ast.Attribute)}
        if (len(words) == len(items) >= 5 and names.issuperset(words)) or len(read & {*GRANT_LISTS}) > 3:
            yield f"{path.relative_to(PACKAGE).as_posix()}:{line}"


def test_no_list_of_options_is_kept_by_hand() -> None:
    found = [each for path in modules() for each in lists_by_hand(path)]
    unexplained = [each for each in found if re.sub(r":\d+$", "", each) not in BY_HAND]
    assert not unexplained, f"derive these from the declarations (policy.option): {unexplained}"
