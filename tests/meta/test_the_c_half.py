"""How the C files hang together: nobody calls in a ring, a header speaks for its own file, and what may be done in one
place alone is done there.

A unit is a C file. It uses another one when it names a function that the other defines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from _support.tree import REPOSITORY

CSRC = REPOSITORY / "csrc"
DEFINITION = re.compile(r"^(?!static\b|typedef\b)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
DECLARATION = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\);", re.MULTILINE)
PRIVATE = re.compile(r"^static\b[^;={]*?\b(\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
# The one header of a program, or of a room, whose files are steps of one thing.
OF_A_ROOM = frozenset(
    ("init/init.h", "setup/setup.h", "host/emulate/emulate.h", "host/emulate/direct.h", "host/notify/answers.h")
)
# What the extension offers of another file than its header's.
FOR_TESTS = frozenset(("psb_behalf_table", "psb_reach_of", "psb_is_own"))


def code(path: Path) -> str:
    """Without comments, texts and preprocessor lines."""
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(), flags=re.DOTALL)
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.MULTILINE)


def place(path: Path) -> str:
    return str(path.relative_to(CSRC))


def sources(suffix: str) -> dict[Path, str]:
    product = [
        path for path in sorted(CSRC.rglob(f"*{suffix}")) if path.relative_to(CSRC).parts[0] not in ("fuzz", "race")
    ]
    return {path: code(path) for path in product}


def definitions(units: Mapping[Path, str]) -> dict[str, set[Path]]:
    found: dict[str, set[Path]] = {}
    for path, text in units.items():
        for name in DEFINITION.findall(text):
            found.setdefault(name, set()).add(path)
    return found


def circles(uses: Mapping[Path, Iterable[Path]]) -> list[list[str]]:
    """Everybody who reaches himself, with those whom he reaches and who reach him."""
    reached: dict[Path, set[Path]] = {}
    for start in uses:
        seen: set[Path] = set()
        ahead = list(uses[start])
        while ahead:
            path = ahead.pop()
            if path not in seen:
                seen.add(path)
                ahead.extend(uses.get(path, ()))
        reached[start] = seen
    rings = {frozenset(b for b in reached[a] if a in reached.get(b, ())) for a in uses if a in reached[a]}
    return sorted(sorted(place(path) for path in ring) for ring in rings)


def calls(units: Mapping[Path, str]) -> dict[Path, set[Path]]:
    defined = definitions(units)
    found = {}
    for path, text in units.items():
        named = set(re.findall(r"\b\w+\b", text)) - set(PRIVATE.findall(text))
        found[path] = {home for name in named for home in defined.get(name, ())} - {path}
    return found


def test_no_file_of_a_program_calls_in_a_ring() -> None:
    units = sources(".c")
    init = {path: text for path, text in units.items() if path.parent.name == "init"}
    host = {path: text for path, text in units.items() if place(path).startswith(("host/", "setup/"))}
    launcher = {
        path: text
        for path, text in units.items()
        if place(path).startswith(("launcher/", "host/spawn/", "host/probe/", "setup/"))
    }
    assert len(init) > 10 and len(host) > 50 and len(launcher) > 30
    assert circles(calls(init)) + circles(calls(host)) + circles(calls(launcher)) == []


def test_a_ring_is_found(tmp_path: Path) -> None:
    a, b, c = (CSRC / name for name in ("a.c", "b.c", "c.c"))
    units = {a: "int one(void) {\n two();\n}", b: "int two(void) {\n three();\n}", c: "int three(void) {\n}"}
    assert circles(calls(units)) == []
    units[c] = "int three(void) {\n one();\n}"
    assert circles(calls(units)) == [["a.c", "b.c", "c.c"]]


def test_no_header_includes_itself_by_way_of_others() -> None:
    headers = sources(".h")
    includes = {}
    for path in headers:
        named = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
        includes[path] = {
            found for name in named for at in (path.parent, CSRC) if (found := (at / name).resolve()) in headers
        }
    assert any(includes.values())
    assert circles(includes) == []


def test_a_header_declares_what_its_own_file_defines() -> None:
    defined = definitions(sources(".c"))
    strangers = []
    for header, text in sources(".h").items():
        for name in DECLARATION.findall(text):
            homes = defined.get(name, set())
            own = {header.with_suffix(".c")} if place(header) not in OF_A_ROOM else set(header.parent.glob("*.c"))
            if homes and not homes & own and name not in FOR_TESTS:
                strangers.append(f"{place(header)} declares {name}, which is in {sorted(map(place, homes))}")
    assert strangers == []


def users(pattern: str) -> set[str]:
    return {place(path) for path, text in sources(".c").items() if re.search(pattern, text)}


def test_capabilities_are_laid_down_in_one_place_on_the_host_and_in_one_of_the_cage() -> None:
    assert users(r"\bSYS_capset\b|\bcapset\(") == {"host/notify/effective_caps.c", "setup/caps.c"}


def test_a_child_of_the_host_is_cloned_in_one_place() -> None:
    assert users(r"(?<![\w>.])(?:clone|vfork|fork)\(") == {"host/spawn/child.c"}
    assert users(r"\bMAP_STACK\b") == {"host/spawn/child.c"}
    assert users(r"\bSYS_clone3\b") == {
        "host/spawn/clone3.c",
        "host/probe/probe.c",
    }  # the second asks whether there is one
    assert users(r"\bSYS_clone\b") == {"init/fork.c"}


def test_no_file_spells_a_number_of_the_kernel_for_itself() -> None:
    """cage-init and setup have them from csrc/uapi.h."""
    private = [
        f"{place(path)}: {line}"
        for folder in ("init", "setup")
        for path in (CSRC / folder).glob("*.[ch]")
        for line in re.findall(r"^#define \w+_ .*$|\b[A-Z]{4,}_ = -?\d+", path.read_text(), re.MULTILINE)
    ]
    assert private == []


ENUM = re.compile(r"\benum\s+(?:\w+\s*)?\{([^}]*)\}")
NAMED_ENUM = re.compile(r"\benum\s+\w+\s*\{([^}]*)\}")  # one without a name holds constants
PERMISSION = re.compile(r"ALLOW|PASS|GRANT|CONTINUE|PERMIT")
BOUND = re.compile(r"_(?:COUNT|CLASSES|SECTIONS|TEXTS|BITS|FREE|LARGEST)$|_(?:MAX|MOST)_")  # sizes that are enumerators


def enums(text: str, pattern: re.Pattern[str] = ENUM) -> list[list[str]]:
    """The enumerators of each enum, with their values where these are written out."""
    return [[each.strip() for each in found.split(",") if each.strip()] for found in pattern.findall(text)]


def every_enumerator() -> set[str]:
    units = (*sources(".h").values(), *sources(".c").values())
    return {each.partition("=")[0].strip() for text in units for found in enums(text, NAMED_ENUM) for each in found}


def permissions_of_zero(text: str) -> list[str]:
    zeros = (found[0] for found in enums(text) if re.fullmatch(r"\w+(?:\s*=\s*0)?", found[0]))
    return [each for each in zeros if PERMISSION.search(each)]


def test_what_was_forgotten_is_no_permission() -> None:
    """A struct of zeros, a row that a table lacks: zero refuses, or decides nothing."""
    assert permissions_of_zero("enum a { A_PASSED, A_REFUSED };") and permissions_of_zero("enum { A_ALLOWED = 0 };")
    assert not permissions_of_zero("enum a { A_REFUSED, A_PASSED };") + permissions_of_zero("enum a { A_PASS = 1 };")
    found = [each for text in (*sources(".h").values(), *sources(".c").values()) for each in permissions_of_zero(text)]
    assert found == []


def test_nothing_is_decided_by_the_order_of_an_enum() -> None:
    """Whoever adds one in the middle, or at the end, would decide for it without knowing."""
    named = {name for name in every_enumerator() if not BOUND.search(name)}
    compared = re.compile(r"(?<![-<>])[<>]=?\s*([A-Z][A-Z_0-9]+)\b|\b([A-Z][A-Z_0-9]+)\s*[<>]=?(?![<>=])")
    found = [
        f"{place(path)}: {match[0]}"
        for suffix in (".h", ".c")
        for path, text in sources(suffix).items()
        for match in compared.finditer(text)
        if (match[1] or match[2]) in named
    ]
    assert "DIALLED_OFFERED" in named and len(named) > 150
    assert found == []
