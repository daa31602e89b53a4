"""What a command that failed may have wanted of a network, in a cage without one: read off its arguments. Pure.

Nobody hears which name is looked up, or which address called, where there is no way out: that is why such a cage costs
nothing. Who asks with --why is told what was tried (`policy.way_out.has_doors`); everybody else gets this guess, where
an argument names a host, or a tool was asked for what it can do over a network alone; and else that a host was looked
for, if one was: the kernel counts it (csrc/init/no_route.c).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pysandbox.policy.model import Policy
from pysandbox.policy.names import canonical
from pysandbox.policy.way_out import effective_egress

# https://host, ssh://user@host:port, and scp's user@host:path.
NAME = "[A-Za-z0-9][A-Za-z0-9.-]*"
URL = re.compile(rf"(?!file:)[a-z][a-z0-9+.-]*://(?:[^/@\s]*@)?({NAME})(?:[:/?#]|$)|[\w.-]+@({NAME}):")
OWN_URL = re.compile(
    r"(?:https?|wss?)://(?:localhost|host\.pysandbox\.internal|127\.\d+\.\d+\.\d+|\[::1\]):(\d{1,5})(?:[/?#]|$)"
)
LOCAL = ("localhost", ".localhost")
# (program, what it does over a network alone, the shipped recipe with its hosts)
TOOLS: tuple[tuple[str, frozenset[str], str], ...] = (
    ("pip", frozenset({"install", "download", "wheel", "index"}), "tool:pip"),
    ("npm", frozenset({"install", "i", "ci", "add", "update", "view", "audit", "publish"}), "tool:npm"),
    ("npx", frozenset(), "tool:npm"),
    ("pnpm", frozenset({"add", "install"}), "node-build"),
    ("yarn", frozenset({"add", "install"}), "node-build"),
    ("uvx", frozenset(), "uv"),
    ("go", frozenset({"get", "install"}), "go"),
    ("uv", frozenset({"add", "lock", "pip", "sync"}), "uv"),
    ("cargo", frozenset({"install", "fetch", "update", "add", "search", "publish"}), "tool:cargo"),
    ("git", frozenset({"clone", "fetch", "pull", "push", "ls-remote"}), "tool:git"),
)


NO_ROUTE = "it looked for a host, and the sandbox has no network; to see which: --why; to allow one: --host NAME"


def line(argv: Sequence[str], policy: Policy, no_route: bool) -> str:
    """ "" where the cage has a way out, where it was told to have none, or where nothing speaks of a network."""
    if not policy.caged or policy.egress != "proxy-only" or policy.left_out:
        return ""
    has_hosts = effective_egress(policy) != "none"
    port = next((found[1] for each in argv[1:] if (found := OWN_URL.match(each))), "")
    if port and not (has_hosts and _serves_itself(policy, port)):
        return (f"the sandbox has a loopback of its own; to reach the host's: --host-loopback-port {port}, and "
                f"host.pysandbox.internal:{port} for the address")  # fmt: skip
    if has_hosts:
        return ""
    flag = _named_host(argv[1:]) or _recipe(argv)
    if flag:
        return f"the sandbox has no network; to allow it: {flag}"
    if no_route and (recipe := _recipe(argv, by_its_verb=False)):
        return f"it looked for a host, and the sandbox has no network; to see which: --why; to allow its own: {recipe}"
    return NO_ROUTE if no_route else ""


def _serves_itself(policy: Policy, port: str) -> bool:
    """Whether the host's port is reached already, or the sandbox has the host's loopback, or a server of its own."""
    granted = policy.allow_host_loopback or int(port) in policy.host_loopback_ports
    return granted or policy.isolation != "full" or bool(policy.ports)


def _named_host(arguments: Sequence[str]) -> str:
    for argument in arguments:
        found = URL.match(argument)
        if found is None:
            continue
        try:
            host = canonical(found[1] or found[2])
        except ValueError:
            continue
        if not isinstance(host, str):
            return "" if host.is_loopback or host.is_unspecified else f"--allow-ip {host}"
        if not host.endswith(LOCAL):
            return f"--host {host}"
    return ""


def _recipe(argv: Sequence[str], *, by_its_verb: bool = True) -> str:
    """`by_its_verb`: where it does over a network alone what it was asked for."""
    words = [os.path.basename(argv[0]), *argv[1:]]
    if len(words) > 2 and words[1] == "-m":  # python3 -m pip
        words = words[2:]
    name = re.sub(r"[\d.]+$", "", words[0])  # pip3, pip3.12
    verb = next((word for word in words[1:] if not word.startswith("-")), "")
    return next(
        (f"-r {recipe}" for tool, verbs, recipe in TOOLS if tool == name and (verb in verbs or not by_its_verb)), ""
    )
