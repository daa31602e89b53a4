"""What of an app is started, in a sentence: a program of the machine, a process in a cage, or nothing.

A process has more reach than a program, by the system's programs and libraries that its cage shows it, and another
command may do what the last one did not: an update that becomes one, or starts another one, gets more, and is told so.
What a command reads is of the package, and changes with every update. Pure.
"""

from __future__ import annotations

from pysandbox.apps.manifest import AppManifest
from pysandbox.apps.plugin import in_sentence

SHOWN = 8  # words of a command
UNKNOWN = "until now: unknown, since its files are not those that were granted"


def told_entrypoint(manifest: AppManifest) -> str:
    if manifest.program:
        return f"runs {in_sentence(manifest.program)} in the machine, as no process"
    if not manifest.argv:
        return "runs nothing of its own"
    more = len(manifest.argv) - SHOWN
    words = " ".join(map(in_sentence, manifest.argv[:SHOWN])) + (f" and {more} more words" if more > 0 else "")
    return f"runs a process in a cage: {words}"


def wider_entrypoint(new: AppManifest, old: AppManifest | None) -> list[str]:
    """What an update starts and its last version did not, as a sentence; `old` None for files that nobody knows any
    more."""
    if not new.argv or (old is not None and new.argv == old.argv):
        return []
    before = f"until now: {told_entrypoint(old)}" if old is not None else UNKNOWN
    return [f"{told_entrypoint(new)}; {before}"]
