"""Denied and masked names that were not there when a cage was made, in a directory that it is shown and cannot write.

Nothing can be laid over a name that is absent, and in a directory that the cage only reads no placeholder of ours is
left. So what the host makes there would be shown; whoever is about to start something asks here first. Any thread may
ask.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from pysandbox.live.services import CageService
from pysandbox.probe.facts import PathFact
from pysandbox.probe.paths import watch_these


class AwaitedNames(CageService):
    """`absent`: each was missing at the last look."""

    def __init__(self, absent: Collection[PathFact]) -> None:
        self._paths = [fact.path for fact in absent]
        self._holds, self._are_absent = True, watch_these(absent)

    @property
    def covers(self) -> bool:
        """What was shown once may be held open: it stays so."""
        self._holds = self._holds and self._are_absent()
        return self._holds

    @property
    def uncovered(self) -> str:
        if self._holds:
            return ""
        return next((path for path in self._paths if os.path.lexists(path)), "")
