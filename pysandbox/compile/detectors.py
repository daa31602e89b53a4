"""What a policy has looked for besides what every scan looks for: its own detectors, and those of its packs. Pure."""

from __future__ import annotations

from pysandbox.policy.model import Policy
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.policy.own_detector import ScanDetector


def scan_detectors(policy: Policy) -> tuple[ScanDetector, ...]:
    if not policy.dlp_detectors:
        return ()
    from pysandbox.policy.own_detector import scan_detector

    return tuple(map(scan_detector, policy.dlp_detectors))
