"""Doors as a user of the package has them: in every cage with a way out, in pooled ones too, and in no other."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from _support.cage import cage_python
from kernel.inject import ERRNO, answering, under
from pysandbox import Cage, Event, Policy
from pysandbox.errors import SandboxNetworkError
from pysandbox.gate.gatekeeper import Gatekeeper
from pysandbox.runtime.runtime import Runtime

pytestmark = pytest.mark.guest

OUT = Policy(egress="proxy-only", hosts=[{"domain": "a.example"}])
KINDS = {
    ("dns", "udp"), ("dns", "tcp"), ("socks", "tcp"), ("http", "tcp"), ("tcp", "tcp"), ("refused", "syn"),
    ("lost", "raw"),
}  # fmt: skip
TRY = """
import socket
def open(address, kind=socket.SOCK_STREAM):
    with socket.socket(type=kind) as one:
        one.settimeout(5)
        one.connect(address)
def bind(address, kind=socket.SOCK_STREAM):
    with socket.socket(type=kind) as one:
        one.bind(address)
"""


def doors_of(runtime: Runtime, policy: Policy) -> set[tuple[str, str]]:
    """The doors of a cage that nobody has taken over yet."""
    live = runtime.take(runtime.prepare(policy, "/"))
    try:
        return set(live.doors)
    finally:
        live.close()


@pytest.fixture
def runtime() -> Any:
    made = Runtime(warm=1)
    yield made
    made.drain()


def test_a_cage_with_a_way_out_has_its_doors(runtime: Runtime) -> None:
    assert doors_of(runtime, OUT) == KINDS


def test_a_cage_of_the_pool_has_them_too(runtime: Runtime) -> None:
    prepared = runtime.prepare(OUT, "/")
    taken = runtime.take(prepared)
    taken.close()
    runtime.replenish(prepared, taken, last=False)
    runtime.wait_idle()
    assert runtime.is_warm(OUT, "/")
    live = runtime.take(prepared)
    try:
        assert set(live.doors) == KINDS
    finally:
        live.close()


def test_the_doors_of_a_cage_that_nobody_took_over_are_closed_with_it(runtime: Runtime) -> None:
    live = runtime.take(runtime.prepare(OUT, "/"))
    fds = list(live.doors.values())
    assert all(os.fstat(fd) for fd in fds)
    live.close()
    for fd in fds:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_whoever_takes_the_doors_closes_them(runtime: Runtime) -> None:
    live = runtime.take(runtime.prepare(OUT, "/"))
    taken = live.take_doors()
    assert live.take_doors() == {}
    live.close()
    for fd in taken.values():
        os.close(fd)  # EBADF if somebody had


def test_a_policy_without_a_network_has_none_and_starts_nothing(runtime: Runtime) -> None:
    before = threading.active_count()
    assert doors_of(runtime, Policy(egress="proxy-only")) == set()
    assert runtime.host.nf_tables is None  # nobody has asked
    assert (runtime.shared.find(Gatekeeper), threading.active_count()) == (None, before)


def test_the_cage_s_own_loopback_is_as_free_as_without_doors() -> None:
    source = (
        TRY
        + """
report([attempt(bind, ("127.0.0.1", port), kind) for port in (53, 1080, 3128, 3129)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
       + [attempt(open, ("127.0.0.1", port)) for port in (53, 80, 1080, 3128, 3129)])
"""
    )
    assert cage_python(OUT, source) == cage_python(Policy(), source)


def test_no_address_of_the_world_leads_out() -> None:
    """Whatever is connected to: it is accepted inside, by a door, and IPv6 and other protocols lead nowhere."""
    source = (
        TRY
        + """
six = lambda: socket.socket(socket.AF_INET6).connect(("2001:db8::1", 80))
report([attempt(open, ("192.0.2.1", 443), socket.SOCK_DGRAM), attempt(six),
        attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)])
