"""Claim: without the gatekeeper there is no network: its death, or a loop that no longer turns, cuts the cage off and
never opens it.
"""

from __future__ import annotations

import json
import signal
import socket

from _support.internet import Internet, places
from _support.internet.host import host_program

from .harness import program, wait_until
from .network import DOORS

HOST = """
import json, sys, time
from pysandbox import Cage, Policy, Runtime, DEVNULL, PIPE
from pysandbox.gate.gatekeeper import Gatekeeper
from pysandbox.policy.host import HostRule
runtime = Runtime(warm=0)
policy = Policy(egress="proxy-only", hosts=(HostRule(domain="origin.example"),))
with Cage(policy, runtime=runtime) as cage:
    with cage.spawn(json.loads(sys.argv[1]), stdin=PIPE, stdout=PIPE) as process:
        print(process.stdout.readline().decode().strip(), flush=True)
        order = sys.stdin.readline().strip()
        if order == "stop the loop":
            loop = runtime.shared.find(Gatekeeper).loop
            loop.call_soon_threadsafe(loop.stop)
            while loop.is_running():
                time.sleep(0.01)
        process.stdin.write(b"go\\n"); process.stdin.flush()
        print(process.stdout.read().decode().strip().replace("\\n", ";"), flush=True)
"""
CONNECTED = """
    s = socket.create_connection(("origin.example", ECHO), PATIENCE)
    print(echoes(s), flush=True)
    sys.stdin.readline()
"""
AGAIN = """
    PATIENCE = 2.0
    says("address", direct, ORIGIN, ECHO)
    says("another", direct, DENIED, ECHO)
    says("other resolver", dns, b"origin.example", 1, OTHER)
    says("socks", socks, b"origin.example", ECHO)
    says("unresolved", lambda: str(socket.create_connection(("www.origin.example", ECHO), PATIENCE)))
"""
NAMES = {name: getattr(places, name) for name in ("ORIGIN", "DENIED", "ECHO")} | {"OTHER": places.OTHER_RESOLVER}


def attackers() -> str:
    return json.dumps(program(DOORS.read_text(), CONNECTED, AGAIN, **NAMES))


def test_a_killed_host_cuts_its_cages_off(net: Internet) -> None:
    """The server sees the end of the connection, and nothing arrives afterwards."""
    with host_program(net.space, HOST, attackers()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reached\n"
        assert len(net.arrivals_at(places.ORIGIN)) == 1
        inside = connections(net)
        process.send_signal(signal.SIGKILL)
        process.wait()

        assert inside == 1
        assert wait_until(lambda: connections(net) == 0, 10)
    assert len(net.arrivals_at(places.ORIGIN)) == 1 and net.arrivals_at(places.DENIED, places.OTHER_RESOLVER) == []


def connections(net: Internet) -> int:
    """Established ones that the echo server of the origin has."""
    port, own = f":{places.ECHO:04X}", socket.inet_aton(places.ORIGIN)[::-1].hex().upper()
    lines = net.space.run(["cat", "/proc/net/tcp"], serving=True).stdout.decode().splitlines()[1:]
    return sum(1 for line in lines if line.split()[1] == own + port and line.split()[3] == "01")


def test_a_loop_that_has_stopped_lets_nothing_new_through(net: Internet) -> None:
    with host_program(net.space, HOST, attackers()) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"reached\n"
        process.stdin.write(b"stop the loop\n")
        process.stdin.flush()
        said = process.stdout.readline().decode()

    attempts = {each["try"]: each["value"] for each in map(json.loads, filter(None, said.strip().split(";")))}
    assert set(attempts) == {"address", "another", "other resolver", "socks", "unresolved"}
    assert "reached" not in attempts.values()
    assert len(net.arrivals_at(places.ORIGIN)) == 1
    assert net.arrivals_at(places.DENIED, places.OTHER_RESOLVER) == []
