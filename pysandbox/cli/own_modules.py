"""A finder for the modules of this package, in a process that is ours alone.

A first run imports some 150 of them. Python's own way asks every finder for each, lists directories, tries a suffix
after the other, and reads through three layers of files: a fifteenth of the run. Here a name is turned into a path,
and what Python has compiled is loaded where the head says that it is of this source (PEP 3147, PEP 552): as
`SourceFileLoader` judges it, which does everything else: what is not compiled yet, is stale, or is judged otherwise.
"""

from __future__ import annotations

import sys
from _frozen_importlib import ModuleSpec  # importlib.machinery's, which would be imported for it
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from marshal import loads
from os import O_CLOEXEC, O_RDONLY, close, fstat, read, stat
from os import open as open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import stat_result
    from types import CodeType

PACKAGE = __package__.partition(".")[0] + "."
DIRECTORY = __file__.rpartition("/")[0].rpartition("/")[0]
HEAD = 16  # bytes: the magic number, flags, the source's time and size
BY_TIME = MAGIC_NUMBER + bytes(4)  # flags: it is of the source that has this time and size


def find_own_modules() -> None:
    """From now on, in front of all other finders. Nothing is changed where compiled modules are kept otherwise."""
    plain = sys.pycache_prefix is None and not sys.flags.optimize and sys.implementation.cache_tag
    if plain and DIRECTORY.startswith("/"):
        sys.meta_path.insert(0, OwnModules)  # a class serves as its only object


class OwnModules:
    """importlib.abc.MetaPathFinder."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """None for what is not a Python file of ours, such as an extension."""
        if not name.startswith(PACKAGE):
            return None
        at = f"{DIRECTORY}/{name[len(PACKAGE) :].replace('.', '/')}"
        for source, places in ((f"{at}.py", None), (f"{at}/__init__.py", [at])):
            try:
                found = stat(source)
            except OSError:
                continue
            folder, _, file = source.rpartition("/")
            cached = f"{folder}/__pycache__/{file[:-3]}.{sys.implementation.cache_tag}.pyc"
            spec = ModuleSpec(name, OwnLoader(name, source, cached, found), origin=source)
            spec.has_location, spec.cached = True, cached
            spec.submodule_search_locations = places
            return spec
        return None


class OwnLoader(SourceFileLoader):
    def __init__(self, name: str, source: str, cached: str, found: stat_result) -> None:
        super().__init__(name, source)
        self.cached, self.found = cached, found

    def get_code(self, fullname: str) -> CodeType | None:
        return self._compiled() or super().get_code(fullname)

    def _compiled(self) -> CodeType | None:
        """None where there is none that is certainly of this source."""
        try:
            fd = open_file(self.cached, O_RDONLY | O_CLOEXEC)
        except OSError:
            return None
        try:
            content = read(fd, fstat(fd).st_size)
        finally:
            close(fd)
        of_source = (int(self.found.st_mtime), self.found.st_size)
        if content[:HEAD] != BY_TIME + b"".join((each & 0xFFFFFFFF).to_bytes(4, "little") for each in of_source):
            return None
        try:
            code: CodeType = loads(memoryview(content)[HEAD:])
        except (EOFError, ValueError, TypeError):  # cut off
            return None
        return code
