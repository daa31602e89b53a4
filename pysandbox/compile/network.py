"""Which namespaces a cage gets, and what its files say of a network.

A full cage has a network namespace with loopback and nothing else; what it reaches beyond is behind doors (`doors`).
`direct` is the exception, under an explicit acknowledgement (T07): the host's own network, nothing between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pysandbox.errors import SandboxCompileError
from pysandbox.note import Note
from pysandbox.policy.host import is_relaxed
from pysandbox.policy.model import Policy
from pysandbox.policy.way_out import has_doors, inspects

NAMESPACES = ("USER", "PID", "NS", "IPC", "UTS", "CGROUP")
HOSTS, RESOLV, NSSWITCH = "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"
HOSTS_TEXT = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.0.1 "  # the cage's own name follows
# Without a way out a name that is not in /etc/hosts does not exist, and that is the answer, at once: a resolver that is
# out of reach would mean "try again", which npm, pip and others then do for minutes. So the files have the last word,
# and before it a server is asked that no route leads to (RFC 5737): the kernel counts that (csrc/init/no_route.c).
# musl waits for an answer for as long as the file says. Go's own resolver takes no last word, and says at once that
# the network is unreachable.
NOBODY_TEXT = "# this cage has no network\nnameserver 192.0.2.1\noptions timeout:0 attempts:1\n"
# Names come from the door and nowhere else: no daemon of the host answers in the cage.
NSSWITCH_TEXT = "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"
ALONE_TEXT = NSSWITCH_TEXT.replace("hosts: files dns", "hosts: files dns files")

# Clients that try again whatever the answer was, and wait between: npm for 70 seconds, pip for 8.
NO_RETRIES: Mapping[str, str] = {"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}

DIRECT = "network.direct"
EVERY_HOST = 'contract_mode = "relaxed": every host may be reached, and be sent any request; each is an event'
NO_TLS = (
    'upstream_scheme = "{}": what is sent to hosts leaves without TLS, so whoever is on its way reads it, and may '
    "answer in their place"
)


def network_notes(policy: Policy) -> tuple[Note, ...]:
    if policy.network_backend == "routed":
        from pysandbox.compile.routed import check_backend

        check_backend(policy)
    if policy.egress == "direct":
        if not policy.unsafe_direct:
            raise SandboxCompileError('"direct" gives the cage the host\'s own network', key="network.egress",
                                      suggestion="to accept that, set network.unsafe = true")  # fmt: skip
        return (Note(DIRECT, "network.egress", "the cage uses the host's own network; nothing it sends is confined"),)
    if not is_relaxed(policy) and policy.proxy_scheme is None and policy.proxy_parent is None:
        return ()
    return tuple(_wide_ways_out(policy))


def _wide_ways_out(policy: Policy) -> Iterator[Note]:
    from pysandbox.compile.notes import wide_grant

    if is_relaxed(policy):
        yield wide_grant("network.contract_mode", EVERY_HOST)
    if policy.proxy_scheme is not None and inspects(policy):
        yield wide_grant("proxy.upstream_scheme", NO_TLS.format(policy.proxy_scheme))
    if policy.proxy_parent is not None:
        from pysandbox.compile.parent import parent_notes

        yield from parent_notes(policy)


def namespaces(policy: Policy) -> tuple[str, ...]:
    if policy.isolation != "full":
        return ()
    return NAMESPACES if policy.egress == "direct" else (*NAMESPACES, "NET")


def own_files(policy: Policy) -> Mapping[str, str]:
    """What takes the place of the host's files about names. The host's own names are of no use without its network, and
    need not be told; with doors, names come from the door alone."""
    if policy.isolation != "full" or policy.egress == "direct":
        return {}
    if not has_doors(policy):
        return {HOSTS: HOSTS_TEXT, RESOLV: NOBODY_TEXT, NSSWITCH: ALONE_TEXT}
    from pysandbox.compile.doors import RESOLV_TEXT

    return {HOSTS: HOSTS_TEXT, RESOLV: RESOLV_TEXT, NSSWITCH: NSSWITCH_TEXT}
