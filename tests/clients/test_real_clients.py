"""A client reaches the hosts of the policy by name and no other, whatever it knows of proxies."""

from __future__ import annotations

import glob
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from _support.internet import Answer, Host, Internet, places
from _support.internet.space import demand, found

from .table import CLIENTS, TRIED, WAYS, Client, environment

PROGRAMS = Path(__file__).with_name("programs")
DENIED = "denied.example"
OWN_NAME = re.compile(r"cage-[0-9a-z]{8}")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fetch.class and fetch, as far as there are compilers."""
    directory = tmp_path_factory.mktemp("built")
    isolated = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(directory), "CGO_ENABLED": "0",
                "GOPATH": str(directory / "go"), "GOTOOLCHAIN": "local", "GO111MODULE": "off"}  # fmt: skip
    for compiler in (["javac", "-d", str(directory), str(PROGRAMS / "Fetch.java")],
                     ["go", "build", "-o", str(directory / "fetch"), str(PROGRAMS / "fetch.go")]):  # fmt: skip
        if found(compiler[0]):
            subprocess.run(compiler, env=isolated, check=True, capture_output=True)
    return directory


def demand_all(client: Client) -> None:
    """Skips the test where the client is not installed."""
    demand(*client.needs)
    missing = [each for each in client.modules if importlib.util.find_spec(each) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed: pip install '.[test]'")


def ask(client: Client, way: str, at: str, net_host: Host, net: Internet, built: Path) -> Answer:
    demand_all(client)
    script = client.script.format(at=at, programs=PROGRAMS, built=built)
    seen = [sys.prefix, sys.base_prefix, net.ca, str(built), str(PROGRAMS), *glob.glob("/etc/java-*")]
    return net_host.run(
        ["sh", "-c", f"{WAYS[way]}; {script}"],
        env=environment(net.ca),
        hosts=list(places.SITES),
        allow=seen,
        **client.policy,
    )


def named(value: object) -> str | None:
    return value.name if isinstance(value, Client) else None


@pytest.mark.parametrize("client", CLIENTS, ids=named)
def test_uncaged_it_reaches_any(client: Client, net_host: Host, net: Internet, built: Path, tmp_path: Path) -> None:
    """The control: in this internet the name that the policy will not have is as good as any other."""
    demand_all(client)
    script = client.script.format(at=DENIED, programs=PROGRAMS, built=built)

    net_host.uncaged(["sh", "-c", f"cd {tmp_path}; {script}"], env={**environment(net.ca), "HOME": str(tmp_path)})

    assert DENIED in net.questions()
    assert net.arrivals_at(places.DENIED) or client.name.startswith("dig")


@pytest.mark.parametrize(("client", "way"), TRIED, ids=named)
def test_what_is_allowed_is_reached(client: Client, way: str, net_host: Host, net: Internet, built: Path) -> None:
    answer = ask(client, way, client.allowed, net_host, net, built)

    assert (answer.exit_code, client.marker in answer.stdout) == (0, True), answer
    own = {
        name for name in answer.refused() if OWN_NAME.fullmatch(name)
    }  # which git asks for, to make up a mail address
    assert answer.refused() == own


@pytest.mark.parametrize(("client", "way"), TRIED, ids=named)
def test_what_is_not_is_refused(client: Client, way: str, net_host: Host, net: Internet, built: Path) -> None:
    answer = ask(client, way, DENIED, net_host, net, built)

    assert client.marker not in answer.stdout, answer
    assert DENIED in answer.refused(), answer
    assert DENIED in {each["target"].partition(":")[0] for each in answer.denials}, answer
    assert net.requests("denied") == []
    assert DENIED not in net.questions()
    assert net.arrivals_at(places.DENIED) == []
