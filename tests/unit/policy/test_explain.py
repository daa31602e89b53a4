"""The policy in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from golden.pretend import grants
from pysandbox.errors import PolicyError
from pysandbox.policy.explain import explain, topics
from pysandbox.policy.model import Policy, options


@pytest.mark.parametrize(("change", "word"), [
    ({"allow": grants("/data")}, "read-only: /data"),
    ({"allow_write": grants("/data")}, "reach the host: /data"),
    ({"deny": grants("/data")}, "Never readable or writable: /data"),
    ({"mask": grants("/data")}, "Shown empty: /data"),
    ({"strict": True}, "killed at its first"),
    ({"isolation": "landlock"}, "no namespaces"),
    ({"isolation": "landlock"}, "no network: no address can be connected to"),
    ({"isolation": "landlock"}, "changed but the mode and the times"),
    ({"isolation": "landlock", "workdir": "write"}, "with git's hooks and config"),
    ({"isolation": "landlock", "allow_ips": ["192.0.2.1:9"]}, "but the hosts and addresses that are listed"),
    ({"env_passthrough": ("LANG",)}, "inherited from the host: LANG"),
    ({"allow_execve": ("/bin/sh",)}, "/bin/sh"),
    ({"max_pids": 9}, "At most 9"),
    ({"memory_mb": 99}, "99 MiB"),
    ({"cpu_percent": 33}, "33 % of one processor"),
    ({"write_mb": 9}, "write 9 MiB to files of the host, in all"),
    ({"walltime_sec": 5.0}, "after 5 s, and killed 5 s later"),
    ({"egress": "proxy-only", "hosts": [{"domain": "a.example", "ports": [443]}]}, "can be connected to on port 443"),
    ({"egress": "proxy-only", "hosts": [{"domain": "a.example"}]}, "a.example, no name below it, can be"),
    ({"egress": "proxy-only", "hosts": [{"domain": "a.example", "include_subdomains": True}]}, "every name below it"),
    ({"egress": "proxy-only", "hosts": [{"domain": "a.example", "direct": True}]}, "nothing looks at what is sent"),
    ({"egress": "proxy-only", "hosts": [{"domain": "a.example", "private_addresses": ["10.1.0.0/16", "fd00:1::7"]}]},
     "It may lead to private addresses: 10.1.0.0/16, fd00:1::7."),
    ({"egress": "proxy-only", "host_loopback_ports": [5432]}, "host.pysandbox.internal on port 5432"),
    ({"allow_ips": ["192.0.2.7"]}, "Addresses that can be connected to: 192.0.2.7"),
    ({"ports": ["8080"]}, "127.0.0.1:8080:8080/tcp"),
    ({"unix_sockets": ["/run/a"]}, "Unix sockets of the host that can be connected to: /run/a"),
    ({"caged": False}, "no cage at all"),
])  # fmt: skip
def test_what_a_policy_says_is_in_its_explanation_and_not_in_the_defaults(change: dict[str, Any], word: str) -> None:
    assert word in " ".join(explain(Policy(**change)))
    assert word not in " ".join(explain(Policy()))


@pytest.mark.parametrize("name", ["workdir", "run_as", "egress"])
def test_every_choice_that_a_policy_accepts_has_its_sentence(name: str) -> None:
    (described,) = (each for field, each in options() if field.name == name)
    sentences = {choice: text for each in described.sentences for choice, text in each.cases.items()}
    for choice in described.choices:
        try:
            policy = Policy(unsafe_direct=True, allow_ips=["192.0.2.7"], **{name: choice})  # type: ignore[arg-type]
        except PolicyError:
            continue
        assert sentences[choice] in explain(policy)


def test_what_has_no_sentence_of_its_own_is_told_by_its_key_value_and_document() -> None:
    told = dict(topics(Policy(unguarded=[".vscode"], output_mb=3, monitor=True)))["Besides"]
    assert [each.partition(": ")[0] for each in told] == [
        "filesystem.unguarded = .vscode", "resources.output_mb = 3", "monitor = true",
    ]  # fmt: skip
    assert "Besides" not in dict(topics(Policy()))


def test_a_value_of_a_variable_is_not_told() -> None:
    assert not any("s3cret" in each for each in explain(Policy(env={"TOKEN": "s3cret"})))


def test_the_whole_explanation_of_a_policy_reads_in_this_order() -> None:
    policy = Policy(allow=grants("/a"), deny=grants("/d"), mask=grants("/m"), allow_syscalls=("ptrace",), strict=True)
    assert [heading for heading, _ in topics(policy)] == [
        "Isolation",
        "Reads",
        "Writes",
        "Runs",
        "Reaches",
        "Uses",
        "Time",
    ]
    assert [each.partition(":")[0] for each in dict(topics(policy))["Reads"]] == [
        "The system directories that programs need are visible and read-only.",
        "The current directory is not visible unless it is granted.",
        "Visible and read-only", "Never readable or writable", "Shown empty",
    ]  # fmt: skip
    assert dict(topics(policy))["Uses"] == (
        "No limit on processes, memory, CPU of the cage as a whole.",
        "A process may open 4096 files and write files of up to 4 GiB.",
    )


CONTRACT = {
    "domain": "a.example", "methods": ["GET", "HEAD"], "paths": ["/v1/"], "content_types": ["text/plain"],
    "max_request_bytes": 100, "ports": [443],
}  # fmt: skip


def test_a_host_under_a_contract_is_told_by_what_that_allows() -> None:
    told = " ".join(explain(Policy(egress="proxy-only", hosts=[CONTRACT])))  # type: ignore[list-item]
    assert (
        "a.example, no name below it, may be sent GET and HEAD requests on port 443, to paths that begin with /v1/, "
        "with bodies of the type text/plain, of 100 bytes at most, and nothing else." in told
    )
    assert "can be connected to" not in told


def test_where_every_host_may_be_reached_nothing_says_that_only_some_may() -> None:
    said = {mode: " ".join(explain(Policy(hosts=["a.example"], contract_mode=mode))) for mode in ("strict", "relaxed")}
    assert "no network but the hosts" in said["strict"] and "Every host may be reached" not in said["strict"]
    assert "no network but the hosts" not in said["relaxed"] and "Every host may be reached" in said["relaxed"]
