"""Policy lines on their way into a recipe: which file may be edited, what would change, and the write.

A recipe that ships with the package, or that the system or somebody else owns, is never edited: an update, or an
administrator, would not expect it. The write is atomic: the file is the old one or the new one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pysandbox.errors import PolicyError
from pysandbox.policy.edit import add_to, layer_of
from pysandbox.policy.match import covers
from pysandbox.policy.reading import recipe_text
from pysandbox.policy.recipe import Recipe, shipped_file

SYSTEM = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/proc", "/sys", "/dev")
OWN = "copy it to a file of your own, and give that with -r after it"


@dataclass(frozen=True, slots=True)
class Proposal:
    """`file` as it is and as it would be; `file` is real, so that a link stays a link."""

    file: str
    before: str
    after: str

    @classmethod
    def of(cls, file: str, lines: Sequence[str]) -> Proposal:
        """Raises PolicyError for a file that may not be edited, or a line that is not one of a policy."""
        real = os.path.realpath(file)
        demand_own(real)
        before = recipe_text(real) if os.path.lexists(real) else ""
        wanted = Recipe({})
        for line in lines:
            wanted = wanted.merge(Recipe(layer_of(line)))
        return cls(real, before, add_to(before, wanted.given, file))

    @property
    def nothing_new(self) -> bool:
        return self.before == self.after

    def difference(self) -> Iterator[str]:
        old, new = self.before.splitlines(), self.after.splitlines()
        return difflib.unified_diff(old, new, self.file, f"{self.file} (proposed)", lineterm="")

    def write(self) -> None:
        """Raises OSError, and then the file is what it was."""
        mode = os.stat(self.file).st_mode & 0o777 if os.path.exists(self.file) else 0o666 & ~_umask()
        draft = f"{self.file}.{os.getpid()}.new"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as stream:
                stream.write(self.after)
                stream.flush()
                os.fchmod(fd, mode)
                os.fsync(fd)
            os.replace(draft, self.file)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise


def demand_own(real: str) -> None:
    """Raises PolicyError unless the real path is a recipe of the caller's own, or would be."""
    if covers(os.path.dirname(shipped_file("base")), real):
        raise PolicyError("ships with pysandbox and is not edited", file=real, suggestion=OWN)
    if any(covers(place, real) for place in SYSTEM):
        raise PolicyError("belongs to the system and is not edited", file=real, suggestion=OWN)
    try:
        found = os.stat(real)
    except FileNotFoundError:
        return
    if found.st_uid != os.geteuid():
        raise PolicyError("belongs to another user and is not edited", file=real, suggestion=OWN)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
