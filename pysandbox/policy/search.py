"""Where recipes are found, and reading them: the directories, names in them, and what a program's place calls for.

    ./.pysandbox/   $XDG_CONFIG_HOME/pysandbox/recipes/   /etc/pysandbox/recipes/   the package

The first that has a name wins. A name with a slash, or that ends in .toml, is a file. `service:x` is services/x.toml
and `tool:x` is tools/x.toml of any of them. What a project brings along is marked, for `compose` to judge: all that
lies in a .pysandbox, and where a manifest does the asking, whatever it names by its path, wherever that leads.

What reads and expands is imported where a recipe is read: most commands are started without one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pysandbox.errors import PolicyError
from pysandbox.policy import user_home
from pysandbox.policy.layers import Dependencies, Layer, Why
from pysandbox.policy.match import covers
from pysandbox.policy.places import OURS, config_home, home
from pysandbox.policy.recipe import PACKAGED, SHIPPED
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.shapes import Self, dataclass, field, replace
from pysandbox.shapes.pattern import pattern

PROJECT = ".pysandbox"
SYSTEM = "/etc/pysandbox/recipes"
VARIABLE = pattern(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
KINDS = {"service": "services", "tool": "tools"}  # service:github is services/github
FOLDERS = ("", *KINDS.values())
PATHS_OF_A_RECIPE = frozenset(("allow", "deny", "mask"))  # of what it may say where it was found (layers.BY_DETECTION)
RESERVED = ("base", "default")  # never detected; the baseline cannot be asked for either
_NAME = r"(?:(?P<kind>service|tool):)?(?P<stem>[A-Za-z0-9][A-Za-z0-9._+-]{0,63})"

MOST_NAMES = 1000  # in one directory; a project may hold any number of files, and each would be read
LARGEST_SUM = 8 << 20  # bytes of all that is read in one search

# What lies here is the system's own and calls for nothing (RCP-19).
SYSTEM_PROGRAMS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")


@dataclass(frozen=True, slots=True)
class Search:
    """One look for recipes. `unseen` holds files that are passed over, and names nobody has are then no error.

    `written`: what earlier cages of this program could write, besides the working directory.
    `stranger`: the names were not typed by the user, they stand in a manifest. `looked` is added to by every method:
    all that their answers depend on.
    """

    cwd: str
    env: Mapping[str, str]
    directories: tuple[str, ...]
    unseen: frozenset[str] = frozenset()
    stranger: bool = False
    written: tuple[str, ...] = ()
    looked: Dependencies = field(default_factory=Dependencies, compare=False)

    @classmethod
    def here(cls, cwd: str, env: Mapping[str, str], *, stranger: bool = False) -> Self:
        env = known(env)
        user = os.path.join(config_home(env), OURS, "recipes")
        looked = Dependencies(variables={"HOME", "XDG_CONFIG_HOME"})
        return cls(cwd, env, (os.path.join(cwd, PROJECT), user, SYSTEM, PACKAGED), stranger=stranger, looked=looked)

    def without(self, layers: Sequence[Layer]) -> Self:
        return replace(self, unseen=self.unseen | {layer.path for layer in layers})

    # ---- one recipe ---------------------------------------------------------------------------------------------

    def asked(self, names: Sequence[str]) -> Iterator[Layer]:
        for name in names:
            path = name if is_file(name) else self._found(name)
            if path is not None and path not in self.unseen:
                yield self.read(path, "asked", name)

    def override(self, name: str) -> Layer | None:
        """A base.toml or default.toml that takes the place of the package's own."""
        for directory in self.directories[:-1]:
            path = os.path.join(directory, f"{name}.toml")
            if path not in self.unseen and self._is_there(path):
                return self.read(path, "base", name)
        return None

    def read(self, path: str, why: Why, name: str) -> Layer:
        from pysandbox.policy.reading import contents, decoded, sha256
        from pysandbox.policy.sources import parse_baseline, parse_recipe

        file = path if os.path.isabs(path) else os.path.join(self.cwd, path)
        self.looked.paths.add(file)
        owners: list[int] = []
        content = contents(file, lambda found: owners.append(found.st_uid))
        self.looked.size += len(content)
        if self.looked.size > LARGEST_SUM:
            raise PolicyError(f"the recipes here are larger than {LARGEST_SUM} bytes together", file=file)
        text = decoded(content, path)
        parse = parse_baseline if (name, why) == ("default", "base") else parse_recipe
        foreign = self._is_foreign(path, owners[0])
        brought = foreign or self._is_brought(file, why, name)
        shared = not brought and why != "base" and not is_file(name)
        place = place_of(file) if brought else ""
        return Layer(name, path, why, parse(text, path), text, sha256(content), place, shared, foreign)

    def _is_brought(self, file: str, why: Why, name: str) -> bool:
        """Whether the project brings this file along, by its letters or by where it really lies."""
        if self.stranger and why == "asked" and is_file(name):
            return True
        return any(PROJECT in path.split("/") for path in (os.path.abspath(file), place_of(file)))

    def _is_foreign(self, path: str, owner: int) -> bool:
        """Whether what lies among the user's own recipes, or the system's, is somebody else's: root may have been given
        the HOME of another user, and XDG_CONFIG_HOME may lead anywhere. Whoever has the directory chooses its links."""
        if not any(path.startswith(f"{each}/") for each in self.directories[1:-1]):
            return False
        owners = (owner, os.lstat(path).st_uid, os.stat(os.path.dirname(path)).st_uid)
        return any(each not in (0, os.geteuid()) for each in owners)

    def _found(self, name: str) -> str | None:
        match = re.fullmatch(_NAME, name)
        if match is None:
            raise CommandRefused("is not a name of a recipe", f"for a file, write {shown(f'./{name}')}").error(
                f"recipe {name!r}"
            )
        if name == "default":
            raise CommandRefused("is the baseline of system calls, which is always there", "leave it out").error(
                "recipe 'default'"
            )
        file = f"{KINDS[match['kind']]}/{match['stem']}.toml" if match["kind"] else f"{name}.toml"
        for directory in self.directories:
            path = os.path.join(directory, file)
            if path not in self.unseen and self._is_there(path):
                return path
        if self.unseen:
            return None
        known = sorted({each for each, _ in self.available()})
        searched = ", ".join(self.directories)
        hint = _meant(name, known) or "pysandbox recipe list shows what there is"
        raise CommandRefused(f"no such recipe in {searched}", hint).error(f"recipe {name!r}")

    def _is_there(self, path: str) -> bool:
        """True for a dangling link and for a directory of that name, too: reading it then says what is wrong."""
        self.looked.paths.add(path)
        return os.path.lexists(path)

    # ---- all of them --------------------------------------------------------------------------------------------

    def available(self, problems: list[PolicyError] | None = None) -> Iterator[tuple[str, str]]:
        """(name, path) of each recipe that can be asked for or detected, each name where it is found first. A
        directory that cannot be listed is an error, or with `problems` an entry there."""
        seen = set()
        for directory in self.directories:
            self.looked.paths.update(os.path.join(directory, folder) if folder else directory for folder in FOLDERS)
            for name, path in self._names_in(directory, problems):
                if name not in seen and path not in self.unseen:
                    seen.add(name)
                    yield name, path

    def _names_in(self, directory: str, problems: list[PolicyError] | None) -> Iterator[tuple[str, str]]:
        for prefix, folder in (("", directory), *((f"{kind}:", f"{directory}/{KINDS[kind]}") for kind in KINDS)):
            try:
                files = _toml_files(folder)
            except PolicyError as error:
                if problems is None:
                    raise
                problems.append(error)
                continue
            for file in files:
                yield prefix + file.removesuffix(".toml"), os.path.join(folder, file)

    def detected(self, command: Sequence[str] | None) -> Iterator[Layer]:
        """The recipes whose match_prefix covers the program, by name. A file that cannot be read is an error: what it
        would have denied is not known. No link is followed that a cage may have made: it would choose among them."""
        program = self.program(command) if command else None
        if program is None or any(covers(directory, program) for directory in SYSTEM_PROGRAMS):
            return
        if self._is_led(self.found(command[0]) if command else None, program):
            return
        for name, path in sorted(self.available()):
            if name in RESERVED or ":" in name:
                continue
            shipped = SHIPPED.get(name) if path.startswith(f"{PACKAGED}/") else None
            if shipped is not None and not self._calls(shipped.match_prefix, program):
                continue  # known without reading the file
            layer = self.read(path, "detected", name)
            if layer.recipe.meta is not None and self._calls(layer.recipe.meta.match_prefix, program):
                yield self._from_where_it_was_found(layer)

    def _from_where_it_was_found(self, layer: Layer) -> Layer:
        """A recipe that was found by $HOME speaks of the same home, where that is not the user database's, as in the
        containers of some CI; what it denies is denied in both."""
        if os.path.realpath(home(self.env)) == os.path.realpath(user_home.home()):
            return layer
        given = dict(layer.recipe.given)
        for name in PATHS_OF_A_RECIPE & given.keys():
            own = [grant for grant in given[name] if grant.path.startswith("~/")]
            moved = tuple(replace(grant, path=f"$HOME{grant.path[1:]}") for grant in own)
            stays = tuple(grant for grant in given[name] if name != "allow" or grant not in own)
            given[name] = (*stays, *moved)
        return replace(layer, recipe=replace(layer.recipe, given=given))

    def program(self, command: Sequence[str]) -> str | None:
        """The file that the command's first word names on this host, every link of it followed; None where none is."""
        found = self.found(command[0])
        return None if found is None else os.path.realpath(found)

    def _is_led(self, found: str | None, program: str) -> bool:
        """Whether the way to a program begins where cages write, and ends elsewhere."""
        directory, name = os.path.split(os.path.abspath(found or "/"))
        begins = os.path.join(os.path.realpath(directory), name)
        here = os.path.realpath(self.cwd)
        places = [*self.written, *([] if covers(here, os.path.realpath(home(self.env))) else [here])]
        return any(covers(each, path) for each in places for path in (begins, f"{directory}/{name}")) and not any(
            covers(each, program) for each in places
        )

    def found(self, name: str) -> str | None:
        """The first file of that name, as it is named."""
        for path in self._candidates(name):
            self.looked.programs[path] = None
            if os.path.isfile(path) and os.access(path, os.X_OK):
                self.looked.programs[path] = os.path.realpath(path)
                return path
        return None

    def _candidates(self, name: str) -> list[str]:
        if "/" in name:
            return [os.path.join(self.cwd, name)]
        if not name or "\0" in name:
            return []
        self.looked.variables.add("PATH")
        path = self.env.get("PATH") or os.defpath
        return [os.path.join(self.cwd, directory, name) for directory in path.split(":")]

    def _calls(self, prefixes: Sequence[str], program: str) -> bool:
        from pysandbox.policy.expand import expand_prefixes

        expanded = expand_prefixes(prefixes, env=self.env, cwd=self.cwd, home=home(self.env))
        self.looked.variables.update(variables_in(prefixes))
        self.looked.paths.update(expanded)
        return any(covers(prefix, program) or covers(os.path.realpath(prefix), program) for prefix in expanded)


