"""What the handlers hold a call against: the lists in force, which only ever get narrower. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.handlers.network_rules import NetworkRules
from pysandbox.policy.endpoint import Endpoint
from pysandbox.shapes import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class CallRules:
    """A process that bears a mark of `by_mark` reaches, of what `network` lets all reach, only what that list holds as
    well."""

    network: NetworkRules
    by_mark: Mapping[int, tuple[Endpoint, ...]] = field(default_factory=dict)
    source: str = "network.egress"  # the policy key, or the callback's restriction, that a refusal names

    def narrowed(self, endpoints: tuple[Endpoint, ...], source: str) -> CallRules:
        """What is in these as well."""
        return replace(self, network=self.network.narrowed(endpoints), source=source)
