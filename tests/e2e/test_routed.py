"""The routed back end from the outside: what it makes, what it leaves, and how it says that it cannot."""

from __future__ import annotations

import sys

import pytest

from _support.rooted import LISTED, on_a_host
from pysandbox import Cage, Policy, PolicyError, UnsupportedError

NOTHING = {"interfaces": [], "addresses": [], "routes": [], "tables": []}
ROUTED = Policy(egress="proxy-only", network_backend="routed", allow_ips=(LISTED,))
ASK = f"SENDERS + \"report(udp('{LISTED}', 7))\""


def test_a_cage_that_ends_leaves_no_interface_no_address_no_route_and_no_table() -> None:
    during, after = on_a_host(f"""
runtime = Runtime(warm=0)
with Cage(routed("{LISTED}"), runtime=runtime) as one, Cage(routed("{LISTED}"), runtime=runtime) as other:
    assert [cage_python(cage, {ASK}) for cage in (one, other)] == [4, 4]
    during = left_over()
runtime.drain()
report([{{kind: len(found) for kind, found in during.items()}}, left_over()])
""")
    assert during == {"interfaces": 2, "addresses": 2, "routes": 6, "tables": 2}
    assert after == NOTHING


def test_what_a_killed_host_process_leaves_the_next_one_removes() -> None:
    left, answer, after = on_a_host(f"""
import signal, subprocess
dying = '''
import sys
from pysandbox import Cage, Policy
cage = Cage(Policy(egress="proxy-only", network_backend="routed", allow_ips=("{LISTED}",))).open()
print("open", flush=True)
sys.stdin.read()
'''
host = subprocess.Popen([sys.executable, "-c", dying], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert host.stdout.readline() == b"open\\n"
host.send_signal(signal.SIGKILL)
host.wait()
left = left_over()
runtime = Runtime(warm=0)
answer = cage_python(Cage(routed("{LISTED}"), runtime=runtime), {ASK})
runtime.drain()
report([left, answer, left_over()])
""")
    assert len(left["tables"]) == 1 and len(left["addresses"]) == 1  # it did leave something
    assert answer == 4
    assert after == NOTHING


def test_what_a_living_host_process_holds_is_left_alone() -> None:
    before, after, answers = on_a_host(f"""
import subprocess
living = PRELUDE.partition("stack =")[0] + '''
with Cage(routed("{LISTED}")) as cage:
    cage.open()
    print("open", flush=True)
    sys.stdin.read(1)
    report(cage_python(cage, {ASK}))
'''
host = subprocess.Popen([sys.executable, "-c", living], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert host.stdout.readline() == b"open\\n"
before = left_over()
runtime = Runtime(warm=0)
mine = cage_python(Cage(routed("{LISTED}"), runtime=runtime), {ASK})
runtime.drain()
after = left_over()
theirs, _ = host.communicate(b"x")
report([before, after, [mine, json.loads(theirs)]])
""")
    assert before == after and len(before["tables"]) == 1
    assert answers == [4, 4]


def test_two_host_processes_never_hold_the_same_addresses() -> None:
    """Both want the same place: the second finds it taken, by the refusal of the kernel alone."""
    first, second = on_a_host(f"""
import subprocess
forced = PRELUDE.partition("stack =")[0] + '''
from pysandbox.gate import routed as back_end
back_end.secrets.randbelow = lambda slots: slots - 1
with Cage(routed("{LISTED}")) as cage:
    print(cage.open()._live.services.find(Attachment).address, flush=True)
    sys.stdin.read()
'''
hosts = [subprocess.Popen([sys.executable, "-c", forced], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
         for _ in range(2)]
report(sorted(host.stdout.readline().decode().strip() for host in hosts))
for host in hosts:
    host.communicate()
""")
    assert [first, second] == ["10.143.0.2", "10.143.255.254"]  # the last, and round to the first


def test_a_bridge_that_is_somebody_elses_is_refused() -> None:
    told = on_a_host(f"""
from pyroute2 import IPRoute
from pysandbox import StartError
with IPRoute() as network:
    network.link("add", ifname="theirs", kind="bridge")
try:
    Cage(routed("{LISTED}", bridge="theirs")).open()
except StartError as error:
    report(str(error))
""")
    assert "'theirs'" in told and "network.bridge" in told


def test_an_address_of_the_hosts_in_the_network_of_cages_is_refused() -> None:
    told, after = on_a_host(f"""
from pyroute2 import IPRoute
from pysandbox import StartError
with IPRoute() as network:
    network.addr("add", index=network.link_lookup(ifname="uplink")[0], address="10.143.7.7", prefixlen=24)
try:
    Cage(routed("{LISTED}")).open()
except StartError as error:
    report([str(error), left_over()])
""")
    assert "10.143.7.7" in told
    assert after["interfaces"] == after["tables"] == []


def test_whoever_is_not_root_is_told_so_and_no_cage_is_left() -> None:
    """In a user namespace below the one that owns this network nobody is root of it."""
    told = on_a_host(f"""
import subprocess
refused = PRELUDE.partition("stack =")[0] + '''
from pysandbox import StartError
try:
    Cage(routed("{LISTED}")).open()
except StartError as error:
    report([type(error).__name__, str(error)])
'''
done = subprocess.run(["unshare", "--user", "--map-root-user", sys.executable, "-c", refused], stdout=subprocess.PIPE)
report([*json.loads(done.stdout), left_over()])
""")
    assert told[0] == "SandboxNetworkError"
    assert "EPERM" in told[1] and "run as root" in told[1]
    assert told[2] == NOTHING


def test_without_pyroute2_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'pysandbox\[routed\]'"):
        Cage(ROUTED).open()


@pytest.mark.parametrize("other", [{"egress": "none"}, {"egress": "direct", "unsafe_direct": True}])
def test_it_is_a_way_out_beside_the_doors(other: dict[str, object]) -> None:
    asked = {"egress": "proxy-only", "network_backend": "routed", "allow_ips": (LISTED,)} | other
    with pytest.raises(PolicyError, match=r"network\.backend"):
        Cage(Policy(**asked)).open()


def test_a_list_too_long_for_the_kernel_is_refused_before_anything_is_made() -> None:
    many = tuple(f"198.51.{block}.{last}" for block in range(2) for last in range(256))
    with pytest.raises(PolicyError, match="ranges"):
        Cage(Policy(egress="proxy-only", network_backend="routed", allow_ips=many)).open()


def test_an_empty_list_makes_no_interface() -> None:
    """An empty list never means everything."""
    result = Cage(Policy(egress="proxy-only", network_backend="routed")).run(["ls", "/sys/class/net"])
    assert result.exit_code != 0 or "kaged" not in result.stdout
