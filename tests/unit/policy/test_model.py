"""Policy: complete and consistent from its constructor on."""

from __future__ import annotations

import ast
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings

from pysandbox.errors import PolicyError
from pysandbox.policy import model
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Grant, Policy, by_toml_key, options
from pysandbox.policy.validate import KINDS
from unit.policy.strategies import POLICIES


def test_every_field_is_declared_with_a_kind_that_has_a_coercion():
    assert {str(field.type) for field in fields(Policy)} <= KINDS.keys()


def test_no_two_options_share_a_toml_key_or_a_flag():
    flags = [described.flag for _, described in options() if described.flag]
    assert len(by_toml_key()) == len(fields(Policy))
    assert len(set(flags)) == len(flags)


def test_every_default_passes_its_own_coercion_unchanged():
    for field, described in options():
        assert KINDS[str(field.type)](described, field.default) == field.default


def test_strings_lists_mappings_and_path_objects_become_grants():
    policy = Policy(allow=["/a", Grant("/b", True), {"path": "/c", "optional": True}, PurePosixPath("/d")])
    assert policy.allow == (Grant("/a"), Grant("/b", True), Grant("/c", True), Grant("/d"))


def test_paths_are_kept_as_they_were_written():
    assert [each.path for each in Policy(allow=["$HOME/a", "~/b", "c/../d", "./~x"]).allow] == [
        "$HOME/a", "~/b", "c/../d", "./~x",
    ]  # fmt: skip


def test_a_path_named_twice_keeps_its_first_place_and_is_required_once_it_is_required_anywhere():
    policy = Policy(deny=[Grant("/a", True), "/b", "/a"])
    assert policy.deny == (Grant("/a"), Grant("/b"))


def test_env_keeps_its_order_and_the_later_value_of_a_name():
    assert Policy(env={"B": "1", "A": ""}).env == (("B", "1"), ("A", ""))
    assert Policy(env=[("B", "1"), ["A", "2"], ("B", "3")]).env == (("B", "3"), ("A", "2"))


