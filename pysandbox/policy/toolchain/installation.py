"""What a virtual environment and an installation of Python look like on the disk, and which of their paths are theirs.

An environment is a directory with a pyvenv.cfg. An installation is known by the module that CPython itself finds its
library by, lib/pythonX.Y/os.py. A directory that holds nothing but such a tree is shown whole; of any other, such as a
project's, the directories of the tree alone; of one that holds a user's other files besides (~/.local), the library.
"""

from __future__ import annotations

import os
from itertools import islice

from pysandbox.policy.toolchain.shebang import first_bytes

CONFIG = "pyvenv.cfg"
LANDMARK = "os.py"
LARGEST = 16 << 10  # bytes of a pyvenv.cfg
MOST_NAMES = 512  # of a directory that is listed
PYTHONS = ("python", "pypy")
VERSION = frozenset("0123456789.t")  # 3, 3.12, 3.13t

PARTS = (CONFIG, "bin", "lib", "lib64", "include", "share", "ssl")
OTHERS = frozenset((*PARTS, "etc", "man", "libexec", "local", ".gitignore", ".lock", "CACHEDIR.TAG"))


def is_python(path: str) -> bool:
    """By what the program is called: python, python3, pypy3.10."""
    return _is_named(os.path.basename(path))


def _is_named(name: str) -> bool:
    return any(name.startswith(each) and VERSION.issuperset(name[len(each) :]) for each in PYTHONS)


def home_of(root: str) -> str | None:
    """What the pyvenv.cfg of an environment says of the Python it was made with, "" where it says nothing; None where
    this is no environment."""
    config = os.path.join(root, CONFIG)
    if not os.path.isfile(config):
        return None
    for line in first_bytes(config, LARGEST).decode(errors="surrogateescape").splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() == "home":
            return value.strip() if "\0" not in value else ""
    return ""


def libraries(root: str) -> tuple[str, ...]:
    """The directories of the standard library, as lib/python3.12; none where this is no installation."""
    return tuple(f"{lib}/{name}" for lib in ("lib", "lib64") for name in names(f"{root}/{lib}")
                 if _is_named(name) and os.path.isfile(f"{root}/{lib}/{name}/{LANDMARK}"))  # fmt: skip


def names(directory: str) -> tuple[str, ...]:
    try:
        with os.scandir(directory) as entries:
            return tuple(sorted(entry.name for entry in islice(entries, MOST_NAMES + 1)))
    except (OSError, ValueError):
        return ()


def parts(root: str, *, wide: bool) -> tuple[str, ...]:
    """The names below it that make the tree; "" for the whole."""
    if wide:
        found = (name for name in names(f"{root}/lib") if _is_named(name) or name.startswith("libpython"))
        config = (CONFIG,) if os.path.isfile(f"{root}/{CONFIG}") else ()
        return (*config, *(f"lib/{name}" for name in found))
    there = names(root)
    if (OTHERS if CONFIG in there else frozenset(PARTS)).issuperset(there):  # ~/opt may hold much, and a Python besides
        return ("",)
    return tuple(name for name in PARTS if name in there)
