"""From a command to what its Python needs: the interpreter, its environment (prefix), the installation that this was
made from (base prefix), and the links between them.

    V/bin/pytest  #!  V/bin/python  ->  /home/u/.local/share/uv/python/cpython-3.12/bin/python3.12
                      V/pyvenv.cfg: home = /home/u/.local/share/uv/python/cpython-3.12/bin

A script of the user's own is followed by its `#!`, also through env(1); a shim of pyenv by its place. Where a cage may
have written what is gone by (`ground.py`), it leads to installations of Python alone: anything else is an error, which
says what to grant by hand if that is meant.
"""

from __future__ import annotations

import os

from pysandbox.policy.below import covers
from pysandbox.policy.toolchain import installation
from pysandbox.policy.toolchain.shebang import interpreter
from pysandbox.shapes import TYPE_CHECKING, NoReturn, Protocol, dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pysandbox.policy.toolchain.ground import Ground

SHIMS = "shims"
PYENV = (SHIMS, "versions", "version", "bin", "libexec", "completions", "plugins", "pyenv.d")
MOST_LINKS = 40  # as the kernel's own (MAXSYMLINKS)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What is to be shown besides, read-only, for one command; `because` says why, for whoever reads the policy.
    `bins`: where the programs of its environment lie."""

    paths: tuple[str, ...]
    because: str
    bins: tuple[str, ...]


class LedAstray(Exception):
    """A command that leads to what is not granted for its sake; and what to do next."""


class Looked(Protocol):
    """What an answer depends on (`compose.Dependencies`)."""

    @property
    def paths(self) -> set[str]: ...
    @property
    def programs(self) -> dict[str, str | None]: ...


class Finder(Protocol):
    """What knows where programs are (`search.Search`)."""

    @property
    def cwd(self) -> str: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def stranger(self) -> bool: ...
    @property
    def looked(self) -> Looked: ...
    def found(self, name: str, /) -> str | None: ...


@dataclass(slots=True)
class Look:
    """One look from one command. `search.looked` is added to: all that the answer depends on."""

    search: Finder
    ground: Ground
    paths: dict[str, None] = field(default_factory=dict)
    trees: list[str] = field(default_factory=list)
    bins: list[str] = field(default_factory=list)
    led: bool = False  # whether a cage may have written the command

    def of(self, name: str) -> Toolchain | None:
        found = self.search.found(name)
        if found is None:
            return None
        program = os.path.normpath(os.path.abspath(found))
        self.led = self.ground.is_loose(program)
        if not (self._is_shim(program) or self._is_python(program, program) or self._is_script(program)):
            return None
        return Toolchain(tuple(self.paths), self._because(name), tuple(self.bins))

    def _because(self, name: str) -> str:
        trees = " and ".join(dict.fromkeys(self.trees or self.paths))
        return f"Visible and read-only because {name!r} needs it to run: {trees}." if self.paths else ""

    # ---- what the command is ------------------------------------------------------------------------------------

    def _is_shim(self, program: str) -> bool:
        directory, name = os.path.split(os.path.dirname(program))
        root = os.path.realpath(directory)
        if name != SHIMS or not (os.path.isdir(f"{root}/versions") and os.path.exists(f"{root}/libexec/pyenv")):
            return False
        self._judge(directory, root, program)
        self._show(directory, root, PYENV)
        self.bins.append(os.path.dirname(program))
        return True

    def _is_script(self, program: str) -> bool:
        real = os.path.realpath(program)
        words = interpreter(real)
        if words is None:
            return False
        self.search.looked.paths.add(real)
        named, searched = words
        found = self.search.found(searched) if searched else named
        if found is None:
            return False
        found = os.path.normpath(os.path.join(self.search.cwd, found))
        by_path = searched and "/" not in searched  # then it is the user's PATH that leads there
        if not self._is_python(found, found if by_path else program):
            return False
        self._show_file(program)
        return True

    def _is_python(self, program: str, named_by: str) -> bool:
        real = os.path.realpath(program)
        if not (installation.is_python(program) or installation.is_python(real)) or not os.path.isfile(real):
            return False
        self.search.looked.programs[program] = real if os.access(real, os.X_OK) else None
        root = os.path.dirname(os.path.dirname(program))
        self.search.looked.paths.add(os.path.join(root, installation.CONFIG))
        home = installation.home_of(root)
        if home is not None:
            self._environment(root, named_by)
            if home.startswith("/"):
                self._base(os.path.dirname(os.path.normpath(home)), root)
        self._base(os.path.dirname(os.path.dirname(real)), None)
        if interpreter(real) is None:
            self._show_links(program)
        return True

    # ---- the trees ----------------------------------------------------------------------------------------------

    def _environment(self, root: str, named_by: str) -> None:
        real = os.path.realpath(root)
        self.bins.append(f"{root}/bin")
        if not self.ground.is_shown(real) and real not in self.ground.chosen:
            self._judge(root, real, named_by)
        self._show(root, real, None)

    def _base(self, root: str, said_by: str | None) -> None:
        """`said_by`: the environment that names it, which may name anything."""
        real = os.path.realpath(root)
        if real in self.trees:
            if root != real:
                self._show(root, real, None)
            return
        if self.ground.is_shown(real):
            if not self.ground.is_loose(root):
                self._add(root)
            return
        self.search.looked.paths.add(f"{real}/lib")
        if not self._is_installation(real):
            if said_by is not None and os.path.exists(real):
                config = os.path.join(said_by, installation.CONFIG)
                self._refuse(f"{config!r} says that its Python is in {root!r}, where none is installed", real)
            return
        self._show(root, real, None)

    def _is_installation(self, real: str) -> bool:
        """By what no cage can have put there."""
        landmarks = [f"{real}/{name}" for name in installation.libraries(real)]
        return not self.ground.is_private(real) and any(not self.ground.is_loose(each) for each in landmarks)

    def _judge(self, root: str, real: str, named_by: str) -> None:
        """Raises LedAstray where a cage may have chosen this environment, and for what is no place of one."""
        if self.ground.is_private(real):
            self._refuse(f"{real!r} is a place for what is secret, and no environment of Python", real)
        by = next((each for each in (named_by, root) if self.ground.leads_out(each, real)), None)
        if by is None and self.search.stranger and not self.ground.is_shown(real) and self._is_a_path(named_by):
            by = named_by
        if by is not None:
            self._refuse(f"{by!r} leads to the environment {real!r}, and a cage may have written that it does", real)

    def _is_a_path(self, named_by: str) -> bool:
        """Not what the user's own PATH leads to."""
        directories = (self.search.env.get("PATH") or os.defpath).split(":")
        return os.path.dirname(named_by) not in directories

    def _refuse(self, what: str, place: str) -> NoReturn:
        suggestion = "make the environment anew"
        if not (self.ground.is_private(place) or self.ground.is_wide(place)):
            import shlex

            suggestion += f'; if it is meant, --allow {shlex.quote(place)} (in Python: allow=["{place}"])'
        raise LedAstray(what, suggestion)

    # ---- what is shown ------------------------------------------------------------------------------------------

    def _show(self, root: str, real: str, names: tuple[str, ...] | None) -> None:
        """The parts of a tree, by the name that leads to it."""
        self.trees.append(real)
        if self.ground.is_shown(real) and (root == real or self.ground.is_loose(root)):
            return
        self.search.looked.paths.add(real)
        wide = self.ground.is_wide(real)
        name = real if self.ground.is_loose(root) else root
        for part in installation.parts(real, wide=wide) if names is None or wide else names:
            if os.path.lexists(f"{real}/{part}"):
                self._add(f"{name}/{part}".rstrip("/"))

    def _show_links(self, program: str) -> None:
        """The links from an environment's interpreter to the installed one, which the kernel follows in the cage: those
        in what is shown are there, and so the first name outside of that is what it has to find."""
        for _ in range(MOST_LINKS):
            if not (self.ground.is_loose(program) or any(covers(known, program) for known in self.paths)):
                self._show_file(program)
                return
            try:
                program = os.path.normpath(
                    os.path.join(os.path.realpath(os.path.dirname(program)), os.readlink(program))
                )
            except OSError:
                return

    def _show_file(self, program: str) -> None:
        """A program itself, with the links to it; but not what only a cage may have led to."""
        real = os.path.realpath(program)
        known = self.ground.is_shown(real) or any(covers(tree, real) for tree in self.trees)
        led = self.led or self.ground.leads_out(program, real)
        if known or not (led or self.ground.is_private(real)):
            self._add(program)

    def _add(self, path: str) -> None:
        if self.ground.is_shown(path) and self.ground.is_shown(os.path.realpath(path)):
            return  # the links in what is shown are there
        if not any(covers(known, path) for known in self.paths):
            self.paths[path] = None
