"""A tree of the host, and what somebody wrote over it: by a real overlay mount, in a user namespace of its own.

The marks in the upper directory are the kernel's, so what reads them here reads what it will read of a cage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pysandbox.launch import native
from pysandbox.launch.removal import remove_tree
from pysandbox.probe.file_systems import of_magic
from pysandbox.probe.opening import Opening
from pysandbox.workspace.upper import Quota, Tree, Upper, UpperEntry
from pysandbox.workspace.walk import open_file, read_link, walk_upper

MOUNT = "mount -t overlay overlay -o userxattr,xino=off,lowerdir=lower,upperdir=upper,workdir=work merged"
PRELUDE = "import ctypes, os, shutil, socket, stat, sys\nfrom pathlib import Path\n"
LOOK = """
def look(root):
    import hashlib, os, stat
    found = {}
    for above, folders, files in os.walk(os.fsencode(root)):
        for name in folders + files:
            path = os.path.join(above, name)
            state = os.lstat(path)
            kind, said = stat.S_IFMT(state.st_mode), ""
            if stat.S_ISREG(state.st_mode) and state.st_mode & 0o400 and state.st_size < 1 << 27:
                with open(path, "rb") as file:
                    said = hashlib.sha256(file.read()).hexdigest()
            elif stat.S_ISLNK(state.st_mode):
                said = os.fsdecode(os.readlink(path))
            times = state.st_mtime_ns if not stat.S_ISDIR(state.st_mode) else 0
            mode = stat.S_IMODE(state.st_mode)
            marks = [] if stat.S_ISLNK(state.st_mode) or not state.st_mode & 0o400 else sorted(
                [each, os.getxattr(path, each).hex()] for each in os.listxattr(path) if each.startswith("user.")
                and not each.startswith("user.overlay."))
            found[os.fsdecode(os.path.relpath(path, os.fsencode(root)))] = [kind, mode, said, times, marks]
    return found
"""
WROTE = "\nimport json; json.dump(look('.'), open(os.environ['VIEW'], 'w'))\n"

_names: dict[str, Any] = {}
exec(LOOK, _names)
look: Callable[[Path], dict[str, list[Any]]] = _names["look"]  # a tree: names, types, modes, contents, times


def file_system(path: Path) -> int:
    """Its magic number, by statfs(2)."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return native.file_system(fd)
    finally:
        os.close(fd)


def takes_layers(place: Path) -> bool:
    """Whether layers of copy-on-write directories can lie below it: not in a container, on its own overlay."""
    free = os.statvfs(place)
    return of_magic(file_system(place)).takes_layer and free.f_bavail * free.f_frsize > 3 << 30


class DirectoryUpper(Upper):
    """An upper directory of the host's, with the tree below it."""

    def __init__(self, place: Path, opening: Opening, *, denied: tuple[bytes, ...] = ()) -> None:
        self.place, self.still = place, True
        lower = place / "lower"
        self.tree = Tree(str(lower), os.open(lower, os.O_RDONLY | os.O_DIRECTORY), opening, denied)
        self._fd = os.open(place / "upper", os.O_RDONLY | os.O_DIRECTORY)

    def walk(self) -> Iterator[UpperEntry]:
        return walk_upper(self._fd)

    def open(self, path: bytes) -> int:
        return open_file(self._fd, path)

    def readlink(self, path: bytes) -> bytes:
        return read_link(self._fd, path)

    def quota(self) -> Quota:
        return Quota(sum(each.blocks * 512 for each in self.walk()))

    def is_still(self) -> bool:
        return self.still

    def drop(self) -> None:
        for fd in (self.tree.fd, self._fd):
            if fd >= 0:
                os.close(fd)
        self.tree, self._fd = self.tree._replace(fd=-1), -1


class Overlay:
    """A lower tree that is filled first, and then written over from inside."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("lower", "upper", "work", "merged"):
            (place / name).mkdir(parents=True)

    @property
    def lower(self) -> Path:
        return self.place / "lower"

    @property
    def layer(self) -> Path:
        """Where what was written lies."""
        return self.place / "upper"

    def again(self, upper: Upper) -> Upper:
        """Another hold of what was written last."""
        return DirectoryUpper(self.place, upper.tree.opening)

    def write(self, program: str, *, denied: tuple[bytes, ...] = (), seen: bool = True) -> Upper:
        """Runs a Python program in the merged tree, as root of a user namespace; what it wrote."""
        opening = Opening.now(file_system(self.lower))
        script = f'cd {self.place} && {MOUNT} && cd merged && exec "$@"'
        code = PRELUDE + LOOK + textwrap.dedent(program) + (WROTE if seen else "")
        command = ["unshare", "-Urm", "sh", "-c", script, "sh", sys.executable, "-c", code]
        environment = {**os.environ, "VIEW": str(self.place / "view.json")}
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert ended.returncode == 0, ended.stderr
        return DirectoryUpper(self.place, opening, denied=denied)

    @property
    def view(self) -> dict[str, list[Any]]:
        """What whoever wrote last saw then."""
        found: dict[str, list[Any]] = json.loads((self.place / "view.json").read_text())
        return found

    def remove(self) -> None:
        """The kernel leaves a directory of mode 000 in `work`, and a test any other."""
        remove_tree(str(self.place))
