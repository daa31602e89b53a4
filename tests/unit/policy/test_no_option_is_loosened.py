"""narrow, option by option and column by column: one that nobody can show to be refused is held by nothing.

A new option or column fails here until somebody has written down what would be more of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from pysandbox.errors import PolicyError
from pysandbox.policy.host import COLUMNS
from pysandbox.policy.model import Policy, options
from pysandbox.policy.narrow import TIGHTER
from pysandbox.policy.tighter import says_nothing

DIRECT = {"egress": "direct", "unsafe_direct": True}
TOKEN = {"name": "A_TOKEN", "from": "env:A_TOKEN", "hosts": ["a.example"], "in": ["basic"]}
A_HOST: dict[str, Any] = {"hosts": [{"domain": "a.example", "methods": ["GET"]}]}
PARENT = "http://proxy.example:3128"
OWN = {"name": "acme_token", "pattern": "acme_[a-z]{20}"}

# option: (the policy, what is more of this option alone), at each way in which it can be more
LOOSER: dict[str, list[tuple[dict[str, Any], Any]]] = {
    "allow": [({}, ["/a"]), ({"allow": ["/a"]}, ["/a", "/b"]), ({"deny": ["/a"]}, ["/a"])],
    "allow_write": [({"allow": ["/a"]}, ["/a"]), ({"cow": ["/a"]}, ["/a"])],
    "cow": [({"allow": ["/a"]}, ["/a"]), ({"allow_write": ["/w"]}, ["/w", "/a"])],
    "deny": [({"deny": ["/a"]}, []), ({"deny": ["/a", "/b"]}, ["/a", "/c"])],
    "mask": [({"mask": ["/a"]}, []), ({"mask": ["/a", "/b"]}, ["/b"])],
    "unguarded": [({}, [".git"]), ({"unguarded": [".git"]}, [".git", ".vscode"])],
    "workdir": [({"workdir": "read"}, "write"), ({"workdir": "read"}, "cow"), ({"workdir": "cow"}, "write")],
    "base": [({"base": False}, True)],
    "state": [({}, "scratch")],
    "env": [({}, {"A": "1"}), ({"env": {"A": "1"}}, {"A": "2"})],
    "env_passthrough": [({}, ["A"])],
    "allow_execve": [({"allow_execve": ["/bin/a"]}, []), ({"allow_execve": ["/bin/a"]}, ["/bin/a", "/bin/b"])],
    "max_pids": [({"max_pids": 2}, 3), ({"max_pids": 2}, None), ({}, 4097)],
    "run_as": [({}, "self"), ({"run_as": "self"}, "root")],
    "memory_mb": [({"memory_mb": 64}, 65), ({"memory_mb": 64}, None)],
    "cpu_percent": [({"cpu_percent": 50}, 51), ({"cpu_percent": 50}, None)],
    "cpu_shares": [({"cpu_shares": 50}, 51), ({"cpu_shares": 50}, None), ({}, 101)],
    "walltime_sec": [({"walltime_sec": 5}, 6), ({"walltime_sec": 5}, None)],
    "grace_sec": [({"grace_sec": 1}, 2)],
    "address_space_gb": [({"address_space_gb": 4}, 5), ({"address_space_gb": 4}, 0)],
    "file_size_gb": [({"file_size_gb": 4}, 5), ({"file_size_gb": 4}, 0)],
    "open_files": [({"open_files": 9}, 10)],
    "write_mb": [({"write_mb": 9}, 10), ({"write_mb": 9}, None)],
    "tmp_mb": [({"tmp_mb": 9}, 10)],
    "cow_mb": [({"cow_mb": 9}, 10)],
    "copy_mb": [({"copy_mb": 9}, 10)],
    "output_mb": [({"output_mb": 9}, 10)],
    "limits_required": [({}, False)],
    "storage": [({"storage": "memory"}, "disk"), ({"storage": "memory"}, "copy")],
    "on_exit": [({"workdir": "cow", "on_exit": "abort"}, "keep"), ({"workdir": "cow", "on_exit": "ask"}, "commit")],
    "on_error": [({"workdir": "cow", "on_exit": "commit", "on_error": "abort"}, "commit")],
    "seccomp": [({"seccomp": "seed-187"}, "default"), ({}, "relaxed")],
    "seccomp_mode": [({}, "deny-list")],
    "allow_syscalls": [({}, ["ptrace"])],
    "deny_syscalls": [({"deny_syscalls": ["bpf"]}, [])],
    "syscall_lists": [
        ({"syscall_lists": {"allow": ["read"]}}, ()),
        ({}, {"allow": ["read"]}),
        ({"syscall_lists": {"allow": ["read"]}}, {"allow": ["read", "bpf"]}),
        ({"syscall_lists": {"allow": ["read"], "deny": ["acct"]}}, {"allow": ["read"]}),
    ],
    "notifier": [({"notifier": True}, False), ({"notifier": True}, None), ({}, False)],
    "scm_rights": [({"scm_rights": "deny"}, "allow")],
    "isolation": [({}, "landlock"), ({"isolation": "landlock"}, "full")],
    "caged": [({}, False)],
    "strict": [({"strict": True}, False)],
    "monitor": [({}, True)],
    "why": [({}, True)],
    "egress": [
        ({"egress": "none"}, "proxy-only"),
        ({"egress": "proxy-only", "unsafe_direct": True}, "direct"),
        ({**DIRECT, "allow_ips": ["203.0.113.7"]}, "proxy-only"),
    ],
    "unsafe_direct": [({}, True)],
    "allow_ips": [
        ({}, ["203.0.113.7"]),
        ({"allow_ips": ["203.0.113.7"]}, ["203.0.113.7", "203.0.113.8"]),
        ({**DIRECT, "allow_ips": ["203.0.113.7"]}, []),
        ({**DIRECT, "allow_ips": ["203.0.113.7"]}, ["203.0.113.8"]),
    ],
    "contract_mode": [({}, "relaxed")],
    "allow_host_loopback": [({}, True)],
    "host_loopback_ports": [({}, [80]), ({"allow_host_loopback": True, "host_loopback_ports": [80]}, [])],
    "ports": [({}, ["80"])],
    "unix_sockets": [({}, ["/run/a"])],
    "network_backend": [({"network_backend": "doors"}, "routed")],
    "bridge": [({}, "other-br0")],
    "dns_ipv6": [({}, "resolve"), ({"dns_ipv6": "nxdomain"}, "nodata")],
    "dlp_enabled": [({"dlp_enabled": True}, False)],
    "dlp_canary_tokens": [({"dlp_canary_tokens": True}, False)],
    "dlp_bearer": [({"dlp_bearer": "any"}, "jwt")],
    "dlp_decompress": [({"dlp_decompress": False}, True)],
    "dlp_max_decode_depth": [({"dlp_max_decode_depth": 3}, 2)],
    "dlp_dns_entropy_threshold": [({"dlp_dns_entropy_threshold": 0.5}, 0.6)],
    "dlp_session_entropy_budget": [({"dlp_session_entropy_budget": 5}, 6)],
    "dlp_extra_scopes": [
        ({}, {"npm_token": ["a.example"]}),
        ({"dlp_extra_scopes": {"npm_token": ["a.example"]}}, {"npm_token": ["b.example"]}),
    ],
    "dlp_packs": [({"dlp_packs": ["gitleaks"]}, [])],
    "dlp_detectors": [({"dlp_detectors": [OWN]}, [])],
    "proxy_buffered_bytes": [({"proxy_buffered_bytes": 2**20}, 1)],
    "proxy_streamed_bytes": [({"proxy_streamed_bytes": 2**20}, 2**21)],
    "proxy_timeout_ms": [({"proxy_timeout_ms": 5}, 6)],
    "proxy_scheme": [({}, "h2c")],
    "proxy_upstream_ca": [({}, ["/etc/other.pem"])],
    "proxy_parent": [({}, PARENT), ({"proxy_parent": PARENT}, None)],
    "proxy_parent_credentials": [({"proxy_parent": PARENT}, "env:LOGIN")],
    "proxy_no_parent": [({"proxy_no_parent": ["a.example"]}, [])],
    "hosts": [({}, ["a.example"])],  # column by column below
    "secrets": [(A_HOST, [TOKEN])],
}


def refused(policy: Policy, **looser: Any) -> str | None:
    """The key that is named; None where it is taken."""
    try:
        policy.narrow(**looser)
    except PolicyError as error:
        assert "may only be tightened" in error.message or "cannot be changed" in error.message
        return error.key
    return None


def test_of_every_option_something_is_more():
    silent = {name for name, rule in TIGHTER.items() if rule is says_nothing}
    assert LOOSER.keys() == TIGHTER.keys() - silent


@pytest.mark.parametrize(("name", "before", "more"), [(name, *row) for name, rows in LOOSER.items() for row in rows])
def test_more_of_an_option_is_refused_by_its_name(name: str, before: dict[str, Any], more: Any):
    keys = {field.name: described.toml_key for field, described in options()}
    assert refused(Policy(**before), **{name: more}) == keys[name]


# column of [[host]]: (the block, the same with more of this column alone, the same with less of it)
BLOCK = {"domain": "a.example", "tls": "inspect"}  # its requests are looked at, whatever else it says
COLUMN: dict[str, list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {
    "methods": [
        ({"methods": ["GET", "PUT"]}, {"methods": ["GET", "POST"]}, {"methods": ["GET"]}),
        ({"methods": ["GET"]}, {}, {"methods": ["GET"]}),
        ({}, {"domain": "b.example"}, {"methods": ["GET"]}),
    ],
    "content_types": [
        ({"content_types": ["a/b", "c/d"]}, {"content_types": ["a/b", "e/f"]}, {"content_types": ["a/b"]}),
        ({"content_types": ["a/b"]}, {}, {"content_types": ["a/b"]}),
    ],
    "paths": [
        ({"paths": ["/a", "/b"]}, {"paths": ["/a", "/c"]}, {"paths": ["/a"]}),
        ({"paths": ["/a"]}, {}, {"paths": ["/a"]}),
    ],
    "max_request_bytes": [
        ({"max_request_bytes": 9}, {"max_request_bytes": 10}, {"max_request_bytes": 9}),
        ({"max_request_bytes": 9}, {}, {"max_request_bytes": 0}),
        ({"max_request_bytes": 0}, {"max_request_bytes": 1}, {"max_request_bytes": 0}),
    ],
    "allow_credentials": [
        ({"allow_credentials": ["npm_token"]}, {"allow_credentials": ["npm_token", "github_pat"]}, {}),
        ({}, {"allow_credentials": ["npm_token"]}, {}),
    ],
    "ports": [({"ports": [80, 443]}, {"ports": [80, 81]}, {"ports": [80]}), ({"ports": [80]}, {}, {"ports": [80]})],
    "direct": [
        ({"tls": None}, {"tls": None, "direct": True}, {}),
        ({"tls": None, "direct": True}, {"domain": "b.example"}, {}),
    ],
    "contract_mode": [
        ({"contract_mode": "strict"}, {"contract_mode": "relaxed"}, {"contract_mode": "strict"}),
        ({}, {"contract_mode": "relaxed"}, {"contract_mode": "strict"}),
    ],
    "include_subdomains": [
        ({}, {"include_subdomains": True}, {}),
        ({"include_subdomains": True}, {"domain": "b.example"}, {}),
    ],
    "private_addresses": [
        (
            {"private_addresses": ["10.1.0.0/16", "10.2.0.1"]},
            {"private_addresses": ["10.3.0.0/16"]},
            {"private_addresses": ["10.2.0.1"]},
        ),
        ({"private_addresses": ["10.1.0.0/16"]}, {"private_addresses": ["10.1.0.1"]}, {}),  # it may be this host's own
        ({}, {"private_addresses": ["10.1.0.0/16"]}, {}),
        ({"private_addresses": ["10.1.0.0/16"]}, {"domain": "b.example", "private_addresses": ["10.1.0.0/16"]}, {}),
    ],
    "websocket": [({}, {"websocket": True}, {}), ({"websocket": True}, {"domain": "b.example"}, {})],
    "tls": [
        ({"methods": ["GET"]}, {"methods": ["GET"], "tls": "auto"}, {"methods": ["GET"], "tls": "inspect"}),
        ({"tls": None}, {"tls": "pass"}, {"tls": "inspect"}),
        ({"tls": "auto"}, {"tls": "pass"}, {"tls": None}),
    ],
}


def test_of_every_column_something_is_more():
    assert COLUMN.keys() == {column.name for column in COLUMNS} - {"domain"}


@pytest.mark.parametrize(("before", "more", "less"), [row for rows in COLUMN.values() for row in rows])
def test_more_of_a_column_is_refused_and_less_of_it_taken(before: dict[str, Any], more: dict[str, Any], less: Any):
    policy = Policy(hosts=[BLOCK | before])
    assert refused(policy, hosts=[BLOCK | more]) == "host"
    assert refused(policy, hosts=[BLOCK | less]) is None
    assert refused(policy, hosts=[BLOCK | before]) is None
