"""What a refusal was told with, on its way into a file: which one may be edited, what would change, and the write.

A recipe that ships with the package, or that the system or somebody else owns, is never edited: an update, or an
administrator, would not expect it. The write is atomic: the file is the old one or the new one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pysandbox.errors import PolicyError
from pysandbox.policy.also import layer_of
from pysandbox.policy.edit import add_to, add_to_manifest
from pysandbox.policy.manifest import MANIFEST, parse_manifest
from pysandbox.policy.match import covers
from pysandbox.policy.reading import recipe_text
from pysandbox.policy.recipe import Recipe, shipped_file
from pysandbox.shapes import dataclass

SYSTEM = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/proc", "/sys", "/dev")
OWN = "copy it to a file of your own, and give that with -r after it"


@dataclass(frozen=True, slots=True)
class Proposal:
    """`file` as it is and as it would be; `file` is real, so that a link stays a link."""

    file: str
    before: str
    after: str

    @classmethod
    def of(cls, file: str, fixes: Sequence[str], sandbox: str = "") -> Proposal:
        """Raises PolicyError for a file that may not be edited, or a text that is no table [[also]].
        `sandbox` is the one that was run, where the file is a manifest."""
        real = os.path.realpath(file)
        check_own(real)
        before = recipe_text(real) if os.path.lexists(real) else ""
        wanted = Recipe({})
        for fix in fixes:
            wanted = wanted.merge(Recipe(layer_of(fix)))
        if os.path.basename(file) == MANIFEST:
            return cls(real, before, add_to_manifest(before, wanted.given, sandbox or _only(before, file), file))
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


def _only(text: str, file: str) -> str:
    """The one sandbox of a manifest. Raises PolicyError where there are several: the run does not say which."""
    manifest = parse_manifest(text, file)
    if len(manifest.sandboxes) > 1:
        raise PolicyError(f"has several sandboxes: {', '.join(manifest.sandboxes)}", file=file,
                          suggestion="explain a run of `pysandbox up NAME`, which says which one")  # fmt: skip
    return manifest.first.name


def check_own(real: str) -> None:
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