"""
    )
    told, six, raw = cage_python(OUT, source)
    assert told == "ok"  # UDP: it is sent, and nobody hears it
    assert six in ("ENETUNREACH", "EPERM")
    assert raw in ("EPERM", "EACCES")


# ---- what the host lacks, or does wrong -------------------------------------------------------------------------

NO_NF_TABLES = answering(ERRNO | errno.EPROTONOSUPPORT, "socket", {0: socket.AF_NETLINK, 2: 12})


def test_without_nf_tables_there_is_no_door_for_what_is_redirected() -> None:
    said: list[Event] = []

    def look() -> set[tuple[str, str]]:
        runtime = Runtime(sink=said.append, warm=0)
        assert runtime.host.nf_tables is None
        return doors_of(runtime, OUT)

    assert under(NO_NF_TABLES, look) == KINDS - {("tcp", "tcp"), ("refused", "syn")}
    (note,) = [event for event in said if "nf_tables" in str(event.data)]
    assert note.data["key"] == "network.egress"


@pytest.mark.parametrize(
    ("call", "arguments", "step"),
    [("setns", {}, "door_enter"), ("sendto", {}, "door_route"), ("listen", {}, "door_socket")],
)
def test_a_door_that_cannot_be_made_refuses_the_cage_and_leaves_nothing(
    call: str, arguments: dict[int, int], step: str
) -> None:
    runtime = Runtime(warm=0)
    runtime.take(runtime.prepare(OUT, "/")).close()  # what a runtime opens once is open
    before = set(os.listdir("/proc/self/fd"))

    def start() -> None:
        with pytest.raises(SandboxNetworkError) as caught:
            runtime.take(runtime.prepare(OUT, "/"))
        assert (caught.value.step, caught.value.errno) == (step, errno.EIO)

    under(answering(ERRNO | errno.EIO, call, arguments), start)
    assert set(os.listdir("/proc/self/fd")) <= before  # what an earlier cage has left may go meanwhile


# ---- unix sockets of the host -----------------------------------------------------------------------------------

CONNECT = """
import socket
def connect(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
report([attempt(connect, path) for path in sys.argv[1:]])
"""


@pytest.fixture
def sockets() -> Any:
    """Two listening sockets side by side; their paths, which may have 107 bytes (unix(7))."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, ExitStack() as open_ones:
        paths = [f"{folder}/granted", f"{folder}/other"]
        for path in paths:
            listener = open_ones.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(path)
            listener.listen()
        yield paths


@pytest.mark.parametrize("network", [{}, {"egress": "proxy-only", "hosts": [{"domain": "a.example"}]}])
def test_a_unix_socket_that_is_granted_is_reached_and_its_neighbour_is_not(
    sockets: list[str], network: dict[str, Any]
) -> None:
    assert cage_python(Policy(), CONNECT, *sockets) == ["ENOENT", "ENOENT"]
    assert cage_python(Policy(unix_sockets=sockets[:1], **network), CONNECT, *sockets) == ["ok", "ENOENT"]


@pytest.mark.landlock(6)
def test_a_unix_socket_can_be_granted_in_landlock_isolation(sockets: list[str]) -> None:
    policy = Policy(isolation="landlock", run_as="self", unix_sockets=sockets[:1])
    assert cage_python(policy, CONNECT, *sockets) == ["ok", "EPERM"]


def test_a_variable_names_it(sockets: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", sockets[0])
    assert cage_python(Policy(unix_sockets=["$SSH_AUTH_SOCK"]), CONNECT, *sockets) == ["ok", "ENOENT"]


def _not_there(tmp_path: Path) -> Path:
    return tmp_path / "absent"


def _a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    return tmp_path / "file"


@pytest.mark.parametrize(("make", "word"), [(_not_there, "does not exist"), (_a_file, "not a unix socket"),
                                            (lambda tmp_path: tmp_path, "not a unix socket")])  # fmt: skip
def test_what_is_no_unix_socket_is_refused_by_name(make: Callable[[Path], Path], word: str, tmp_path: Path) -> None:
    from pysandbox.errors import PolicyError

    with pytest.raises(PolicyError, match=word) as caught:
        Cage(Policy(unix_sockets=[str(make(tmp_path))])).run(["/bin/true"])
    assert caught.value.key == "network.unix_sockets"
