"""What one policy has looked for: the rows that every scan has, those of its own, and false credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pysandbox.dlp import canary
from pysandbox.dlp.detector import own
from pysandbox.dlp.engine import DEPTH, NOMINATOR, Finding, scan
from pysandbox.dlp.nominate import Nominator
from pysandbox.dlp.passes import Buffer
from pysandbox.dlp.registry import ALL, BEARER, BY_NAME
from pysandbox.shapes import Any


class Wanted:
    """`rows` are those of a ScanPlan, or none."""

    def __init__(
        self, rows: Iterable[Sequence[Any]] = (), canaries: Mapping[str, str] | None = None, depth: int = DEPTH,
        *, any_bearer: bool = True,
    ) -> None:  # fmt: skip
        """Without `any_bearer`, what follows the word Bearer is looked for by its own form alone."""
        false = canary.detectors(canaries or {})
        more = (*own(rows), *false)
        self.depth = depth
        self.rows = (*(each for each in ALL if any_bearer or each.name != BEARER), *more)
        self.by_name = {**BY_NAME, **{each.name: each for each in more}} if more else BY_NAME
        self.nominator = Nominator(self.rows) if more or not any_bearer else NOMINATOR
        self.bare = Nominator(false) if false else None

    def found(self, said: Buffer, key: bytes) -> tuple[Finding, ...]:
        """Raises Undecodable."""
        return scan(said, key, depth=self.depth, nominator=self.nominator, bare=self.bare)
