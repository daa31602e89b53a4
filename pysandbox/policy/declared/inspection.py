"""[network.dlp] and [proxy]: what is looked at in what is sent.

Some are declared ahead: `compile.absent` refuses them by name.
"""

from __future__ import annotations

from pysandbox.policy.option import Sentence, option
from pysandbox.policy.tighter import falls, grows, rises, same, sends_to_fewer, shrinks, towards, unless_asked
from pysandbox.shapes import TYPE_CHECKING, dataclass

if TYPE_CHECKING:
    from pysandbox.policy.own_detector import OwnDetector

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class InspectionOptions:
    dlp_enabled: bool = option(
        "network.dlp", "enabled", "Scan what is sent for credentials; strict implies it.",
        default=False, merge="or", tighter=towards(True, False), flag="--dlp",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_canary_tokens: bool | None = option(
        "network.dlp", "canary_tokens", "Give the cage false credentials in variables. What is sent of one is "
        "refused, and proves a theft. Unset: where what is sent is scanned.",
        default=None, merge="or", tighter=unless_asked(True),
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_max_decode_depth: int = option(
        "network.dlp", "max_decode_depth", "How many encodings inside each other are undone before scanning.",
        default=32, merge="last", tighter=rises, minimum=0, maximum=1024,
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_decompress: bool = option(
        "network.dlp", "decompress", "Undo the Content-Encoding of bodies before they are scanned; false: what has one "
        "is refused.",
        default=True, merge="last", tighter=towards(False, True),
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_dns_entropy_threshold: float = option(
        "network.dlp", "dns_entropy_threshold", "Share of what their alphabet gives from which the entropy of two "
        "labels of a new name below a pattern is told as a warning.",
        default=0.92, merge="last", tighter=falls, minimum=0, maximum=1,
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_bearer: str = option(
        "network.dlp", "bearer", "What is found after the word Bearer: any token, or only a JWT and what another "
        "detector knows; strict: any.",
        default="any", merge="last", tighter=towards("any", "jwt"), choices=("any", "jwt"),
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_session_entropy_budget: int = option(
        "network.dlp", "session_entropy_budget", "Opaque bytes a cage may send to one host: what has the "
        "entropy of data, and not of text, and was not sent there before.",
        default=8192, merge="last", tighter=falls, minimum=0, unit="bytes",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_extra_scopes: tuple[tuple[str, tuple[str, ...]], ...] = option(
        "network.dlp", "extra_scopes", "More domains that a detector's credential may be sent to.",
        default=(), merge="scopes", tighter=sends_to_fewer, item="domain",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_packs: tuple[str, ...] = option(
        "network.dlp", "packs", "Packs of detectors that are looked for besides: gitleaks, of fifty more services. "
        "core is what every scan looks for.",
        default=(), merge="union", tighter=grows, item="pack",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    dlp_detectors: tuple[OwnDetector, ...] = option(
        "network.dlp", "detector", "Detectors of your own: what a credential looks like that no service here has, and "
        "where it may go.",
        default=(), merge="union", tighter=grows,
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_buffered_bytes: int = option(
        "proxy", "max_buffered_body_bytes", "Largest body that is scanned as a whole.",
        default=8 * MIB, merge="last", tighter=rises, minimum=0, unit="bytes",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_streamed_bytes: int = option(
        "proxy", "max_streamed_body_bytes", "Largest body that is passed on; what is larger is refused.",
        default=64 * MIB, merge="last", tighter=falls, minimum=0, unit="bytes",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_timeout_ms: int = option(
        "proxy", "upstream_request_timeout_ms", "Time a host may take for a request.",
        default=30_000, merge="last", tighter=falls, minimum=1, unit="ms",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_upstream_ca: tuple[str, ...] = option(
        "proxy", "upstream_ca", "Files of certificates that servers are held to besides those that the host trusts, "
        "and of revocation lists; absolute paths.",
        default=(), merge="union", tighter=shrinks, item="certificates",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_parent: str | None = option(
        "proxy", "parent", "The proxy that named hosts are asked of, by CONNECT: http://HOST:PORT. It resolves the "
        "names, so the addresses that they lead to are not checked.",
        default=None, merge="last", tighter=same, item="parent proxy",
        sentences=(Sentence("Reaches", "Names are reached through the proxy {}, which resolves them: where they lead "
                            "to is not checked.", place=8),),
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_parent_credentials: str | None = option(
        "proxy", "parent_credentials", "Where USER:PASSWORD for the parent is: env:NAME, a variable of the host "
        "program, which no cage gets.",
        default=None, merge="last", tighter=same, item="parent credentials",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_no_parent: tuple[str, ...] = option(
        "proxy", "no_parent", "Names and patterns that are reached without the parent.",
        default=(), merge="union", tighter=grows, item="domain",
        in_plan=False, idle_alone=True,
    )  # fmt: skip
    proxy_scheme: str | None = option(
        "proxy", "upstream_scheme", "Hosts whose requests are looked at are spoken to without TLS, in HTTP/1.1 (http) "
        "or HTTP/2 (h2c), at the port that is asked for; unset: as the client speaks. No client chooses it, and no "
        "secret is put in what leaves so.",
        default=None, merge="last", tighter=same, choices=("http", "h2c"),
        sentences=(Sentence("Reaches", "Hosts whose requests are looked at are spoken to without TLS ({}).", place=9),),
        in_plan=False, idle_alone=True,
    )  # fmt: skip
