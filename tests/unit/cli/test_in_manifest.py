"""What a line offers as flags of `run` is offered as keys of the manifest where `up` was typed."""

from __future__ import annotations

import pytest

from pysandbox.cli.in_manifest import in_manifest
from pysandbox.policy.manifest import parse_manifest

SANDBOX = "[sandbox.a]\nrecipes = ['base']\ncommand = 'x'\n"


@pytest.mark.parametrize(("line", "told"), [
    ("to allow it: --allow /opt/x, or --allow-write /opt/x to change it",
     'to allow it: filesystem.allow = ["/opt/x"], or filesystem.allow_write = ["/opt/x"] to change it'),
    ("to allow it: --allow '/a b'", 'to allow it: filesystem.allow = ["/a b"]'),
    ("to allow it: --host a.example; see", 'to allow it: host = [{ domain = "a.example" }]; see'),
    ("to allow it: -r tool:pip", 'to allow it: one more of recipes: "tool:pip"'),
    ("to allow it: --allow-syscall ptrace", 'to allow it: syscalls.allow_extra = ["ptrace"]'),
    ("to see which: --why; to allow", "to see which: why = true; to allow"),
    ("reach the host's: --host-loopback-port 8000, and", "reach the host's: network.host_loopback_ports = [8000], and"),
])  # fmt: skip
def test_a_flag_becomes_the_key_that_means_the_same(line: str, told: str) -> None:
    assert in_manifest(line, "a") == f"{told} (in [sandbox.a] of pysandbox.toml)"


@pytest.mark.parametrize("key", [
    'filesystem.allow = ["/opt/x"]', 'host = [{ domain = "a.example" }]', "why = true",
    "network.host_loopback_ports = [8000]",
])  # fmt: skip
def test_the_manifest_takes_it_as_it_is_written(key: str) -> None:
    assert parse_manifest(f"{SANDBOX}{key}\n").sandbox("a").overrides


@pytest.mark.parametrize(
    "line", ["nothing is offered", "see: pysandbox explain --last", "to allow: --host -bad-", "a/--allow/b --allowed x"]
)
def test_what_no_key_says_stays(line: str) -> None:
    assert in_manifest(line, "a") == line
