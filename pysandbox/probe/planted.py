"""What a cage has made in a place that nothing could cover: a guarded name (`policy.guarded`) that was not there.

Over a name that is absent no mount can be laid, and a placeholder would be left behind by every host that dies (ADR
0003). So each of them is looked for again when a command has ended, and what is there by then is told. The list is
fixed when the plan is made; nothing is walked, and no link that the command made is followed. A link that was there
before (an earlier cage's, too), and a directory that nobody may search, is nothing new; what is made behind it is. The
launcher asks the same (csrc/launcher/run.c).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pysandbox.policy.guarded import Guard
    from pysandbox.probe.facts import PathFacts

    Absent = tuple[str, str]  # the directory that was granted, the name below it


class Absences:
    """Names that were not there. Calling it asks which a command that began at `since` (time.time_ns()) may have made;
    one without names is false."""

    def __init__(self, names: Sequence[Absent]) -> None:
        self.names = tuple(names)
        if not names:
            return
        from pysandbox._native import ffi, lib
        from pysandbox.probe.paths import c_texts

        texts, self._held = c_texts([text for pair in names for text in pair])
        self._table = ffi.new("struct psb_absent[]", [(texts[tree], texts[name], 0) for tree, name in names])
        self._new, self._appeared = ffi.new, lib.psb_appeared

    def __bool__(self) -> bool:
        return bool(self.names)

    def __call__(self, since: int) -> tuple[str, ...]:
        if not self.names:
            return ()
        there = self._new("uint8_t[]", len(self.names))
        if not self._appeared(self._table, len(self.names), since, there):
            return ()
        return tuple(f"{tree}/{name}" for (tree, name), is_there in zip(self.names, there, strict=True) if is_there)


def absences(seen: PathFacts, writable: Sequence[str]) -> Absences:
    """The guarded names that are not there, in the directories that a cage may write (real paths)."""
    absent = {
        guard.path: guard for guard in seen.guards if guard.tree in writable and seen[guard.path].kind == "missing"
    }
    first = [guard for guard in absent.values() if absent.keys().isdisjoint(_above(guard))]
    return Absences(sorted((guard.tree, guard.path.removeprefix(f"{guard.tree}/")) for guard in first))


def _above(guard: Guard) -> Sequence[str]:
    """The directories in which it would lie, below the one that was granted."""
    above, place = [], guard.path.rpartition("/")[0]
    while len(place) > len(guard.tree):
        above.append(place)
        place = place.rpartition("/")[0]
    return above


def warning(paths: Sequence[str]) -> str:
    """What is said of them, as one sentence."""
    it, listed = "it" if len(paths) == 1 else "them", ", ".join(map(repr, paths))
    return (f"the command made {listed}: tools of this host act on {it}, outside of any cage; look at {it} before you "
            f"go on, or remove {it}")  # fmt: skip
