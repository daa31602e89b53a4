"""Names in a cage: what resolves, what is told of the rest, and a gatekeeper that comes and goes with its cages."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from _support.cage import PYTHON, cage_python, script
from _support.nameserver import A, NameServer
from pysandbox import PIPE, Cage, Policy
from pysandbox.events import Event
from pysandbox.gate.gatekeeper import Gatekeeper
from pysandbox.policy.host import HostRule
from pysandbox.probe.facts import HostFacts
from pysandbox.runtime.runtime import Runtime

RESOLVE = """
import socket
def resolved(name):
    try:
        return socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except socket.gaierror as error:
        return error.errno
report([resolved(name) for name in sys.argv[1:]])
"""
ASK_FOR_B = "import socket; socket.gethostbyname('b.test')"
NO_SUCH_NAME, TRY_AGAIN = socket.EAI_NONAME, socket.EAI_AGAIN
DOOR = ("198.18.0.1", 1080)


@pytest.fixture
def server() -> Iterator[NameServer]:
    with NameServer({("a.test", A): ["127.0.0.1"], ("b.test", A): ["203.0.113.9"]}) as server:
        yield server


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def runtime(server: NameServer, events: list[Event]) -> Iterator[Runtime]:
    runtime = Runtime(sink=events.append, nameservers=[server.place])
    yield runtime
    runtime.drain()
    assert runtime.shared.find(Gatekeeper) is None


def hosts(*domains: str, **more: object) -> Policy:
    return Policy(egress="proxy-only", hosts=[HostRule(domain=each) for each in domains], **more)


def told(events: list[Event], type: str) -> list[dict[str, object]]:
    return [dict(event.data) for event in events if event.type == type]


@pytest.mark.guest
def test_an_allowed_name_resolves_and_no_other_does(runtime, events, server):
    cage = Cage(hosts("a.test"), runtime=runtime)
    first, *rest = cage_python(cage, RESOLVE, "a.test", "A.TEST.", "b.test", "localhost", "host.pysandbox.internal")
    assert first == rest[0] and first.startswith("198.18.1.")
    assert rest[1:] == [NO_SUCH_NAME, "127.0.0.1", NO_SUCH_NAME]
    assert [name for name, *_ in server.asked] == ["a.test"]
    (denied, _) = told(events, "gatekeeper.dns_denied")
    assert (denied["hostname"], denied["fix"]) == ("b.test", '[[also]]\nhost = [{ domain = "b.test" }]')
    assert denied["invocation_id"] == told(events, "subagent.spawn")[0]["invocation_id"]


def test_the_cage_s_own_host_name_is_its_own_loopback_and_no_refusal(runtime, events):
    ask = "import socket; report([socket.gethostbyname(socket.gethostname()), socket.gethostname()])"
    address, name = cage_python(Cage(hosts("a.test"), runtime=runtime), ask)
    assert address == "127.0.0.1" and name.startswith("cage-")
    assert told(events, "gatekeeper.dns_denied") == []


def test_the_result_has_what_was_refused_and_the_counters_and_so_has_the_end(runtime, events):
    result = Cage(hosts("a.test"), runtime=runtime).run([PYTHON, "-c", ASK_FOR_B])
    (denial,) = result.denials
    assert (denial.kind, denial.target, denial.rule) == ("dns", "b.test", "host")
    assert result.network == {"gatekeeper.dns_denied": denial.count}
    (end,) = told(events, "subagent.exit")
    assert end["counts"] == result.network


def test_the_line_that_a_refusal_gives_lets_the_name_resolve(runtime):
    refused = Cage(hosts("a.test"), runtime=runtime).run(
        [PYTHON, "-c", "import socket; socket.gethostbyname('b.test')"]
    )
    allowed = Policy.parse(f"[network]\negress = 'proxy-only'\n{refused.denials[0].fix}")
    assert cage_python(Cage(allowed, runtime=runtime), RESOLVE, "b.test")[0].startswith("198.18.1.")


def test_a_host_without_an_ipv4_address_says_what_takes_another(runtime):
    for policy, hint in ((hosts("c.test"), True), (hosts("c.test", dns_ipv6="resolve"), False)):
        said = Cage(policy, runtime=runtime).run(["curl", "-sS", "http://c.test/"]).stdout
        assert "c.test has no" in said and ('dns.ipv6 = "resolve"' in said) is hint


def test_two_cages_are_answered_by_their_own_rules(runtime):
    with Cage(hosts("a.test"), runtime=runtime) as one, Cage(hosts("b.test"), runtime=runtime) as other:
        mine, not_mine = cage_python(one, RESOLVE, "a.test", "b.test")
        not_theirs, theirs = cage_python(other, RESOLVE, "a.test", "b.test")
    assert (not_mine, not_theirs) == (NO_SUCH_NAME, NO_SUCH_NAME)
    assert mine == theirs  # one and the same address, which means another name in each


def test_a_session_that_is_tightened_to_nothing_resolves_nothing(runtime, events):
    with Cage(hosts("a.test"), runtime=runtime) as cage:
        assert cage_python(cage, RESOLVE, "a.test")[0].startswith("198.18.1.")
        assert cage.restrict_network([]) == 0
        assert cage_python(cage, RESOLVE, "a.test") == [NO_SUCH_NAME]
    assert told(events, "cage.restricted")[0]["what"] == "network"


TALK = """
import socket
with socket.create_connection(("host.pysandbox.internal", int(sys.argv[1]))) as there:
    there.sendall(bytes(range(5)))
    report(attempt(lambda: there.recv(1) and None))
