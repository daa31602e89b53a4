"""Claim: in landlock isolation a host is reached by its name through doors that are of one cage. They are no port
of the host's network: no other process is served there, whatever it tries while the cage connects, and behind them the
names of the policy are reached and nothing else. Who keeps his own end from being connected waits alone.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from _support.internet import Host, Internet, places
from _support.internet.host import environment, host_program

from .network import REFUSALS, attack, control

pytestmark = pytest.mark.landlock(6)

NAMED = {"isolation": "landlock", "hosts": ["origin.example"]}
WAYS = """
    says("connect", connect, b"origin.example", PORT)
    says("socks", socks, b"origin.example", PORT)
    says("another name", connect, b"www.origin.example", PORT)
    says("another name, socks", socks, b"www.origin.example", PORT)
    says("its address", connect, ORIGIN.encode(), PORT)
    says("its address, socks", socks, socket.inet_aton(ORIGIN), PORT, 1)
    says("the host", connect, b"127.0.0.1", PORT)
"""
AROUND = """
    PATIENCE = 1.0
    says("directly", direct, ORIGIN, PORT)
    says("the host's loopback", direct, "127.0.0.1", PORT)
    says("a door's address, another port", direct, "198.18.0.1", PORT)
    says("another door's address", direct, "198.18.0.2", 3128)
    says("a mapped address", direct, "::ffff:" + ORIGIN, PORT, socket.SOCK_STREAM, socket.AF_INET6)
    says("datagrams", direct, ORIGIN, PORT, socket.SOCK_DGRAM)
    def late():
        with socket.socket() as s:
            s.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT: connects at the first send
            s.connect((ORIGIN, PORT))
            return echoes(s)
    says("at the first send", late)
    def message():
        with socket.socket() as s:
            s.sendto(b"x", 0x20000000, (ORIGIN, PORT))  # MSG_FASTOPEN
            return echoes(s)
    says("in the first packet", message)
    says("taking a port", lambda: socket.socket().bind(("127.198.18.1", 0)))
    says("listening", lambda: socket.socket().listen())
"""


def test_the_names_of_the_policy_are_reached_and_nothing_else(net_host: Host, net: Internet) -> None:
    names = {"PORT": places.ECHO, "ORIGIN": places.ORIGIN}
    plain = control(net_host, "says('directly', direct, ORIGIN, PORT)", names=names)
    assert plain["directly"] == "reached"
    net.forget()

    said = attack(net_host, WAYS, AROUND, names=names, **NAMED)

    assert set(said.let_through()) == {"connect", "socks"}
    assert (said["connect"], said["socks"], said["another name"]) == ("reached", "reached", "415")
    assert {said[each] for each in ("directly", "the host's loopback", "a mapped address")} <= {"EPERM", "EACCES"}
    assert set(net.questions()) == {"origin.example"}
    assert len(net.arrivals_at(places.ORIGIN, "127.0.0.1")) == 2
    assert {"www.origin.example:7007", f"{places.ORIGIN}:7007"} <= said.answer.refused() | {
        f"{each['target']}" for each in said.answer.denials
    }


def test_sockets_of_either_family_and_kind_reach_a_door(net_host: Host) -> None:
    """CONTROL of what the next one breaks: mapped addresses, sockets that do not wait, many at once."""
    said = attack(net_host, """
        import asyncio, threading
        def one(family, address, waits):
            with socket.socket(family) as s:
                s.setblocking(waits)
                s.connect_ex((address, 3128))
                s.setblocking(True)
                target = b"origin.example:%d" % PORT
                s.sendall(b"CONNECT " + target + b" HTTP/1.1\\r\\nHost: " + target + b"\\r\\n\\r\\n")
                return status_of(s.recv(4096))
        says("four", one, socket.AF_INET, "198.18.0.1", True)
        says("six", one, socket.AF_INET6, "::ffff:198.18.0.1", True)
        says("at once", one, socket.AF_INET, "198.18.0.1", False)
        def deferred():
            with socket.socket() as s:
                s.setsockopt(socket.IPPROTO_TCP, 30, 1)
                s.connect(("198.18.0.1", 3128))
                target = b"origin.example:%d" % PORT
                s.sendall(b"CONNECT " + target + b" HTTP/1.1\\r\\nHost: " + target + b"\\r\\n\\r\\n")
                return status_of(s.recv(4096))
        says("deferred", deferred)
        came = []
        def some():
            came.extend(one(socket.AF_INET, "198.18.0.1", True) for _ in range(10))
        crowd = [threading.Thread(target=some) for _ in range(8)]
        [each.start() for each in crowd]; [each.join() for each in crowd]
        say("a crowd", came.count("200"))
    """, names={"PORT": places.ECHO}, **NAMED)  # fmt: skip

    assert {name: said[name] for name in ("four", "six", "at once", "deferred", "a crowd")} == {
        "four": "200", "six": "200", "at once": "200", "deferred": "200", "a crowd": 80,
    }  # fmt: skip


KNOCKS = 60
KNOCK = """
import socket
answered = 0
for _ in range(KNOCKS):
    with socket.create_connection(("198.18.0.1", 3128), 10) as s:
        s.sendall(b"CONNECT origin.example:PORT HTTP/1.1\\r\\nHost: origin.example:PORT\\r\\n\\r\\n")
        answered += s.recv(99).startswith(b"HTTP/1.1 200")