def test_a_whole_number_of_seconds_is_the_same_wall_time_as_the_fraction():
    assert Policy(walltime_sec=60) == Policy(walltime_sec=60.0)
    assert Policy(walltime_sec=60).digest == Policy(walltime_sec=60.0).digest


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"strict": 1}, "strict", "must be true or false"),
        ({"memory_mb": True}, "resources.memory_mb", "must be a whole number, not True"),
        ({"memory_mb": 64.0}, "resources.memory_mb", "must be a whole number"),
        ({"memory_mb": 15}, "resources.memory_mb", "must be at least 16 MiB"),
        ({"memory_mb": 2**31}, "resources.memory_mb", "must be at most"),
        ({"memory_mb": 10**5000}, "resources.memory_mb", "too large to print"),
        ({"cpu_shares": 10_001}, "resources.cpu_shares", "must be at most 10000"),
        ({"open_files": None}, "resources.open_files", "must be a whole number"),
        ({"walltime_sec": 0.5}, "resources.walltime_sec", "must be at least 1 s"),
        ({"walltime_sec": float("inf")}, "resources.walltime_sec", "must be finite"),
        ({"walltime_sec": float("nan")}, "resources.walltime_sec", "must be finite"),
        ({"walltime_sec": "60"}, "resources.walltime_sec", "must be a number"),
        ({"grace_sec": True}, "resources.grace_sec", "must be a number"),
        ({"seccomp": None}, "syscalls.profile", "must be one of"),
        ({"allow": "/a"}, "filesystem.allow", "must be a list of paths, not one string"),
        ({"allow": {"/a"}}, "filesystem.allow", "must be a list of paths"),
        ({"allow": [""]}, "filesystem.allow", "must not be empty"),
        ({"allow": ["/a\0b"]}, "filesystem.allow", "NUL"),
        ({"allow": [Grant("/a\0b")]}, "filesystem.allow", "NUL"),
        ({"allow": [Grant("/a", "yes")]}, "filesystem.allow", "optional must be true or false"),
        ({"allow": [b"/a"]}, "filesystem.allow", "must be a string"),
        ({"allow": [{"optional": True}]}, "filesystem.allow", "needs the key path"),
        ({"allow": [{"path": "/a", "optionl": True}]}, "filesystem.allow", "'optionl' is not part of a path"),
        ({"env": {"A": 1}}, "process.env", "the value of 'A' must be a string"),
        ({"env": {"A": "x\0"}}, "process.env", "NUL"),
        ({"env": {"A=B": "x"}}, "process.env", "not the name of a variable"),
        ({"env": {"": "x"}}, "process.env", "must not be empty"),
        ({"env": {1: "x"}}, "process.env", "must be a string"),
        ({"env": ["A"]}, "process.env", "pairs"),
        ({"env": "A=1"}, "process.env", "must be a table of strings"),
        ({"env_passthrough": ["A=1"]}, "process.env_passthrough", "not the name of a variable"),
        ({"allow_execve": ["git"]}, "process.allow_execve", "'git' is not a path"),
        ({"allow_execve": ["/usr/*/git"]}, "process.allow_execve", "a star stands only at the end"),
        ({"allow_execve": ["/usr/bin/g*"]}, "process.allow_execve", "a star stands only at the end"),
        ({"allow_syscalls": ["Read"]}, "syscalls.allow_extra", "not the name of a system call"),
        ({"egress": "direct"}, "network.egress", "the host's own network"),
        ({"host_loopback_ports": ["80"]}, "network.host_loopback_ports", "must be a port"),
        ({"host_loopback_ports": [0]}, "network.host_loopback_ports", "from 1 to 65535"),
        ({"host_loopback_ports": [True]}, "network.host_loopback_ports", "must be a port"),
        ({"hosts": [{"domain": "a.example", "ports": [65536]}]}, "host", "from 1 to 65535"),
        ({"dns_ipv6": "maybe"}, "network.dns.ipv6", "must be one of"),
        ({"ports": ["http"]}, "network.ports", "is not a port to publish"),
        ({"ports": ["70000"]}, "network.ports", "from 1 to 65535"),
        ({"ports": ["1.2.3:80:80"]}, "network.ports", "is not an address"),
        ({"dlp_dns_entropy_threshold": 4.5}, "network.dlp.dns_entropy_threshold", "must be at most 1"),
        ({"dlp_extra_scopes": {"github_pat": "a.example"}}, "network.dlp.extra_scopes", "must be a list"),
        ({"dlp_extra_scopes": ["github_pat"]}, "network.dlp.extra_scopes", "must be pairs"),
        ({"syscall_lists": {"alow": ["read"]}}, "syscalls.lists", "must be one of"),
        ({"hosts": [7]}, "host", "must be a table"),
        ({"hosts": [{"methods": []}]}, "host", "needs the key domain"),
        ({"hosts": [{"domain": "a.example", "method": []}]}, "host", "'method' is not a key of a host"),
        ({"hosts": [{"domain": "https://a.example/"}]}, "host", "must be a host name"),
        ({"hosts": [{"domain": "10.0.0.1"}]}, "host", "must be a host name"),
        ({"hosts": [{"domain": "a.example", "paths": ["v1"]}]}, "host", "paths: 'v1' does not begin with a slash"),
        ({"hosts": [{"domain": "a.example", "content_types": ["json"]}]}, "host", "not a content type"),
        ({"hosts": [{"domain": "a.example", "methods": ["GET /"]}]}, "host", "not an HTTP method"),
        ({"proxy_scheme": "https"}, "proxy.upstream_scheme", "must be one of"),
        ({"strict": True, "limits_required": False}, "resources.required", "strict"),
        ({"strict": True, "caged": False}, "caged", "strict"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_the_key_and_the_reason(given, key, message):
    with pytest.raises(PolicyError) as caught:
        Policy(**given)
    assert caught.value.key == key
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ({"hosts": [{"domain": "10.0.0.1"}]}, "an address is allowed by allow_ips in [network], or --allow-ip"),
        ({"hosts": ["10.0.0.1:80"]}, "an address is allowed by allow_ips in [network], or --allow-ip"),
        ({"hosts": [{"domain": "2001:db8::1"}]}, "an address is allowed by allow_ips in [network], or --allow-ip"),
        ({"hosts": [{"domain": "https://a.example/"}]}, "leave out scheme, port and path"),
        ({"allow_ips": ["a.example"]}, "a name is allowed by a [[host]] block, or --host"),
        ({"allow_ips": ["a.example:443"]}, "a name is allowed by a [[host]] block, or --host"),
        ({"allow_ips": ["localhost"]}, "a name is allowed by a [[host]] block, or --host"),
        ({"seccomp": "basline"}, 'did you mean "baseline"?'),
        ({"egress": "directly"}, 'did you mean "direct"?'),
        ({"egress": "direct"}, "unsafe = true"),
        ({"hosts": [{"domain": "a.example", "egress": "none"}]}, "write egress in [network], above the first [[host]]"),
        ({"dlp_dns_entropy_threshold": 4.5}, "it is a share, from 0 to 1, and no number of bits"),
        ({"allow": "/a"}, "write ['/a']"),
        ({"alow_write": []}, 'did you mean "allow_write"?'),
        ({"allow_extra": []}, 'in Python it is called "allow_syscalls"'),
        ({"cls": 1, "self": 2}, None),
    ],
)
def test_a_refusal_suggests_what_was_meant(given, suggestion):
    with pytest.raises(PolicyError) as caught:
        Policy(**given)
    assert caught.value.suggestion is None if suggestion is None else suggestion in str(caught.value)


