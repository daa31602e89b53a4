"""Claim: the value of a secret is nowhere in its cage, whatever runs there, and in nothing that the host program tells
of it; the server is sent it all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.internet import Host, Internet
from _support.internet.host import host_program

VALUE = "npm_" + "Val5eOfTheSecret" * 2
SEARCH = (
    "tr '\\0' '\\n' < /proc/self/environ; env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; "
    "cat /etc/hosts /.pysandbox-ca.pem; grep -rs {value} / --exclude-dir=sys --exclude-dir=proc --exclude-dir=usr "
    '--exclude-dir=lib -l -m1; curl -sS "https://origin.example/?key=$TOKEN"; echo status $?'
)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """Where the value is: a file of the host that no cage sees."""
    file = tmp_path / "token"
    file.write_text(VALUE + "\n")
    for each in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        each.chmod(0o755)
    file.chmod(0o644)
    yield file


@pytest.mark.guest
def test_uncaged_whoever_has_the_variable_has_the_value(net_host: Host) -> None:
    """The control."""
    assert VALUE in net_host.uncaged(["env"], env={"TOKEN": VALUE}).stdout


@pytest.mark.guest
def test_the_server_has_it_and_nobody_else(net_host: Host, net: Internet, source: Path) -> None:
    secret = {"name": "TOKEN", "from": f"file:{source}", "hosts": ["origin.example"], "in": ["query:key"]}
    argv = ["sh", "-c", SEARCH.format(value=f"[{VALUE[8]}]{VALUE[9:]}")]
    answer = net_host.run(argv, hosts=["origin.example"], proxy_upstream_ca=[net.ca], secrets=[secret])
    assert "status 0" in answer.stdout, answer
    assert "TOKEN=npm_" in answer.stdout
    told = json.dumps([answer.stdout, answer.stderr, answer.denials, answer.events], default=str)
    assert VALUE not in told and VALUE[8:] not in told
    assert any(f"/?key={VALUE}" in line for line in net.requests("origin"))


GIVEN = """
import json, os, pickle, sys, tempfile
from pysandbox import AuditLog, Cage, Policy, Runtime, Secret
value, ca, directory = sys.stdin.readline().strip(), sys.argv[1], tempfile.mkdtemp()
secret = Secret(name="TOKEN", hosts=["origin.example"], places=["query:key"])
policy = Policy(hosts=["origin.example"], proxy_upstream_ca=[ca], secrets=[secret])
events = []
runtime = Runtime(sink=events.append, audit=AuditLog(directory + "/trail"), warm=0)
ask = ["sh", "-c", 'curl -sS -o /dev/null -w "%{http_code} " "https://origin.example/?key=$TOKEN"']
with Cage(policy, runtime=runtime, secrets={"TOKEN": value}) as cage:
    said = cage.run(ask).stdout
    cage.revoke_secret("TOKEN")
    said += cage.run(ask).stdout
    denials = cage.denials
runtime.drain()
shown = (policy, cage, vars(cage), cage._launcher, vars(cage._launcher.secrets), events, denials)
told = [*map(repr, shown), policy.to_toml(), policy.to_json(), pickle.dumps(policy).decode("latin-1")]
for path, _, names in os.walk(directory):
    told += [open(os.path.join(path, name), errors="replace").read() for name in names]
print(json.dumps([said, any(value in each for each in told), [each.rule for each in denials], len(told)]), flush=True)
"""


def test_a_value_that_is_given_by_a_program_is_in_nothing_that_it_tells(net: Internet) -> None:
    with host_program(net.space, GIVEN, net.ca) as process:
        said, _ = process.communicate(VALUE.encode() + b"\n", timeout=120)
    answered, is_told, rules, told = json.loads(said)
    assert (answered, is_told, rules) == ("200 451 ", False, ["secret.revoked"])
    assert told > 10  # the trail too
    assert sum(VALUE in line for line in net.requests("origin")) == 1