print(answered)
"""
# A cage that, when it is told to, goes through its door again and again, and says how often that was answered.
BUSY = """
import sys
from pysandbox import Cage, Policy
with Cage(Policy(isolation="landlock", hosts=["origin.example"])) as cage:
    cage.run(["/bin/true"])
    print("open", flush=True)
    for line in sys.stdin:
        print(cage.run(["/usr/bin/python3", "-c", sys.argv[1]]).stdout.strip(), flush=True)
"""
# An uncaged process of the same user and in the same network: connects to every listener that it sees there. What
# takes the connection gets a request; whoever says a word in return is counted.
STRANGER = """
import json, socket, sys, time
until, met, heard = time.monotonic() + float(sys.argv[1]), 0, 0
request = b"CONNECT origin.example:PORT HTTP/1.1\\r\\nHost: origin.example:PORT\\r\\n\\r\\n"
while time.monotonic() < until:
    for line in open("/proc/net/tcp"):
        _, at, _, state, *_ = line.split()
        if state == "0A" and at.startswith("0112C67F:"):
            with socket.socket() as s:
                s.settimeout(0.3)
                try:
                    s.connect(("127.198.18.1", int(at[9:], 16)))
                    met += 1
                    s.sendall(request)
                    heard += bool(s.recv(99))
                except OSError:
                    pass
print(json.dumps([met, heard]))
"""


def about(body: str) -> str:
    return body.replace("KNOCKS", str(KNOCKS)).replace("PORT", str(places.ECHO))


class Busy:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.pid, self._in, self._out = process.pid, process.stdin, process.stdout
        assert self._out.readline() == b"open\n"

    def begin(self) -> None:
        self._in.write(b"\n")
        self._in.flush()

    def answered(self) -> int:
        return int(self._out.readline())


@contextmanager
def busy_cage(net: Internet) -> Iterator[Busy]:
    with host_program(net.space, BUSY, about(KNOCK)) as process:
        yield Busy(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)
        process.stdin = None


def test_whoever_lies_in_wait_for_a_connection_is_not_served(
    net: Internet, attack_bin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONTROL: the strangers do meet the listeners, before the cage does."""
    monkeypatch.setenv("LD_PRELOAD", str(attack_bin / "libslow_listener.so"))
    command = ["/usr/bin/python3", "-c", about(STRANGER), "4"]
    with busy_cage(net) as busy:
        monkeypatch.delenv("LD_PRELOAD")
        strangers = [net.space.start(command, ordinary=True, env=environment()) for _ in range(2)]
        busy.begin()
        answered = busy.answered()
        said = [json.loads(each.communicate(timeout=60)[0]) for each in strangers]
    met, heard = (sum(each) for each in zip(*said, strict=True))
    assert (answered, heard) == (KNOCKS, 0)
    assert met > 0, "no stranger was ever in time, which proves nothing"


def test_nothing_listens_while_nobody_connects(net: Internet) -> None:
    """CONTROL: the echo server of the host is seen this way."""
    look = "print([line.split()[1] for line in open('/proc/net/tcp') if line.split()[3] == '0A'])"
    with busy_cage(net) as busy:
        before = net.space.run(["/usr/bin/python3", "-c", look]).stdout.decode()
        busy.begin()
        assert busy.answered() == KNOCKS
        after = net.space.run(["/usr/bin/python3", "-c", look]).stdout.decode()
        held = len(os.listdir(f"/proc/{busy.pid}/fd"))
        busy.begin()
        assert busy.answered() == KNOCKS
        assert len(os.listdir(f"/proc/{busy.pid}/fd")) < held + KNOCKS / 2  # no other end stays with the supervisor
    for listening in (before, after):
        assert f"0100007F:{places.ECHO:04X}" in listening and "0112C67F" not in listening


