"""Which false credentials a cage gets: those of pysandbox's own names, and those that thieves look for by name, unless
the policy passes something real to the same programs. Pure.
"""

from __future__ import annotations

from pysandbox.policy.model import Policy

OWN = ("PYSANDBOX_CANARY_GITHUB_PAT", "PYSANDBOX_CANARY_NPM_TOKEN", "PYSANDBOX_CANARY_AWS_ACCESS_KEY")
AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def canaries(policy: Policy) -> tuple[str, ...]:
    """The names of the variables; () where nothing is scanned, or the policy says no."""
    if not policy.dlp_enabled or policy.dlp_canary_tokens is False:
        return ()
    return OWN if _has_aws(policy) else (*OWN, *AWS)


def _has_aws(policy: Policy) -> bool:
    """Whether programs of AWS would take a false key for the one that they are to use: they look at variables first."""
    names = (*policy.env_passthrough, *(name for name, _ in policy.env), *(each.name for each in policy.secrets))
    paths = (grant.path for grants in (policy.allow, policy.allow_write, policy.cow) for grant in grants)
    return any(each.startswith("AWS_") for each in names) or any(
        path.rstrip("/") in ("~", "$HOME") or ".aws" in path.split("/") for path in paths
    )
