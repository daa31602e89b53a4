"""By what a cage trusts the authority of its inspector: one file, bound over every bundle of certificates that the view
shows, and named by the variables that programs read. Only where a host has a contract; else nothing is touched. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox.compile.plan import TRUST, Attr, MountKind, MountStep
from pysandbox.compile.view import View, nearest
from pysandbox.policy.model import Policy
from pysandbox.policy.paths_wanted import BUNDLES
from pysandbox.policy.way_out import inspects
from pysandbox.probe.facts import PathFacts

CA_FILE = "/.pysandbox-ca.pem"  # beside the cage's own directories, where nothing can be granted
ATTRS = (Attr.RDONLY, Attr.NOSUID, Attr.NODEV, Attr.NOEXEC)
VARIABLES = (
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "NPM_CONFIG_CAFILE",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "HEX_CACERTS_PATH", "PERL_LWP_SSL_CA_FILE",
)  # fmt: skip


def trust_steps(paths: PathFacts, view: View) -> Iterator[MountStep]:
    """The file itself, and over each bundle that can be seen; for a policy that `inspects`."""
    yield MountStep(MountKind.BIND, CA_FILE, TRUST, attrs=ATTRS)
    seen = dict.fromkeys(paths[path].real for path in BUNDLES if paths[path].kind == "file")
    for real in seen:
        if nearest(real, view.trees) is not None and nearest(real, view.holes) is None:
            yield MountStep(MountKind.BIND, real, TRUST, attrs=ATTRS, inside_bind=True)


def trust_variables(policy: Policy) -> dict[str, str]:
    return dict.fromkeys(VARIABLES, CA_FILE) if inspects(policy) else {}
