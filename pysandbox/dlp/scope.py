"""Where a credential may go: to the hosts of its own service, and to a host that the policy lists for it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pysandbox.dlp.detector import Detector
from pysandbox.dlp.registry import BEARER
from pysandbox.policy.names import matches

JWT = "jwt"


def may_go(detector: Detector, host: str, extra: Iterable[str] = (), listed: Collection[str] = ()) -> bool:
    """`host` is canonical; `extra` are more homes of this detector, `listed` the detectors that the host's block
    names. A private key goes nowhere, whatever is listed; a JWT is a bearer token, where those are listed."""
    if detector.never:
        return False
    if detector.name in listed or (detector.name == JWT and BEARER in listed):
        return True
    return any(matches(each, host) for each in (*detector.homes, *extra))
