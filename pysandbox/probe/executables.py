"""The look into the files that `allow_execve` names: which other file does the kernel open to start this one?

An ELF names its dynamic linker (PT_INTERP), a script its interpreter (`#!`). What is written there is read, not
believed: a file that is malformed, unreadable, or no program needs nothing, and the kernel will refuse to start it.
A listed `/dir/*` is not read file by file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping

from pysandbox.policy.paths_wanted import absolute, executable_path, libraries_beside
from pysandbox.probe.facts import Executable, PathFact, PathFacts
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.policy.model import Policy

NOTHING = Executable("other")
SCRIPT_HEAD = 256  # BINPRM_BUF_SIZE: what the kernel reads of a #! line
PATH_MAX = 4096
PT_INTERP = 3
MANY_HEADERS = 512  # no linker writes so many program headers
FARTHEST = 1 << 62  # an offset that pread takes; beyond it there is nothing anyway


class _ElfLayout(NamedTuple):
    """Where one class of ELF keeps what is asked of it, as struct formats from the beginning of each header."""

    file: str  # e_phoff, e_phentsize, e_phnum
    program: str  # p_type, p_offset, p_filesz


LAYOUTS = {1: _ElfLayout("28xI10xHH", "II8xI"), 2: _ElfLayout("32xQ14xHH", "I4xQ16xQ")}  # by EI_CLASS
BYTE_ORDERS = {1: "<", 2: ">"}  # by EI_DATA


def read_executables(policy: Policy, paths: PathFacts) -> dict[str, Executable]:
    """What each listed file needs, by its real path."""
    return {fact.real: read_executable(fact.real) for fact in _listed_files(policy, paths)}


def needed(policy: Policy, paths: PathFacts, executables: Mapping[str, Executable]) -> tuple[str, ...]:
    """The paths that a second look must see: interpreters, and the libraries beside the listed files."""
    interpreters = [each.interpreter for each in executables.values() if each.interpreter.startswith("/")]
    libraries = [library for fact in _listed_files(policy, paths) for name in names_of(fact)
                 for library in libraries_beside(name)]  # fmt: skip
    return tuple(dict.fromkeys((*interpreters, *libraries)))


def names_of(fact: PathFact) -> tuple[str, ...]:
    """Every path of one file: as it was listed, each link on the way, where it really is."""
    return tuple(dict.fromkeys((fact.path, *(link for link, _ in fact.links), fact.real)))


def _listed_files(policy: Policy, paths: PathFacts) -> Iterator[PathFact]:
    for entry in policy.allow_execve:
        fact = paths[absolute(executable_path(entry), paths.cwd)]
        if fact.kind == "file":
            yield fact


def read_executable(path: str) -> Executable:
    """What one regular file needs to be started."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return NOTHING
    try:
        head = os.pread(fd, SCRIPT_HEAD, 0)
        if head[:2] == b"#!":
            return _script(head)
        return Executable("elf", os.fsdecode(_elf_interpreter(fd, head))) if head[:4] == b"\x7fELF" else NOTHING
    except (OSError, LookupError, struct.error):
        return NOTHING
    finally:
        os.close(fd)


def _script(head: bytes) -> Executable:
    """As load_script() of the kernel reads it: up to the first blank after the blanks."""
    line = head[2:].split(b"\n", 1)[0].replace(b"\t", b" ").strip(b" ")
    name = line.split(b" ", 1)[0].split(b"\0", 1)[0]
    return Executable("script", os.fsdecode(name)) if name else NOTHING


def _elf_interpreter(fd: int, head: bytes) -> bytes:
    """The path in PT_INTERP; b"" for a static program. Raises KeyError, struct.error, OSError for what is malformed."""
    layout, order = LAYOUTS[head[4]], BYTE_ORDERS[head[5]]
    table, size, count = struct.unpack_from(order + layout.file, head)
    form = struct.Struct(order + layout.program)
    for index in range(min(count, MANY_HEADERS)):
        kind, at, length = form.unpack(os.pread(fd, form.size, min(table + index * size, FARTHEST)))
        if kind == PT_INTERP:
            return os.pread(fd, min(length, PATH_MAX), min(at, FARTHEST)).split(b"\0", 1)[0]
    return b""
