"""One [[host]] block: the permission to reach a domain, and the shape of the requests it may be sent (document 001).

The columns are declared as the options of a policy are, and merge by the same words: two blocks of one domain become
one (`merge.blocks`). What a method, a type and a path may be is said here, of the others in `validate`; matching a
request against a block is the gatekeeper's.
"""

from __future__ import annotations

import re

from pysandbox.policy.merge import merge_layers
from pysandbox.policy.option import column
from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.shapes import Any, dataclass, fields

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # RFC 9110, 5.6.2


def method(name: str) -> str:
    """In upper case. Raises CommandRefused."""
    if not re.fullmatch(_TOKEN, name):
        raise CommandRefused(f"{shown(name)} is not an HTTP method", 'write such as "GET"')
    return name.upper()


def content_type(name: str) -> str:
    """Lower case and without parameters: that is how types are compared. Raises CommandRefused."""
    kind, slash, subtype = name.lower().partition("/")
    if not slash or not re.fullmatch(_TOKEN, kind) or not re.fullmatch(_TOKEN, subtype):
        raise CommandRefused(
            f"{shown(name)} is not a content type", 'write such as "application/json", without parameters'
        )
    return name.lower()


def url_path(path: str) -> str:
    """Raises CommandRefused."""
    if not path.startswith("/"):
        raise CommandRefused(f"{shown(path)} does not begin with a slash", f'write "/{path}"')
    pieces = path.split("/")
    if at := next((at for at, piece in enumerate(pieces) if piece in ("*", "**")), 0):
        raise CommandRefused(
            f"{shown(path)} is no pattern: a path is what that of a request begins with",
            f'write "{"/".join(pieces[:at])}/" for all that is below it',
        )
    return path


@dataclass(frozen=True, kw_only=True)
class HostRule:
    """What may be sent to one domain. An empty list allows any; a column that is not given says nothing."""

    domain: str = column(
        "host", "domain", "The name this block is about: example.com, *.example.com (one label), **.example.com (any).",
        merge="last", item="domain",
    )  # fmt: skip
    methods: tuple[str, ...] = column(
        "host", "methods", "HTTP methods a request may have.", default=(), merge="widest", item="method"
    )
    content_types: tuple[str, ...] = column(
        "host", "content_types", "Types a request's body may have; parameters such as charset do not count.",
        default=(), merge="widest", item="content type",
    )  # fmt: skip
    paths: tuple[str, ...] = column(
        "host", "paths", "What the path of a request must begin with.", default=(), merge="widest", item="URL path"
    )
    max_request_bytes: int | None = column(
        "host", "max_request_bytes", "The largest body of a request.", default=None, merge="loosest", minimum=0,
        maximum=2**40, unit="bytes",
    )  # fmt: skip
    allow_credentials: tuple[str, ...] = column(
        "host", "allow_credentials", "Detectors of credentials whose finds may be sent to this host.", default=(),
        merge="union", item="detector",
    )  # fmt: skip
    ports: tuple[int, ...] = column(
        "host", "ports", "Ports that may be connected to.", default=(), merge="widest", item="port number"
    )
    direct: bool = column(
        "host", "direct", "Connections are the kernel's own, at full speed, and nothing looks at what is sent. Ports "
        "443 and 80 are then not held to this name by TLS or HTTP.",
        default=False, merge="or",
    )  # fmt: skip
    contract_mode: str | None = column(
        "host", "contract_mode", "relaxed: each request that the block allows is "
        "an event besides, so that its shape can be written down.", default=None, merge="last",
        choices=("strict", "relaxed"),
    )  # fmt: skip
    include_subdomains: bool = column(
        "host", "include_subdomains", "The block also holds for every name below the domain.", default=False,
        merge="or",
    )  # fmt: skip

    tls: str | None = column(
        "host", "tls", "Whether requests inside TLS are looked at: where a column above needs it (auto, the default), "
        "always (inspect), or not at all (pass): then port 443 is held to the name alone.",
        default=None, merge="last", choices=("auto", "inspect", "pass"),
    )  # fmt: skip

    websocket: bool = column(
        "host", "websocket", "A request that is looked at may open a WebSocket. Its messages may hold anything, up to "
        "max_request_bytes each.",
        default=False, merge="or",
    )  # fmt: skip

    private_addresses: tuple[str, ...] = column(
        "host", "private_addresses", "Addresses of private networks, ADDR[/LEN], to which this name may lead as well.",
        default=(), merge="union", item="private address",
    )  # fmt: skip

    @property
    def is_inspected(self) -> bool:
        """Whether requests are looked at."""
        shaped = self.methods or self.content_types or self.paths or self.max_request_bytes is not None
        return bool(shaped) or self.tls == "inspect" or self.contract_mode == "relaxed"

    @property
    def given(self) -> dict[str, Any]:
        """The columns that differ from their default."""
        return {each.name: getattr(self, each.name) for each in COLUMNS if getattr(self, each.name) != each.default}

    def merge(self, later: HostRule) -> HostRule:
        """What either allows. A block always says something of a column whose absence allows anything."""
        said = ({name: getattr(rule, name) for name in _SAID} | rule.given for rule in (self, later))
        return HostRule(**merge_layers(_WORDS, *said))


COLUMNS = fields(HostRule)
_WORDS = {each.name: each.metadata["option"].merge for each in COLUMNS}
_SAID = [name for name, word in _WORDS.items() if word in ("widest", "loosest")]


def is_relaxed(policy: Any) -> bool:
    """Whether a policy lets every host be reached, also one that nobody has named."""
    return bool(policy.egress == "proxy-only" and policy.contract_mode == "relaxed")
