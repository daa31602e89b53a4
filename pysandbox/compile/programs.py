"""What `allow_execve` lists, made canonical: no view, no mount and no rule yet (those are in `exec_list`).

    files          listed by name; symlinks followed, so that an entry stands for one file and not for a name
    roots          the directories of the entries `/dir/*`
    interpreters   the dynamic linkers that the listed files need; the kernel opens them, commands may not be one
    libraries      where shared libraries live: they may be mapped, never executed by the list

A script needs its `#!` program on the list, and is refused without: an interpreter is what runs, so whoever allows it
should read its name. Nothing of an entry that the host lacks is granted, which a Note says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pysandbox.compile.notes import grant_skipped
from pysandbox.errors import SandboxCompileError
from pysandbox.note import Note
from pysandbox.policy.model import Policy
from pysandbox.policy.paths_wanted import LIBRARY_DIRECTORIES, LOADERS, absolute, executable_path, libraries_beside
from pysandbox.probe.facts import Executable, PathFact, PathFacts
from pysandbox.shapes import dataclass, field

ALLOW_EXECVE = "process.allow_execve"
# The directories of a full cage that it makes itself: a `/dir/*` may name them though the host has no such directory.
OWN_PLACES = ("/tmp", "/dev/shm", "/scratch")
# A file that never had a path is under no Landlock rule and on no mount, and may be executed by /proc/self/fd.
NAMELESS = "memfd_create"


@dataclass(frozen=True, slots=True)
class Programs:
    """As listed, from `programs`; cut down to what the cage sees, from `exec_list.visible`. The keys are real paths."""

    files: Mapping[str, PathFact]
    roots: Mapping[str, PathFact]
    interpreters: Mapping[str, PathFact]
    libraries: Mapping[str, PathFact]
    absent: tuple[PathFact, ...]
    notes: tuple[Note, ...]

    @property
    def single(self) -> dict[str, PathFact]:
        """Every file that the kernel may open to execute it."""
        return {**self.files, **self.interpreters}

    @property
    def listed(self) -> tuple[str, ...]:
        """The list in its canonical spelling, for whoever checks a command by its real path."""
        return (*self.files, *(f"{root.rstrip('/')}/*" for root in self.roots))


@dataclass(slots=True)
class _CollectedPrograms:
    """Programs that are still being collected."""

    files: dict[str, PathFact] = field(default_factory=dict)
    roots: dict[str, PathFact] = field(default_factory=dict)
    interpreters: dict[str, PathFact] = field(default_factory=dict)
    libraries: dict[str, PathFact] = field(default_factory=dict)
    absent: list[PathFact] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def programs(self) -> Programs:
        proxy = MappingProxyType
        return Programs(proxy(self.files), proxy(self.roots), proxy(self.interpreters), proxy(self.libraries),
                        tuple(self.absent), tuple(self.notes))  # fmt: skip


def programs(policy: Policy, paths: PathFacts) -> Programs | None:
    """None when every program may be executed. Raises SandboxCompileError for what a list cannot hold."""
    if not policy.allow_execve:
        return None
    _refuse_files_without_a_path(policy)
    found = _CollectedPrograms()
    for entry in policy.allow_execve:
        _collect(found, entry, paths)
    for fact in list(found.files.values()):
        _collect_interpreter(found, fact, paths)
    if found.roots or any(_is_unknown(real, paths) for real in found.files):
        _add_existing(found.interpreters, LOADERS, paths, "file")
    _add_existing(found.libraries, LIBRARY_DIRECTORIES, paths, "dir")
    beside = (name for fact in found.files.values() for name in _libraries_of(fact))
    # Through a link, an earlier cage that could write there would name any directory.
    _add_existing(found.libraries, (name for name in beside if paths[name].real == name), paths, "dir")
    return found.programs()


def _refuse_files_without_a_path(policy: Policy) -> None:
    from pysandbox.compile.profiles import names_of, profile

    if NAMELESS in policy.deny_syscalls:
        return
    if NAMELESS in policy.allow_syscalls:
        key, word = "syscalls.allow_extra", f"{NAMELESS!r} is allowed"
    elif NAMELESS in names_of(profile(policy.seccomp).opens):
        key, word = "syscalls.profile", f"the profile {policy.seccomp!r} allows {NAMELESS!r}"
    else:
        return
    raise SandboxCompileError(
        f"{word}: what it makes can be executed past every list, and allow_execve is set", key=key,
        suggestion=f'add "{NAMELESS}" to syscalls.deny_extra, or leave allow_execve out',
    )  # fmt: skip


def _collect(found: _CollectedPrograms, entry: str, paths: PathFacts) -> None:
    fact, tree = paths[absolute(executable_path(entry), paths.cwd)], entry.endswith("/*")
    if tree:
        if fact.real == "/":
            raise _wrong(entry, "lists every program there is", "leave allow_execve out to allow all")
        if fact.kind in ("file", "other"):
            raise _wrong(entry, "is no directory", f'write "{executable_path(entry)}" for the file itself')
        if fact.kind == "missing" and fact.real not in OWN_PLACES:
            found.absent.append(fact)
        else:
            found.roots[fact.real] = fact
    elif fact.kind == "dir":
        raise _wrong(entry, "is a directory", f'write "{entry.rstrip("/")}/*" for all that is in it')
    elif fact.kind == "file":
        found.files[fact.real] = fact
    elif fact.kind == "missing":
        found.absent.append(fact)
    else:
        found.notes.append(grant_skipped(ALLOW_EXECVE, entry, "it is no regular file"))


def _wrong(entry: str, what: str, suggestion: str) -> SandboxCompileError:
    return SandboxCompileError(f"{entry!r} {what}", key=ALLOW_EXECVE, suggestion=suggestion)


def _collect_interpreter(found: _CollectedPrograms, fact: PathFact, paths: PathFacts) -> None:
    needs = paths.executables.get(fact.real, Executable("other"))
    interpreter = paths.facts.get(needs.interpreter)
    if needs.format == "elf" and interpreter is not None and interpreter.kind == "file":
        found.interpreters[interpreter.real] = interpreter
    elif needs.format == "script" and (interpreter is None or not _lists(found, interpreter.real)):
        if interpreter is None or interpreter.kind != "missing":
            raise _wrong(
                fact.path, f"is a script for {needs.interpreter!r}, which is not on the list",
                f'add "{needs.interpreter}" to allow_execve; it can then run any script that it can read',
            )  # fmt: skip
        found.notes.append(grant_skipped(ALLOW_EXECVE, fact.path, f"its {needs.interpreter!r} does not exist"))


def _is_unknown(real: str, paths: PathFacts) -> bool:
    """A program that may be executed and not read, such as one of mode 0711, names no linker to us."""
    return paths.executables.get(real, Executable("other")).format == "other"


def _lists(found: _CollectedPrograms, real: str) -> bool:
    return real in found.files or any(real.startswith(f"{root}/") for root in found.roots)


def _libraries_of(fact: PathFact) -> Iterator[str]:
    for name in (fact.path, *(link for link, _ in fact.links), fact.real):
        yield from libraries_beside(name)


def _add_existing(table: dict[str, PathFact], names: Iterable[str], paths: PathFacts, kind: str) -> None:
    for name in names:
        fact = paths.facts.get(name)
        if fact is not None and fact.kind == kind:
            table[fact.real] = fact