def test_another_cage_has_none_of_them(net_host: Host, net: Internet) -> None:
    with busy_cage(net):
        knock = "PATIENCE = 1.0", "for port in (1080, 3128): says(str(port), direct, '198.18.0.1', port)"
        without = attack(net_host, *knock, isolation="landlock")
        listed = attack(net_host, *knock, isolation="landlock", allow_ips=["192.0.2.1:9/tcp"])
        other = attack(net_host, "says('own', connect, b'www.origin.example', PORT)",
                       "says('its', connect, b'origin.example', PORT)", names={"PORT": places.ECHO},
                       isolation="landlock", hosts=["www.origin.example"])  # fmt: skip
    assert without.let_through(REFUSALS) == listed.let_through(REFUSALS) == {}
    assert (other["own"], other["its"]) == ("reached", "415")


# The answer to its connect has come further than such a socket takes (IP_MINTTL), and is dropped: it never succeeds.
STALLS = """
    import statistics, threading, time
    def timed(address, deaf, times, errors):
        with socket.socket() as s:
            if deaf:
                s.setsockopt(socket.IPPROTO_IP, 21, 255)  # IP_MINTTL
            began = time.monotonic()
            errors.add(errno.errorcode.get(s.connect_ex(address)))
            times.append(time.monotonic() - began)
    stalled, quick, of_stalled, of_quick = [], [], set(), set()
    over = threading.Event()
    def stall():
        while not over.is_set():
            timed(("198.18.0.1", 3128), True, stalled, of_stalled)
    crowd = [threading.Thread(target=stall) for _ in range(8)] if ATTACKS else []
    [each.start() for each in crowd]
    for _ in range(30):
        timed((ORIGIN, PORT), False, quick, of_quick)
        time.sleep(0.02)
    over.set()
    [each.join() for each in crowd]
    say("stalled", [sorted(of_stalled), statistics.median(stalled) if crowd else 0])
    say("quick", [sorted(of_quick), statistics.median(quick)])
    def again():
        with socket.socket() as s:
            s.setsockopt(socket.IPPROTO_IP, 21, 255)
            first = s.connect_ex(("198.18.0.1", 3128))
            s.setsockopt(socket.IPPROTO_IP, 21, 0)
            return [errno.errorcode[first], s.connect_ex(("198.18.0.1", 3128))]
    say("again", again() if ATTACKS else "")  # it was connected to nothing, and is not on its way
    says("after", connect, b"origin.example", PORT)
"""


def test_who_keeps_his_end_from_being_connected_holds_up_no_other_call_of_his_cage(net_host: Host) -> None:
    names = {"PORT": places.ECHO, "ORIGIN": places.ORIGIN}
    plain = attack(net_host, STALLS, names=names | {"ATTACKS": False}, **NAMED)
    assert (plain["quick"][0], plain["after"]) == (["EPERM"], "reached")

    said = attack(net_host, STALLS, names=names | {"ATTACKS": True}, **NAMED)

    (of_stalled, stalled), (of_quick, quick) = said["stalled"], said["quick"]
    assert quick < stalled / 5, (quick, stalled)
    assert (of_stalled, of_quick, said["after"]) == (["ECONNREFUSED"], ["EPERM"], "reached")
    assert said["again"] == ["ECONNREFUSED", 0]


# Children that are killed while their connects wait, and one that is waited for.
KILLED = """
import os, signal, socket, time
for number in range(20):
    child = os.fork()
    if not child:
        with socket.socket() as s:
            s.setsockopt(socket.IPPROTO_IP, 21, 255)  # IP_MINTTL
            s.connect_ex(("198.18.0.1", 3128))
        os._exit(0)
    if number:
        time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
time.sleep(0.3)  # the supervisor looks after its callers
print(20)
"""


def test_nothing_listens_for_who_was_killed_while_he_waited(net: Internet) -> None:
    look = "print([line.split()[1] for line in open('/proc/net/tcp') if line.split()[3] == '0A'])"
    with host_program(net.space, BUSY, KILLED) as process:
        busy = Busy(process)
        busy.begin()
        assert busy.answered() == 20
        assert "0112C67F" not in net.space.run(["/usr/bin/python3", "-c", look]).stdout.decode()
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)
        process.stdin = None


@pytest.mark.root
def test_another_user_reaches_no_door(net: Internet) -> None:
    """There is nothing to take: no port, no secret in the environment of the cage, no descriptor open to him."""
    with busy_cage(net) as busy:
        look = ["ls", f"/proc/{busy.pid}/fd"]
        stranger = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]
        assert subprocess.run(look, capture_output=True).returncode == 0
        assert subprocess.run([*stranger, *look], capture_output=True).returncode != 0
