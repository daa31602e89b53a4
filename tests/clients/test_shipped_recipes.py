"""Each shipped recipe of a service or a tool, beside a stand-in of its service: what it says of a host is held there,
and the host of which it says what is not held is out of reach, and named."""

from __future__ import annotations

import sys

import pytest

from _support.internet import Host, Internet, places
from _support.internet.space import demand
from pysandbox.compile.absent import left_out_notes, refuse_absent
from pysandbox.policy.compose import resolve
from pysandbox.policy.host import HostRule
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import SHIPPED
from pysandbox.policy.sources import shipped

PYTHON = [sys.executable, "-m", "pip", "download", "-q", "--no-input", "--retries", "0", "-d", "/tmp", "parcel"]
NAMES = [each for each in SHIPPED if ":" in each]
HELD = [each for each in NAMES if all(rule.methods for rule in resolve([each]).policy.hosts)]
AGENTS = ["claude-code", "codex", "opencode"]
CURL = "curl -s -m 20 -o /dev/null -w '%{http_code} %header{x-pysandbox-rule}\\n' "


def asked(rule: HostRule, method: str, kind: str = "application/json") -> str:
    sent = f"-H 'Content-Type: {kind}' -d '{{}}'" if method not in ("GET", "HEAD") else "-I" if method == "HEAD" else ""
    return f"{CURL} -X {method} {sent} https://{rule.domain}{(*rule.paths, '/')[0]}{method}"


@pytest.mark.parametrize("name", HELD)
def test_a_host_is_asked_what_its_recipe_says_and_nothing_else(name: str, net_host: Host, net: Internet) -> None:
    demand("curl")
    rules = resolve([name]).policy.hosts
    allowed = [asked(rule, rule.methods[0], (*rule.content_types, "text/plain")[0]) for rule in rules]
    refused = [asked(rule, "PROPFIND") for rule in rules]
    answer = net_host.run(
        ["sh", "-c", "; ".join([*allowed, *refused])], recipes=[name], proxy_upstream_ca=[net.ca], env={"HOME": "/tmp"}
    )

    lines = answer.stdout.splitlines()
    assert len(lines) == 2 * len(rules) and lines[len(rules) :] == ["415 host.methods"] * len(rules), answer
    assert [line for line in lines[: len(rules)] if not line.startswith(("2", "404", "405"))] == [], answer
    arrived = [line.split()[2:] for line in net.requests("origin")]
    assert arrived == [[rule.domain, f"{(*rule.paths, '/')[0]}{rule.methods[0]}"] for rule in rules]
    assert {each["rule"] for each in answer.denials if each["kind"] == "http"} == {"host.methods"}


@pytest.mark.parametrize("name", NAMES)
def test_all_is_held_but_what_is_below_a_pattern(name: str) -> None:
    policy, whole = resolve([name]).policy, shipped(name).policy(Policy)
    refuse_absent(policy)
    patterns = [rule.domain for rule in whole.hosts if "*" in rule.domain]
    assert set(policy.hosts) == {rule for rule in whole.hosts if rule.domain not in patterns}
    assert list(policy.left_out) == patterns
    assert policy.dlp_enabled == any(rule.allow_credentials for rule in whole.hosts)
    said = [note.message for note in left_out_notes(policy)]
    assert len(said) == len(patterns) and all("below a pattern" in each for each in said)