def variables_in(paths: Iterable[str]) -> Iterator[str]:
    """The names of those of the environment that stand in them."""
    return (name for path in paths if "$" in path for name in VARIABLE.findall(path))


def known(env: Mapping[str, str]) -> Mapping[str, str]:
    """With a home directory, where a service was started without one."""
    return env if env.get("HOME") else {**env, "HOME": os.path.expanduser("~")}


def _meant(name: str, known: Sequence[str]) -> str | None:
    """By what follows the kind: every service is called nearly as every other one before that."""
    names = {each.rpartition(":")[2]: each for each in known}
    return did_you_mean(name.rpartition(":")[2], names, names.__getitem__)


def place_of(path: str) -> str:
    """By which name a file is trusted: where it lies, its directory's links followed and its own not. A link to a file
    that is trusted elsewhere is not that file: what it says of `.` would be said of another directory."""
    directory, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(directory), name)


def is_file(name: str) -> bool:
    return "/" in name or name.endswith(".toml")


def _toml_files(folder: str) -> list[str]:
    """The names in it that may be recipes, sorted. PolicyError where it cannot be listed or holds too many."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_NAMES + 1), strict=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        message = f"cannot be listed: {error.strerror}"
        raise PolicyError(message, file=folder, suggestion="make it readable, or remove it") from None
    if len(names) > MOST_NAMES:
        raise PolicyError(f"holds more than {MOST_NAMES} files", file=folder, suggestion="remove what is no recipe")
    return sorted(name for name in names if name.endswith(".toml") and name != ".toml" and name[0] != ".")
