"""What a Plan says of secrets, and which of them no Plan is made for."""

from __future__ import annotations

from typing import Any

import pytest

from pysandbox.compile.environ import environment
from pysandbox.compile.secrets import refuse_leaks, secret_grants
from pysandbox.errors import PolicyError, SandboxCompileError
from pysandbox.policy.also import as_python, as_toml, layer_of
from pysandbox.policy.edit import add_to
from pysandbox.policy.model import Policy
from pysandbox.policy.names import within
from pysandbox.policy.secret import Secret

HOST = "api.example"
TOKEN = {"name": "TOKEN", "from": "env:REAL", "hosts": [HOST], "in": ["header:Authorization", "basic"]}


def policy(hosts: Any = (HOST,), **more: Any) -> Policy:
    return Policy(hosts=hosts, secrets=[{**TOKEN, **more}])


def test_every_spelling_is_the_same_secret() -> None:
    made = policy()
    assert made.secrets == (
        Secret(name="TOKEN", source="env:REAL", hosts=(HOST,), places=("header:authorization", "basic")),
    )
    assert Policy.parse(made.to_toml()) == made == Policy.from_json(made.to_json())
    assert layer_of(as_toml({"secrets": made.secrets}))["secrets"] == made.secrets
    assert "'from': 'env:REAL'" in as_python(as_toml({"secrets": made.secrets}))
    assert "[[secret]]" in add_to("", {"secrets": made.secrets})


@pytest.mark.parametrize(("wrong", "why"), [
    ({"from": "command:gh auth token"}, "not asked of a command"), ({"from": "ghp_abc"}, "says not where"),
    ({"from": "file:token"}, "says not where"), ({"in": []}, "needs the key in"),
    ({"hosts": []}, "needs the key hosts"),
    ({"in": ["path"]}, "not a place"), ({"in": ["header:host"]}, "written anew"),
    ({"in": ["header:a b"]}, "not a place"),
    ({"name": "A-B"}, "not the name of a variable"), ({"value": "x"}, "not a key of a secret"),
])  # fmt: skip
def test_what_is_wrong_with_one_is_told(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        Policy(hosts=[HOST], secrets=[{**TOKEN, **wrong}])


def test_of_two_with_one_name_the_later_stays() -> None:
    merged = policy().merge(policy(**{"from": "env:OTHER"}))
    assert [each.source for each in merged.secrets] == ["env:OTHER"]


def test_one_that_is_added_or_sent_to_more_is_not_tighter() -> None:
    assert policy().narrow(secrets=[]).secrets == ()
    for wider in ([{**TOKEN, "hosts": [HOST, "b.example"]}], [{**TOKEN, "from": "env:OTHER"}]):
        with pytest.raises(PolicyError):
            policy().narrow(secrets=wider)
    with pytest.raises(PolicyError):
        Policy(hosts=[HOST]).narrow(secrets=[TOKEN])


class Shown:
    """A view of everything below /seen."""

    def shows(self, real: str) -> bool:
        return real.startswith("/seen/")


class Paths(dict[str, Any]):
    def __missing__(self, path: str) -> Any:
        return type("Fact", (), {"real": path})()


def refused(made: Policy) -> str:
    try:
        refuse_leaks(made, Paths(), Shown())  # type: ignore[arg-type]
    except SandboxCompileError as error:
        return str(error)
    return ""


def test_a_host_that_no_block_opens_is_not_opened_by_a_secret() -> None:
    assert refused(policy()) == ""
    assert "no [[host]] block allows" in refused(policy(hosts=["other.example"]))
    assert refused(policy(hosts=["*.example"])) == "" == refused(policy(hosts=["**.example"]))
    assert refused(policy(hosts=[{"domain": "example", "include_subdomains": True}])) == ""


@pytest.mark.parametrize("domain", [HOST, "*.example", "**.example"])
@pytest.mark.parametrize("column", [{"direct": True}, {"tls": "pass"}])
def test_a_host_that_nobody_looks_at_is_refused(domain: str, column: dict[str, Any]) -> None:
    assert "nobody looks at requests" in refused(policy(hosts=[HOST, {"domain": domain, **column}]))


def test_a_file_that_the_cage_sees_is_refused() -> None:
    assert "the cage sees /seen/token" in refused(policy(**{"from": "file:/seen/token"}))
    assert refused(policy(**{"from": "file:/run/token"})) == ""


def test_without_a_way_out_a_plan_has_none() -> None:
    assert secret_grants(policy()) and not secret_grants(Policy(egress="none", hosts=[HOST], secrets=[TOKEN]))


def variables(made: Policy, **env: str) -> dict[str, str]:
    host: Any = type("Host", (), {"env": env})()
    paths: Any = type("Paths", (), {"home": "/home"})()
    return dict(environment(made, host, paths, None))  # type: ignore[arg-type]


@pytest.mark.parametrize("monitor", [False, True])
def test_neither_the_variable_nor_its_source_is_passed_through(monitor: bool) -> None:
    asked = Policy(hosts=[HOST], secrets=[TOKEN], env_passthrough=["REAL", "TOKEN", "LANG"], monitor=monitor)
    assert {"REAL", "TOKEN"} & variables(asked, REAL="value", TOKEN="value", LANG="C").keys() == set()
    assert variables(asked, LANG="C")["LANG"] == "C"


@pytest.mark.parametrize("name", ["PATH", "SSL_CERT_FILE", "HTTP_PROXY", "MINE"])
def test_a_variable_that_the_cage_has_is_not_a_secret_s(name: str) -> None:
    with pytest.raises(SandboxCompileError, match="has already"):
        variables(Policy(hosts=[HOST], env={"MINE": "a"}, secrets=[{**TOKEN, "name": name}]))


@pytest.mark.parametrize(("inner", "outer", "is_within"), [
    ("a.b", "a.b", True), ("a.b", "*.b", True), ("a.b", "**.b", True), ("*.b", "a.b", False), ("*.b", "**.b", True),
    ("**.b", "*.b", False), ("**.a.b", "**.b", True), ("*.a.b", "*.b", False), ("*.ab", "**.b", False),
    ("b", "*.b", False),
])  # fmt: skip
def test_one_pattern_within_another(inner: str, outer: str, is_within: bool) -> None:
    assert within(inner, outer) is is_within
