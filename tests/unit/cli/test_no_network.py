"""Which arguments speak of a network, and what is said of them where a cage has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pysandbox import PolicyOptions
from pysandbox.cli import no_network
from pysandbox.policy.model import Policy
from pysandbox.policy.sources import shipped

NONE = Policy()
LAUNCHER = Path(__file__).parents[3] / "csrc" / "launcher" / "failure.c"


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (["curl", "-s", "https://Origin.Example:8443/a?b"], "--host origin.example"),
        (["git", "clone", "git@origin.example:a/b.git"], "--host origin.example"),
        (["ssh://someone@origin.example/a", "ssh://someone@origin.example/a"], "--host origin.example"),
        (["curl", "http://192.0.2.1/"], "--allow-ip 192.0.2.1"),
        (["pip3.12", "install", "six"], "-r tool:pip"),
        (["python3", "-m", "pip", "-q", "download", "six"], "-r tool:pip"),
        (["/usr/bin/npm", "ci"], "-r tool:npm"),
        (["go", "get", "./..."], "-r go"),
        (["uv", "sync"], "-r uv"),
        (["curl", "file:///etc/passwd"], ""),
        (["curl", "http://localhost/"], ""),
        (["curl", "http://127.0.0.1/"], ""),
        (["curl", "https://-bad-/"], ""),
        (["git", "status"], ""),
        (["grep", "someone@example", "mail"], ""),
        (["sh", "-c", "pip install six"], ""),
        (["true"], ""),
    ],
)
def test_the_flag_that_an_argument_asks_for(argv: list[str], flag: str) -> None:
    assert no_network.line(argv, NONE, False).partition("to allow it: ")[2] == flag


@pytest.mark.parametrize("host", ["localhost", "host.pysandbox.internal", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_a_server_of_the_host_is_asked_for_by_its_port(host: str) -> None:
    said = no_network.line(["curl", f"http://{host}:8000/a"], NONE, False)
    assert "--host-loopback-port 8000" in said and "host.pysandbox.internal:8000" in said
    assert "--allow-ip" not in said


@pytest.mark.parametrize(("more", "said"), [
    ({"hosts": ["localhost:8000"]}, True), ({"hosts": ["a.example"]}, True), ({"host_loopback_ports": [8001]}, True),
    ({"host_loopback_ports": [8000]}, False), ({"allow_host_loopback": True}, False),
    ({"hosts": ["a.example"], "ports": ["8000"]}, False),
    ({"hosts": ["a.example"], "isolation": "landlock"}, False),
])  # fmt: skip
def test_also_where_there_are_hosts_unless_it_has_that_port_already(more: PolicyOptions, said: bool) -> None:
    line = no_network.line(["curl", "http://localhost:8000/"], Policy(**more), False)
    assert ("--host-loopback-port 8000" in line) == said


@pytest.mark.parametrize(
    "policy", [Policy(hosts=["a.example"]), Policy(allow_ips=["192.0.2.1"]), Policy(egress="none"),
               Policy(egress="direct", unsafe_direct=True), Policy(caged=False)]
)  # fmt: skip
def test_nothing_is_said_where_a_network_was_decided_on(policy: Policy) -> None:
    assert no_network.line(["curl", "https://origin.example/"], policy, False) == ""
    assert no_network.line(["curl"], policy, True) == ""


def test_what_an_argument_names_goes_before_what_was_only_counted() -> None:
    assert no_network.line(["curl", "https://origin.example/"], NONE, True).endswith(": --host origin.example")
    assert no_network.line(["make"], NONE, True) == no_network.NO_ROUTE


@pytest.mark.parametrize(("argv", "recipe"), [(["cargo", "build"], "tool:cargo"), (["go", "run", "."], "go"),
                                              (["npm", "run", "build"], "tool:npm"), (["npx", "-y", "x"], "tool:npm"),
                                              (["uv", "run", "x"], "uv")])  # fmt: skip
def test_a_tool_that_looked_for_a_host_is_told_its_recipe(argv: list[str], recipe: str) -> None:
    assert no_network.line(argv, NONE, True).endswith(f"-r {recipe}")
    assert no_network.line(argv, NONE, False) == ""


def test_the_launcher_knows_the_same_words() -> None:
    table = re.search(r"WORDS\[\] = \{(.*?)\}", LAUNCHER.read_text(), re.DOTALL)
    assert table is not None
    assert set(re.findall(r'"([^"]+)"', table[1])) == {word for _, verbs, _ in no_network.TOOLS for word in verbs}


@pytest.mark.parametrize("recipe", [recipe for _, _, recipe in no_network.TOOLS])
def test_what_is_offered_names_hosts(recipe: str) -> None:
    assert shipped(recipe).given["hosts"]
