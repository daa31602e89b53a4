"""The directories that pysandbox keeps for itself, named once for those who keep cages out of them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pysandbox.policy.places import own_places
from pysandbox.probe.facts import Kept
from pysandbox.probe.paths import home
from pysandbox.probe.state import audit_directory


def kept_directories(*, audit: Iterable[str], registry: Iterable[str]) -> tuple[Kept, ...]:
    """Every directory that no cage reaches, by the environment as it is now. A trail that does not exist yet is left
    out: it is another look's."""
    trails = dict.fromkeys(os.path.realpath(each) for each in (*audit, audit_directory()))
    return (
        *(Kept(each, "the audit trail", closed=True) for each in trails if os.path.isdir(each)),
        *(Kept(each, "the registry of cages", closed=True) for each in registry),
        *(Kept(each, "what you trust, and your recipes", closed=False)
          for each in own_places({"HOME": home(), **os.environ})),
    )  # fmt: skip