def test_what_is_below_a_pattern_is_out_of_reach_until_it_is_named(net_host: Host, net: Internet) -> None:
    demand("curl")
    ask = ["sh", "-c", f"{CURL} https://sts.amazonaws.com/; {CURL} https://s3.eu-central-1.amazonaws.com/"]
    policy = {"recipes": ["service:aws"], "proxy_upstream_ca": [net.ca]}
    answer = net_host.run(ask, **policy)
    assert answer.stdout.splitlines()[0] == "200 " and not answer.stdout.splitlines()[1].startswith("200"), answer
    assert [line.split()[2] for line in net.requests("origin")] == ["sts.amazonaws.com"]
    assert "s3.eu-central-1.amazonaws.com" not in net.questions()

    opened = net_host.run(ask, hosts=["s3.eu-central-1.amazonaws.com"], **policy)
    assert opened.stdout.splitlines() == ["200 ", "200 "], opened


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_is_served_and_its_service_gets_its_key_and_no_other(
    agent: str, net_host: Host, net: Internet
) -> None:
    demand("curl")
    service = resolve([agent]).policy.hosts[0].domain
    post = f"{CURL} -H 'Content-Type: application/json' -H 'Authorization: Bearer sk-a-session-0123456789abcdefghij'"
    token = "github_pat_" + "aB3dE6gH9jK2mN5pQ8rS1t" + "_" + "aB3dE6gH9jK2" * 4 + "aB3dE6gH9jK"
    script = "; ".join((
        f"{post} -d '{{\"messages\": [\"hello\"]}}' https://{service}/v1/messages",
        f"{CURL} -d '{{\"messages\": [\"my key is AKIAABCD2345EFGH67JK\"]}}' https://{service}/v1/messages",
        f"{CURL} -d '{token}' https://{resolve([agent]).policy.hosts[-1].domain}/",
    ))  # fmt: skip
    answer = net_host.run(["sh", "-c", script], recipes=[agent], proxy_upstream_ca=[net.ca], env={"HOME": "/tmp"},
                          workdir="none")  # fmt: skip
    first, second, third = answer.stdout.splitlines()
    assert first.startswith(("404", "405")), answer
    assert (second, third[:3]) == ("451 dlp.aws_access_key", "451"), answer
    arrived = [line.split()[2:] for line in net.requests("origin")]
    assert arrived == [[service, "/v1/messages"]], arrived


@pytest.mark.parametrize("name", ["service:pypi", "tool:pip"])
def test_pip_fetches_from_the_index_and_sends_nothing(name: str, net_host: Host, net: Internet) -> None:
    seen = [sys.prefix, sys.base_prefix]
    script = f"{' '.join(PYTHON)} && ls /tmp/parcel*; {CURL} -d data https://pypi.org/legacy/"
    answer = net_host.run(
        ["sh", "-c", script], recipes=[name], proxy_upstream_ca=[net.ca], allow=seen,
        env={"HOME": "/tmp", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )  # fmt: skip

    assert answer.stdout.splitlines() == ["/tmp/parcel-1.0-py3-none-any.whl", "415 host.methods"], answer
    assert {line.split()[2] for line in net.requests("origin")} == {"pypi.org", "files.pythonhosted.org"}


def test_a_token_goes_where_its_recipe_says(net_host: Host, net: Internet) -> None:
    demand("curl")
    token = "npm_" + "aB3dE6gH9jK2" * 3
    to = "; ".join(
        f"{CURL} -H 'Authorization: Bearer {token}' https://{each}/{each}"
        for each in ("registry.npmjs.org", "codeload.github.com")
    )
    answer = net_host.run(["sh", "-c", to], recipes=["tool:npm", "service:github"],
                          proxy_upstream_ca=[net.ca], env={"HOME": "/tmp"})  # fmt: skip
    lines = answer.stdout.splitlines()
    assert lines[0] == "404 " and lines[1].startswith("451 "), answer
    assert [line.split()[2] for line in net.requests("origin")] == ["registry.npmjs.org"]


@pytest.mark.parametrize(
    ("recipe", "needs", "script"),
    [
        ("tool:npm", "npm", "cd /tmp && npm install --silent --no-audit --no-update-notifier --fetch-retries 0 parcel "
         "&& cat node_modules/parcel/index.js"),
        ("tool:git", "git", "git clone -q https://github.com/project.git /tmp/c && cat /tmp/c/README"),
        ("service:github", "git", "git clone -q https://github.com/project.git /tmp/c && cat /tmp/c/README"),
    ],
)  # fmt: skip
def test_its_tool_is_served(recipe: str, needs: str, script: str, net_host: Host, net: Internet) -> None:
    demand(needs)
    answer = net_host.run(["sh", "-c", script], recipes=[recipe], proxy_upstream_ca=[net.ca],
                          env={"HOME": "/tmp"})  # fmt: skip
    assert places.PAGE.strip() in answer.stdout, answer
    assert not answer.denials, answer


def test_every_service_has_its_stand_in() -> None:
    named = {rule.domain for name in (*NAMES, *AGENTS) for rule in shipped(name).policy(Policy).hosts}
    assert {each.replace("**.", "s3.eu-central-1.") for each in named} == set(places.SERVICES)