"""


@pytest.mark.guest
def test_a_connection_that_lost_its_grant_is_cut(runtime):
    policy = Policy(egress="proxy-only", allow_host_loopback=True)
    with socket.create_server(("127.0.0.1", 0)) as service, Cage(policy, runtime=runtime) as cage:
        port = service.getsockname()[1]
        with cage.spawn(script(TALK, str(port)), stdout=PIPE) as talks:
            connection, _ = service.accept()
            with connection:
                assert connection.recv(5) == bytes(range(5))
                assert cage.restrict_network([f"127.0.0.1:{port}"]) == 0
                assert not select.select([connection], [], [], 0)[0]
                assert cage.restrict_network([]) == 1
                assert select.select([connection], [], [], 10)[0]
            talks.wait(10)


@pytest.mark.guest
def test_without_nf_tables_there_are_listeners_for_the_names_that_were_resolved(runtime, monkeypatch):
    def without(facts: HostFacts) -> HostFacts:
        return replace(facts, nf_tables=False)

    monkeypatch.setattr("pysandbox.runtime.plans.asked_for_redirects", without)
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        policy = Policy(egress="proxy-only", host_loopback_ports=[port])
        with Cage(policy, runtime=runtime) as cage, cage.spawn(script(TALK, str(port)), stdout=PIPE) as talks:
            connection, _ = service.accept()
            with connection:
                assert connection.recv(5) == bytes(range(5))
            talks.wait(10)
            refused = "import socket; report(attempt(socket.create_connection, ('host.pysandbox.internal', 1), 10))"
            assert cage_python(cage, refused) == "ECONNREFUSED"


def test_without_a_way_out_no_gatekeeper_is_started(runtime):
    Cage(Policy(), runtime=runtime).run(["/bin/true"])
    Cage(hosts(), runtime=runtime).run(["/bin/true"])
    assert runtime.shared.find(Gatekeeper) is None


@pytest.mark.guest
def test_when_the_gatekeeper_dies_the_cage_is_cut_off(runtime, events):
    knock = f"import socket; report(attempt(socket.create_connection, {DOOR}, 10))"
    with Cage(hosts("a.test"), runtime=runtime) as cage:
        assert cage_python(cage, knock) == "ok"
        keeper = runtime.shared.find(Gatekeeper)
        keeper.loop.call_soon_threadsafe(keeper.loop.stop)
        keeper._thread.join(10)
        assert cage_python(cage, knock) == "ECONNREFUSED"
        assert cage_python(cage, RESOLVE, "a.test") == [TRY_AGAIN]
    assert len(told(events, "gatekeeper.failed")) == 1
    assert cage_python(Cage(hosts("a.test"), runtime=runtime), RESOLVE, "a.test")[0].startswith("198.18.1.")


def test_a_resolver_that_is_gone_is_an_event(events):
    runtime = Runtime(sink=events.append, nameservers=["127.0.0.1:9"])
    assert cage_python(Cage(hosts("a.test"), runtime=runtime), RESOLVE, "a.test") == [TRY_AGAIN]
    assert "127.0.0.1:9" in str(told(events, "gatekeeper.upstream_unreachable")[0]["error"])
    runtime.drain()


def test_a_resolver_that_says_nothing_is_an_event_before_its_client_gives_up(events):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        runtime = Runtime(sink=events.append, nameservers=[f"127.0.0.1:{silent.getsockname()[1]}"] * 3)  # 12 seconds
        give_up = 'import os; os.environ["RES_OPTIONS"] = "timeout:3 attempts:1"\n'  # resolv.conf(5)
        assert cage_python(Cage(hosts("a.test"), runtime=runtime), give_up + RESOLVE, "a.test") == [TRY_AGAIN]
    assert "silent for 2.5 s" in str(told(events, "gatekeeper.upstream_unreachable")[0]["error"])
    runtime.drain()


def test_a_forked_copy_of_the_host_does_not_hold_the_doors_open(runtime):
    knock = f"import socket; report(attempt(socket.create_connection, {DOOR}, 10))"
    with Cage(hosts("a.test"), runtime=runtime) as cage:
        assert cage_python(cage, knock) == "ok"
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        try:
            keeper = runtime.shared.find(Gatekeeper)
            keeper.loop.call_soon_threadsafe(keeper.loop.stop)
            keeper._thread.join(10)
            assert cage_python(cage, knock) == "ECONNREFUSED"
        finally:
            os.close(write)
            os.close(read)
            os.waitpid(child, 0)


def test_a_host_that_just_ends_ends_quietly(server):
    program = f"""
from pysandbox import Cage, Policy
from pysandbox.runtime.runtime import Runtime
from pysandbox.policy.host import HostRule
from pysandbox.probe.facts import HostFacts
runtime = Runtime(nameservers=[{server.place!r}])
policy = Policy(egress="proxy-only", hosts=[HostRule(domain="a.test")])
cage = Cage(policy, runtime=runtime).open()
resolve = "import socket; print(socket.gethostbyname('a.test'))"
print(Cage(policy, runtime=runtime).run(["{PYTHON}", "-c", resolve]).stdout)
"""
    ended = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "") and ended.stdout.startswith("198.18.1.")


def test_many_cages_at_once_are_each_answered_as_theirs(runtime):
    outcomes: dict[int, object] = {}

    def one(number: int) -> None:
        mine, other = ("a.test", "b.test") if number % 2 else ("b.test", "a.test")
        outcomes[number] = cage_python(Cage(hosts(mine), runtime=runtime), RESOLVE, mine, other)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(outcomes.values()) == [["198.18.1.0", NO_SUCH_NAME]] * 12
