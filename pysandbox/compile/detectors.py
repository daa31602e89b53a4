"""What a policy has looked for besides what every scan looks for: the rows of its packs, and its own detectors."""

from __future__ import annotations

from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import Policy
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.policy.own_detector import ScanDetector


def scan_detectors(policy: Policy) -> tuple[ScanDetector, ...]:
    """Raises SandboxCompileError where a scan has no room for so many."""
    if not (policy.dlp_detectors or policy.dlp_packs):
        return ()
    from pysandbox.policy.detector_packs import scan_detectors_of
    from pysandbox.policy.own_detector import MOST_LITERALS, scan_detector

    packed = (each for pack in policy.dlp_packs for each in scan_detectors_of(pack))
    rows = (*packed, *map(scan_detector, policy.dlp_detectors))
    if sum(len(each.literals) for each in rows) > MOST_LITERALS:
        raise SandboxCompileError(
            f"its detectors and packs have more than {MOST_LITERALS} literals together", key="network.dlp.packs",
            suggestion="leave a pack, or detectors, out",
        )  # fmt: skip
    return rows
