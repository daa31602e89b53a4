"""[network] and [network.dns]: what may be reached, and how."""

from __future__ import annotations

from pysandbox.policy.option import WITH_OTHERS, Grant, Sentence, option
from pysandbox.policy.tighter import (
    dials_less,
    leaves_less,
    same,
    says_nothing,
    serves_less,
    shrinks,
    towards,
    writes_less,
)
from pysandbox.shapes import dataclass


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    egress: str = option(
        "network", "egress", "none: loopback only. proxy-only: what [[host]], allow_ips and the host's loopback "
        "alias name, and nothing where they name nothing. direct: the host's own network, not confined.",
        default="proxy-only", merge="last", tighter=leaves_less, flag="--egress",
        choices=("none", "proxy-only", "direct"),
        in_plan=False, recorded="network", listed="Network",
        sentences=(
            Sentence("Reaches", place=0, cases={  # of what it comes to: `way_out.effective_egress`
                "none": "There is no network but the cage's own loopback.",
                "direct": "The network is the host's own, and nothing that is sent is confined.",
            }, alone={"none": "There is no network: no address can be connected to, and no port is taken."}),
            Sentence("Reaches", place=0, cases={
                "proxy-only": "There is no network but the hosts that are listed, and the cage's own loopback.",
            }, alone={
                "proxy-only": "There is no network but the hosts and addresses that are listed, and no port is taken.",
            }, unless=("contract_mode", "relaxed")),
        ),
    )  # fmt: skip
    unsafe_direct: bool = option(
        "network", "unsafe", "Acknowledges that egress = \"direct\" gives the cage the host's network.",
        default=False, merge="or", tighter=towards(False, True), flag="--unsafe-direct",
        in_plan=False, sentences=WITH_OTHERS,
    )  # fmt: skip
    left_out: tuple[str, ...] = option(
        "network", "left_out", "Hosts that a shipped recipe names and that are left out, because what it says of "
        "them is not held here; network.dlp.enabled where it wants what is sent to be scanned. Grants nothing.",
        default=(), merge="union", tighter=says_nothing, item="domain",
        in_plan=True, listed="Left out",
        sentence=Sentence("Reaches", "Left out, since what is said of them is not held: {}."),
    )  # fmt: skip
    allow_ips: tuple[str, ...] = option(
        "network", "allow_ips", "Addresses of the host's network that may be connected to, "
        "ADDR[/LEN][:PORT[-PORT]][/tcp|/udp].",
        default=(), merge="union", tighter=dials_less, flag="--allow-ip", item="endpoint",
        in_plan=True, idle_alone=True,
        sentence=Sentence("Reaches", "Addresses that can be connected to: {}.", unless=("egress", "none")),
    )  # fmt: skip
    contract_mode: str = option(
        "network", "contract_mode", "What happens to a host without a [[host]] block: refused, or allowed, and each of "
        "its requests is an event.",
        default="strict", merge="last", tighter=towards("strict", "relaxed"), choices=("strict", "relaxed"),
        in_plan=False, idle_alone=True,
        sentences=(
            Sentence(
                "Reaches", cases={"relaxed": "Every host may be reached, also one that nobody named, and be sent any "
                                 "request; each of these is an event."},
                unless=("egress", "none"),
            ),
        ),
    )  # fmt: skip
    ports: tuple[str, ...] = option(
        "network", "ports", "Ports of the cage published on the host: PORT, HOST:CAGE or ADDRESS:HOST:CAGE, each "
        "with /tcp or /udp; the address is 127.0.0.1 unless given.",
        default=(), merge="union", tighter=shrinks, flag="--port", item="port",
        in_plan=False,
        sentence=Sentence("Reaches", "Reached from the host: {} (address, port of the host, port of the cage)."),
    )  # fmt: skip
    allow_host_loopback: bool = option(
        "network", "allow_host_loopback", "The host's own services can be reached as host.pysandbox.internal.",
        default=False, merge="or", tighter=towards(False, True), flag="--allow-host-loopback",
        in_plan=False, idle_alone=True, sentences=WITH_OTHERS,
    )  # fmt: skip
    host_loopback_ports: tuple[int, ...] = option(
        "network", "host_loopback_ports", "The host's own services on these ports alone can be reached as "
        "host.pysandbox.internal.",
        default=(), merge="union", tighter=serves_less, flag="--host-loopback-port", item="port number",
        in_plan=False, idle_alone=True, sentences=WITH_OTHERS,
    )  # fmt: skip
    unix_sockets: tuple[Grant, ...] = option(
        "network", "unix_sockets", "Unix sockets of the host, by path, that may be connected to, such as "
        "$SSH_AUTH_SOCK.",
        default=(), merge="union", tighter=writes_less, flag="--unix-socket",
        in_plan=False, listed="Unix sockets",
        sentence=Sentence("Reaches", "Unix sockets of the host that can be connected to: {}."),
    )  # fmt: skip
    network_backend: str = option(
        "network", "backend", "doors: a way out through the gatekeeper alone. routed: also an interface, for UDP, "
        "QUIC and ping to allow_ips; the host process must be root.",
        default="doors", merge="last", tighter=towards("doors", "routed"), flag="--network-backend",
        choices=("doors", "routed"),
        in_plan=False,
    )  # fmt: skip
    bridge: str = option(
        "network", "bridge", "The bridge of the routed back end, made when it is not there.",
        default="kaged-br0", merge="last", tighter=same, item="interface",
        in_plan=False,
    )  # fmt: skip
    dns_ipv6: str = option(
        "network.dns", "ipv6", "What a question for the IPv6 address of an allowed name gets: an empty answer, no "
        "such name, or a resolution as for IPv4.",
        default="nodata", merge="last", tighter=towards("nxdomain", "nodata", "resolve"),
        choices=("nodata", "nxdomain", "resolve"),
        in_plan=False, idle_alone=True,
    )  # fmt: skip
