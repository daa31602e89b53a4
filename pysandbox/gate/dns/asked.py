"""What a cage may say in the names that it asks for, where what it sends is scanned. A name that the policy spells out
says nothing; below a pattern a cage makes names up, and whoever serves the domain reads them.

Each new name below a pattern is charged what stands before the pattern's domain: 512 bytes a minute, 4,096 a cage. And
it is looked through for credentials, as names are sent: in lower case, and with its labels put together. What is
refused here is asked of nobody. Two labels of one name that are as even as data is are a warning.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from pysandbox.compile.plan import ScanPlan
from pysandbox.dlp.opaque import SHARE, share_of
from pysandbox.dlp.wanted import Wanted
from pysandbox.dlp.work import Undecodable
from pysandbox.gate.rules import Decision
from pysandbox.handlers import fix
from pysandbox.policy.names import matches
from pysandbox.shapes import NamedTuple

MINUTE = 60.0  # seconds
A_MINUTE, A_CAGE = 512, 4096  # bytes
SPREAD = 2  # labels of one name
BUDGET, UNDECODABLE = "dlp.dns-budget", "dlp.undecodable-name"
APART = b"\x01"


class RefusedName(NamedTuple):
    """`shown` is what may be told of it: of a name with a credential in it, the pattern."""

    shown: str
    decision: Decision


class NameScan:
    """What is looked for in names; made when the first is looked at. `canaries` are the cage's false credentials."""

    def __init__(self, scan: ScanPlan | None = None, canaries: Mapping[str, str] | None = None) -> None:
        self._scan, self._canaries, self._key = scan, canaries, os.urandom(16)

    @cached_property
    def _wanted(self) -> Wanted:
        scan = self._scan
        return Wanted() if scan is None else Wanted(scan.detectors, self._canaries, any_bearer=scan.any_bearer)

    def credential(self, name: str) -> str:
        """The rule of what is found in it, or "". A thief writes it in capitals again."""
        said = name.encode("utf-8", "replace")
        views = (said, said.replace(b".", b""), said.replace(b".", b"").replace(b"-", b""))
        try:
            found = self._wanted.found(APART.join((*views, *(each.upper() for each in views))), self._key)
        except Undecodable:
            return UNDECODABLE
        return f"dlp.{found[0].detector}" if found else ""


class AskedNames:
    """The names that one cage has asked for. `patterns` are all names and patterns that it may ask for."""

    def __init__(
        self, patterns: Iterable[str], clock: Callable[[], float] = time.monotonic, scan: ScanPlan | None = None,
        names: NameScan | None = None, tell: Callable[[str, str], object] = lambda host, name: None,
    ) -> None:  # fmt: skip
        """`tell` hears of the first name below each pattern that says what no word does."""
        self._names = names or NameScan(scan)
        self._share = SHARE if scan is None else scan.told_share
        self._tell, self._told = tell, set[str]()
        every = frozenset(patterns)
        self._spelled = frozenset(each for each in every if "*" not in each)
        self._patterns = sorted(every - self._spelled, key=len, reverse=True)
        self._clock = clock
        self._known: set[str] = set()  # bounded by what they are charged
        self._spent = 0
        self._recent: deque[tuple[float, int]] = deque()

    def take(self, name: str) -> RefusedName | None:
        """Charges an allowed name where it is new, or says why it is not asked for."""
        if name in self._spelled or name in self._known:
            return None
        pattern = next((each for each in self._patterns if matches(each, name)), "")
        size = len(name) - len(pattern.lstrip("*"))
        now = self._clock()
        while self._recent and self._recent[0][0] <= now - MINUTE:
            self._recent.popleft()
        if found := self._names.credential(name):  # before its budget: what is over it is told
            return RefusedName(pattern or "a name", Decision(False, found, ""))
        if self._spent + size > A_CAGE or sum(each for _, each in self._recent) + size > A_MINUTE:
            return RefusedName(name, Decision(False, BUDGET, fix.of_host(name)))
        self._known.add(name)
        self._spent += size
        self._recent.append((now, size))
        if pattern not in self._told and self._is_spread(name[: len(name) - len(pattern.lstrip("*"))]):
            self._told.add(pattern)
            self._tell(pattern, name)
        return None

    def _is_spread(self, said: str) -> bool:
        """Whether two of these labels are as even as data is (`dlp.opaque`)."""
        letters = (each.replace("-", "") for each in said.split("."))
        return sum(share_of(each) >= self._share for each in letters) >= SPREAD