def test_a_host_may_be_a_text():
    written = Policy(hosts=["PyPI.org.", "**.example.com:8443", "a.example:1", "a.example:2"])
    assert [(each.domain, each.ports) for each in written.hosts] == [
        ("pypi.org", ()), ("**.example.com", (8443,)), ("a.example", (1, 2)),
    ]  # fmt: skip
    assert Policy.parse('host = ["pypi.org:443"]').hosts == Policy(hosts=["pypi.org:443"]).hosts


@pytest.mark.parametrize(
    "text", ["", "a.example:", "a.example:x", "a.example:0", "a:1:2", "[::1]:1", "10.0.0.1", "http://a.b"]
)
def test_what_is_no_host_is_refused(text: str):
    with pytest.raises(PolicyError, match="host"):
        Policy(hosts=[text])


def test_hosts_and_ports_are_kept_in_one_spelling():
    policy = Policy(
        hosts=[{"domain": "API.Example.", "methods": ["get", "GET"]}], ports=["8080", "127.0.0.1:8080:8080/tcp"]
    )
    assert policy.hosts == (HostRule(domain="api.example", methods=("GET",)),)
    assert policy.ports == ("127.0.0.1:8080:8080/tcp",)
    assert Policy(ports=["53:5353/udp", "[::1]:80:81"]).ports == ("127.0.0.1:53:5353/udp", "[::1]:80:81/tcp")


def test_direct_egress_needs_only_the_acknowledgement():
    assert Policy(egress="direct", unsafe_direct=True).egress == "direct"


def test_replace_refuses_as_the_constructor_does():
    with pytest.raises(PolicyError, match="no such option"):
        replace(Policy(), alow=[])


def test_a_policy_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Policy().strict = True


@settings(max_examples=40, deadline=None)
@given(POLICIES)
def test_a_policy_hashes_pickles_and_validates_to_itself(policy):
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert hash(replace(policy)) == hash(policy)
    assert replace(policy) == policy


def test_given_names_exactly_what_differs_from_the_defaults():
    assert Policy(memory_mb=64, base=True, strict=False, deny=["/a"]).explicit == {
        "memory_mb": 64,
        "deny": (Grant("/a"),),
    }


def test_reading_toml_json_and_the_like_is_left_until_somebody_asks():
    heavy = {"tomllib", "json", "hashlib", "difflib", "ipaddress", "argparse", "asyncio", "socket", "subprocess"}
    asked_for = {"serial.py": {"json", "hashlib"}}
    for file in Path(model.__file__).parent.glob("*.py"):
        body = ast.parse(file.read_text()).body
        names = {alias.name for each in body if isinstance(each, ast.Import) for alias in each.names}
        assert not names & (heavy - asked_for.get(file.name, set())), file.name
