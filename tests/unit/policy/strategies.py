"""What hypothesis draws for the policy's tests: values for each kind of field, layers, and whole policies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pysandbox.policy.host import HostRule
from pysandbox.policy.merge import blocks, named
from pysandbox.policy.model import Grant, Policy, options
from pysandbox.policy.own_detector import OwnDetector
from pysandbox.policy.secret import Secret

NAMES = st.text("ABXYZ_09", min_size=1, max_size=4)
# Whatever a file name may hold, with what TOML and expansion find special made likely.
TEXT = st.text(
    st.one_of(st.sampled_from("/.$~\"'\\#=[]{},\n\t\x7f ä"), st.characters(exclude_characters="\0", codec="utf-8")),
    max_size=8,
)
PATHS = st.one_of(st.sampled_from(["/usr", "/usr/lib", "/proj", "$HOME/x", "~/y", "rel/z"]), TEXT.filter(bool))
GRANTS = st.builds(Grant, PATHS, st.booleans())
ITEMS = {
    "executable": st.sampled_from(["/usr/bin/git", "/nix/store/*", "$HOME/bin/x", "./run", "/*"]),
    "variable": NAMES,
    "endpoint": st.sampled_from(["192.0.2.7", "10.0.0.0/8:443/tcp", "[2001:db8::]:1-9/udp", "2001:db8::1"]),
    "syscall": st.sampled_from(["ptrace", "io_uring_setup", "_sysctl", "seccomp"]),
    "port": st.sampled_from(["127.0.0.1:80:80/tcp", "[::1]:8080:80/udp", "0.0.0.0:1:2/tcp"]),
    "domain": st.sampled_from(["a.example", "**.b.example", "c.d.example"]),
    "method": st.sampled_from(["GET", "POST", "PUT"]),
    "content type": st.sampled_from(["text/plain", "application/json"]),
    "URL path": st.sampled_from(["/", "/v1/"]),
    "private address": st.sampled_from(["10.1.2.3", "10.0.0.0/8", "fd00:1::/64"]),
    "pack": st.sampled_from(["core", "gitleaks"]),
    "detector": st.sampled_from(["github_pat", "npm_token"]),
    "interface": st.sampled_from(["kaged-br0", "br.7"]),
    "parent proxy": st.sampled_from(["http://proxy.example:3128", "http://10.1.2.3:80"]),
    "parent credentials": st.sampled_from(["env:LOGIN"]),
    "certificates": st.sampled_from(["/etc/ssl/own.pem", "/ca.pem"]),
    "secret name": st.sampled_from(["TOKEN", "API_KEY"]),
    "secret source": st.sampled_from(["given", "env:TOKEN", "file:/run/token"]),
    "secret place": st.sampled_from(["header:authorization", "query:key", "basic", "body"]),
    "guard": st.sampled_from([".git", ".vscode", ".config/fish", "pysandbox"]),
}
PORT_NUMBERS = st.integers(1, 65535)
HOSTS = st.builds(
    HostRule,
    domain=ITEMS["domain"],
    methods=st.lists(ITEMS["method"], unique=True).map(tuple),
    content_types=st.lists(ITEMS["content type"], unique=True).map(tuple),
    paths=st.lists(ITEMS["URL path"], unique=True).map(tuple),
    max_request_bytes=st.none() | st.integers(0, 99),
    allow_credentials=st.lists(ITEMS["detector"], unique=True).map(tuple),
    ports=st.lists(PORT_NUMBERS, unique=True, max_size=3).map(tuple),
    direct=st.booleans(),
    contract_mode=st.sampled_from([None, "strict", "relaxed"]),
    include_subdomains=st.booleans(),
    websocket=st.booleans(),
    private_addresses=st.lists(ITEMS["private address"], unique=True).map(tuple),
)


SECRETS = st.builds(
    Secret,
    name=ITEMS["secret name"],
    source=ITEMS["secret source"],
    hosts=st.lists(ITEMS["domain"], unique=True, min_size=1).map(tuple),
    places=st.lists(ITEMS["secret place"], unique=True, min_size=1).map(tuple),
)
# One name, one block: two layers that say different things of one name contradict each other.
DETECTORS = st.sampled_from((
    OwnDetector(name="acme_token", pattern="acme_[a-z0-9]{20,40}", hosts=("a.example",)),
    OwnDetector(name="corp_key", pattern="[0-9a-f]{32}", context=("corp", "intern")),
    OwnDetector(name="quoted", pattern=r'key="[^"\\]{8,40}"'),
))  # fmt: skip


def values(kind: str, option: Any) -> st.SearchStrategy[Any]:
    """Valid values of one field, as the Policy keeps them or in a looser spelling."""
    least = option.minimum or 0
    most = option.maximum or 2**31 - 1
    by_kind = {
        "bool": st.booleans(),
        "bool | None": st.none() | st.booleans(),
        "int": st.integers(least, most),
        "int | None": st.none() | st.integers(least, most),
        "float": st.floats(least, min(most, 1e6)),
        "float | None": st.none() | st.floats(least, min(most, 1e6)),
        "str": ITEMS.get(option.item, st.sampled_from(option.choices or [""])),
        "str | None": st.none() | ITEMS.get(option.item, st.sampled_from(option.choices or [""])),
        "tuple[Grant, ...]": st.lists(GRANTS, max_size=4).map(tuple),
        "tuple[str, ...]": st.lists(ITEMS.get(option.item, TEXT), max_size=4).map(tuple),
        "tuple[int, ...]": st.lists(PORT_NUMBERS, max_size=4).map(tuple),
        "tuple[tuple[str, tuple[str, ...]], ...]": st.dictionaries(
            st.sampled_from(option.choices or ["github_pat", "npm_token"]),
            st.lists(ITEMS.get(option.item, TEXT), max_size=3).map(tuple),
        ).map(lambda table: tuple(table.items())),
        "tuple[Secret, ...]": st.lists(SECRETS, max_size=3).map(named),
        "tuple[OwnDetector, ...]": st.lists(DETECTORS, max_size=3, unique=True).map(tuple),
        "tuple[HostRule, ...]": st.lists(HOSTS, max_size=3).map(blocks),
        "tuple[tuple[str, str], ...]": st.dictionaries(NAMES, TEXT, max_size=4).map(lambda table: tuple(table.items())),
    }
    return by_kind[kind]


FIELDS = {field.name: values(str(field.type), described) for field, described in options()}


LEAST_MEMORY = 64  # MiB


def _without_contradictions(layer: dict[str, Any]) -> dict[str, Any]:
    if layer.get("egress") == "direct":
        layer["unsafe_direct"] = True
    if layer.get("strict"):
        layer |= {"limits_required": True, "caged": True}
    if layer.get("workdir") == "cow" or layer.get("cow"):
        layer |= {"caged": True, "cow_mb": layer.get("cow_mb", LEAST_MEMORY)}
    if "cow_mb" in layer:  # whatever layer it is merged with
        layer["cow_mb"] = min(layer["cow_mb"], LEAST_MEMORY - 1)
    if layer.get("memory_mb") is not None:
        layer["memory_mb"] = max(layer["memory_mb"], LEAST_MEMORY)
    for name in ("monitor", "on_exit", "on_error"):  # what they contradict may come with any other layer
        layer.pop(name, None)
    return layer


LAYERS = st.fixed_dictionaries({}, optional=FIELDS).map(_without_contradictions)
POLICIES = LAYERS.map(lambda layer: Policy(**layer))
