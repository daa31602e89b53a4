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
from pysandbox.gate.hidden import digest
from pysandbox.gate.rules import Decision
from pysandbox.handlers import fix
from pysandbox.policy.names import matches
from pysandbox.shapes import NamedTuple

MINUTE = 60.0  # seconds
MOST_SCANNED = 1024  # texts of one cage of which it is known what is in them
MOST_REFUSED = 1024  # new names that are looked through to be refused; what follows is told as its pattern
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
        self._scanned: dict[bytes, str] = {}  # by keyed hash: what was found
        self.looked = 0  # texts that were looked through

    @cached_property
    def _wanted(self) -> Wanted:
        scan = self._scan
        return Wanted() if scan is None else Wanted(scan.detectors, self._canaries, any_bearer=scan.any_bearer)

    def credential(self, name: str) -> str:
        """The rule of what is found in it, or "". One that comes again is not looked through again."""
        key = digest(self._key, name)
        found = self._scanned.get(key)
        if found is None:
            if len(self._scanned) >= MOST_SCANNED:
                self._scanned = {}  # any thread may be here: one step
            found = self._scanned[key] = self._look(name)
        return found

    def _look(self, name: str) -> str:
        """A thief writes it in capitals again."""
        self.looked += 1
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
        self._spent = 0  # bytes
        self._refused = self._found = 0  # new names; those with a credential in them
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
        is_over = self._spent + size > A_CAGE or sum(each for _, each in self._recent) + size > A_MINUTE
        is_over = is_over or self._found >= MOST_REFUSED  # it does nothing else
        if is_over and self._refused >= MOST_REFUSED:
            return RefusedName(pattern or "a name", Decision(False, BUDGET, ""))
        before = self._names.looked
        found = self._names.credential(name)  # before its budget: what is over it is told
        is_new = self._names.looked - before
        if found:
            self._refused, self._found = self._refused + is_new, self._found + is_new
            return RefusedName(pattern or "a name", Decision(False, found, ""))
        if is_over:
            self._refused += is_new
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
