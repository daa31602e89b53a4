"""Claim: what the supervisor does on behalf of a caged process it does with no more power than the process has,
whatever the family of its socket and the call: a stricter policy, under which more is done on behalf, gives it nothing.

The supervisor's user owns the cage's namespaces, where the kernel would let it do everything (user_namespaces(7)). ROWS
are all that is done on behalf, and what each could ask a capability for; the C half has the same rows, or this fails.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pysandbox._native import ffi, lib

from pysandbox import Cage, Policy
from pysandbox.supervise.wire import KINDS

from .harness import PYTHON, SILENCE, Report, caged, in_cage, program, uncaged

IP = ("INET", "INET6")
# (family, call) -> the attempts below that ask for what only a capability gives; () where the kernel asks for none.
ROWS: dict[tuple[str, str], tuple[str, ...]] = {
    **{(family, "CONNECT"): () for family in IP},
    **{(family, "LISTEN"): () for family in IP},
    **{(family, "SENDTO"): () for family in IP},
    ("INET", "BIND"): ("low port", "low port, no family"),
    ("INET6", "BIND"): ("low port over IPv6",),
    ("INET", "SENDMSG"): ("a mark beside a datagram",),
    ("INET6", "SENDMSG"): ("a header beside a datagram",),
    ("UNIX", "CONNECT"): (),  # of the supervisor's own: test_a_capable_host_lends_none_of_it
    ("UNIX", "LISTEN"): (),
    ("UNIX", "SENDTO"): (),
    ("UNIX", "SENDMSG"): ("somebody else's credentials",),
    ("NETLINK", "BIND"): ("groups",),
    ("NETLINK", "SENDTO"): ("sendto: a link",),
    ("NETLINK", "SENDMSG"): ("sendmsg: a link",),
}

LIBRARY = """
    import socket, struct

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    class Message(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("name_size", ctypes.c_uint), ("vectors", ctypes.c_void_p),
                    ("count", ctypes.c_size_t), ("control", ctypes.c_char_p), ("control_size", ctypes.c_size_t),
                    ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]

    KERNEL = struct.pack("HHII", 16, 0, 0, 0)

    def padded(data):
        return data + bytes(-len(data) % 4)

    def attribute(kind, data):
        return padded(struct.pack("HH", 4 + len(data), kind) + data)

    def message(kind, body, flags=0x5):
        return padded(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)

    def link(kind=16, name=b"psb0"):
        of_kind = attribute(18, attribute(1, b"veth"))
        return message(kind, struct.pack("BxHiII", 0, 0, 0, 0, 0) + attribute(3, name + bytes(1)) + of_kind, 0x605)

    def send_by(call_name, s, data, name=KERNEL, control=b"", repeat=1):
        room = ctypes.create_string_buffer(data, len(data))
        vector = Vector(ctypes.addressof(room), len(data))
        messages = (Message * repeat)()
        for each in messages:
            each.name, each.name_size, each.vectors, each.count = name or None, len(name), ctypes.addressof(vector), 1
            each.control, each.control_size = control or None, len(control)
        if call_name == "sendto":
            destination = ctypes.create_string_buffer(name, len(name)) if name else 0
            return call("sendto", s.fileno(), room, len(data), 0, destination, len(name))
        more = (repeat, 0) if call_name == "sendmmsg" else (0,)
        return call(call_name, s.fileno(), messages, *more)

    def answered(s):
        NLMSG_ERROR = 2  # an acknowledgement too; before it comes what a question in front has asked for
        while struct.unpack_from("H", answer := s.recv(1 << 16), 4)[0] != NLMSG_ERROR:
            pass
        number = -struct.unpack_from("i", answer, 16)[0]
        if number:
            raise OSError(number, "")

    def ask(call_name, data, name=KERNEL, s=None, repeat=1):
        s = s or socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        s.settimeout(5)
        send_by(call_name, s, data, name, repeat=repeat)
        answered(s)

    def beside(family, level, kind, data):
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1" if family == socket.AF_INET else "::1", 9999))
            control = struct.pack("=Qii", 16 + len(data), level, kind) + data
            send_by("sendmsg", s, b"x", b"", control)

    def bound(family, address):
        with socket.socket(family) as s:
            call("bind", s.fileno(), ctypes.create_string_buffer(address, len(address)), len(address))

    def lied():
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        b.setsockopt(socket.SOL_SOCKET, 16, 1)  # SO_PASSCRED
        data = struct.pack("iII", os.getppid() or 1, os.getuid(), os.getgid())
        send_by("sendmsg", a, b"x", b"", struct.pack("=Qii", 16 + len(data), 1, 2) + data)

    def grouped(how):
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        getattr(s, how)((0, 1) if how == "bind" else (4242, 0))
"""
ATTACK = """
    port = struct.pack(">H", 80)
    attempt("low port", bound, socket.AF_INET, struct.pack("H", 2) + port + bytes(12))
    attempt("low port, no family", bound, socket.AF_INET, struct.pack("H", 0) + port + bytes(12))
    attempt("low port over IPv6", bound, socket.AF_INET6, struct.pack("H", 10) + port + bytes(24))
    attempt("a mark beside a datagram", beside, socket.AF_INET, 1, 36, struct.pack("=i", 7))
    attempt("a header beside a datagram", beside, socket.AF_INET6, 41, 54, bytes(8))
    attempt("somebody else's credentials", lied)
    attempt("connect to a process", grouped, "connect")
    for way in ("sendto", "sendmsg", "sendmmsg"):
        attempt(f"{way}: a link", ask, way, link(name=f"{way}0".encode()))
        attempt(f"{way}: a link, no name", ask, way, link(name=b"psb1"), b"")
        attempt(f"{way}: to a process", ask, way, link(), struct.pack("HHII", 16, 0, 4242, 0))
        attempt(f"{way}: to a group", ask, way, link(), struct.pack("HHII", 16, 0, 0, 1))
        question = message(18, struct.pack("BxHiII", 0, 0, 1, 0, 0), 0x1)
        attempt(f"{way}: behind a question", ask, way, question + link(name=b"psb2"))
        attempt(f"{way}: set", ask, way, message(19, struct.pack("BxHiII", 0, 0, 1, 1, 1)))
        attempt(f"{way}: delete", ask, way, message(17, struct.pack("BxHiII", 0, 0, 1, 0, 0)))
        address = struct.pack("BBBBi", 2, 24, 0, 0, 1) + attribute(2, bytes([10, 9, 8, 7]))
        attempt(f"{way}: an address", ask, way, message(20, address, 0x605))
        attempt(f"{way}: a rule", ask, way, message(32, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0), 0x605))
        attempt(f"{way}: a namespace", ask, way, message(88, bytes(4) + attribute(1, struct.pack("i", 7)) +
                                                            attribute(2, struct.pack("I", os.getpid()))))
    attempt("several", ask, "sendmmsg", link(name=b"psb3"), repeat=3)
    say("links", sorted(name for _, name in socket.if_nameindex()))
"""
GROUPS = 'attempt("groups", grouped, "bind")'
ASKS = """
    def dump(way, name):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
            s.settimeout(5)
            send_by(way, s, message(18, bytes([0, 0, 0, 0] + [0] * 12), 0x301), name)
            assert s.recv(1 << 16)
            return s.getsockname()[0]

    for way in ("sendto", "sendmsg", "sendmmsg"):
        for title, name in (("named", KERNEL), ("no name", b"")):
            attempt(f"{way} {title}", dump, way, name)
    attempt("addresses", lambda: socket.getaddrinfo("localhost", 80)[0][4][0])
    attempt("interfaces", socket.if_nameindex)
"""
POLICIES = {
    "strict": Policy(strict=True, allow=["/usr"]),
    "no descriptors": Policy(scm_rights="deny", allow=["/usr"]),
    "addresses": Policy(allow_ips=["192.0.2.7:443"], allow=["/usr"]),
    "both": Policy(allow_ips=["192.0.2.7:443"], scm_rights="deny", allow=["/usr"]),
}


def allow(event: object, context: object) -> None:
    """Everything."""


def of_a_cage(rules: Policy, *bodies: str, **options: object) -> Report:
    with Cage(rules, **options) as cage:  # type: ignore[arg-type]
        return in_cage(cage, program(LIBRARY, *bodies))


def test_the_rows_are_those_of_the_supervisor() -> None:
    rows = ffi.new("struct psb_behalf_row[]", 64)
    count = lib.psb_behalf_table(rows, 64)
    names = {int(getattr(socket, f"AF_{family}")): family for family, _ in ROWS}
    assert {(names[rows[i].family], KINDS[rows[i].call]) for i in range(count)} == set(ROWS)
    tried = ATTACK + GROUPS
    for attempts in ROWS.values():
        for name in attempts:
            assert name in tried or f'"{{way}}: {name.partition(": ")[2]}"' in tried.replace('f"', '"'), name


@pytest.mark.parametrize("title", POLICIES)
@pytest.mark.parametrize("watched", [False, True])
def test_no_capability_is_lent(title: str, watched: bool) -> None:
    control = uncaged(["unshare", "-Urn", *program(LIBRARY, ATTACK, GROUPS)])
    assert control["sendmsg: a link"].errno is None and "sendmsg0" in control["links"].value
    assert control["low port"].errno is control["low port, no family"].errno is None
    plain = of_a_cage(Policy(allow=["/usr"]), ATTACK)
    options = {"policy_fn": allow, "watch": ["network"]} if watched else {}
    attack = of_a_cage(POLICIES[title], ATTACK, **options)
    assert attack["links"].value == ["lo"] == plain["links"].value
    for name, attempt in plain.attempts.items():
        assert attempt.errno is None or attack[name].errno not in (None, SILENCE), name


def test_a_socket_of_somebody_with_more_power_asks_only() -> None:
    """A netlink socket that a program with the power has opened: its opener's power counts as well."""
    body = """
        s = socket.socket(fileno=FD)
        attempt("a link", ask, "sendmsg", link(name=b"psb9"), KERNEL, s)
        attempt("a link, no name", ask, "sendmsg", link(name=b"psb9"), b"", s)
    """
    ours, theirs = socket.socketpair()
    opener = (
        "import socket, sys; s = socket.socket(fileno=0); n = socket.socket(16, 3, 0); "
        "socket.send_fds(s, [b'x'], [n.fileno()]); s.recv(1); print(*(n for _, n in socket.if_nameindex()))"
    )
    argv = ["unshare", "-Urn", PYTHON, "-c", opener]
    with ours, theirs, subprocess.Popen(argv, stdin=theirs, stdout=subprocess.PIPE) as other:
        fd = socket.recv_fds(ours, 1, 1)[1][0]
        try:
            attack = caged(program(LIBRARY, body, FD=fd), Policy(strict=True), pass_fds=[fd])
        finally:
            os.close(fd)
            ours.sendall(b"x")
        assert other.stdout is not None and other.stdout.read().split() == [b"lo"]
    assert attack.differs({"a link": "EPERM", "a link, no name": "EPERM"}) == {}


@pytest.mark.parametrize("title", ["default", *POLICIES])
def test_questions_are_answered_and_name_no_process_of_the_host(title: str) -> None:
    report = of_a_cage(POLICIES.get(title, Policy()), ASKS)
    assert [name for name, each in report.attempts.items() if each.errno] == []
    assert report["addresses"].value == "127.0.0.1" or report["addresses"].value == "::1"
    assert os.getpid() not in [each.value for each in report.attempts.values()]


SOCK_DIAG = 4  # what it is asked has numbers of rtnetlink's: TCPDIAG_GETSOCK is RTM_GETLINK


def test_netlink_of_another_protocol_or_in_pieces_that_do_not_fit_is_refused() -> None:
    body = """
        s = socket.socket(fileno=FD)
        asked = message(18, bytes([2, 0, 0, 0]) + bytes(68), 0x301)
        attempt("sendto", send_by, "sendto", s, asked, KERNEL)
        attempt("sendmsg", send_by, "sendmsg", s, asked, b"")
        route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        plain = message(18, bytes(16), 0x301)
        attempt("control", send_by, "sendmsg", route, plain, b"")
        attempt("longer than it is", send_by, "sendmsg", route, struct.pack("=I", 64) + plain[4:], b"")
        attempt("something behind", send_by, "sendmsg", route, plain + bytes(12), b"")
    """
    rules, reports = Policy(allow_ips=["192.0.2.7:443"], scm_rights="deny"), []
    for run in (uncaged, lambda argv, **more: caged(argv, rules, **more)):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as other:
            reports.append(run(program(LIBRARY, body, FD=other.fileno()), pass_fds=[other.fileno()]))
    control, attack = reports
    assert {each.errno for each in control.attempts.values()} == {None}
    expected = dict.fromkeys(control.attempts, "EPERM") | {"control": None}
    assert attack.differs(expected) == {}


def test_other_families_are_refused_and_that_is_told() -> None:
    """AF_VSOCK stands for all that have no row: any user may open one and hand it in, and it leads out of a VM."""
    body = """
        s = socket.socket(fileno=FD)
        attempt("connect", s.connect, (1, 9999))
        attempt("sendto", send_by, "sendto", s, b"x", KERNEL)
        attempt("sendmsg", send_by, "sendmsg", s, b"x", b"")
        attempt("sendmmsg", send_by, "sendmmsg", s, b"x", b"")
        attempt("listen", s.listen)
    """
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as other:
        argv = program(LIBRARY, body, FD=other.fileno())
        control = uncaged(argv, pass_fds=[other.fileno()])
        rules = Policy(allow_ips=["192.0.2.7:443"], scm_rights="deny")
        attack = caged(argv, rules, pass_fds=[other.fileno()])
    assert "EPERM" not in {each.errno for each in control.attempts.values()}
    assert attack.differs(dict.fromkeys(control.attempts, "EPERM")) == {}
    assert attack.result is not None
    assert len(attack.result.denials) >= 2


@pytest.mark.root
def test_a_capable_host_lends_none_of_it(tmp_path: Path) -> None:
    """A host that is not root but has capabilities: it opens what its user may not, and its cages do not."""
    host = """
        import socket, sys
        from pysandbox import Policy, run
        S = sys.argv[1]
        code = f"import socket; s = socket.socket(1); s.connect({S!r}); print(s.recv(9))"
        c = socket.socket(1); c.connect(S)
        print("host", c.recv(9).decode())
        for more in ({}, {"allow_ips": ["203.0.113.7:443"]}):
            done = run(["python3", "-c", code], Policy(unix_sockets=[S], **more), timeout=30)
            print("cage", "CONNECTED" if done.exit_code == 0 else done.stderr.strip().splitlines()[-1])
    """
    tmp_path.chmod(0o755)
    for parent in (tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        listener.settimeout(60)
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        lent = ["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override", "--"]
        argv = [*user, *lent, sys.executable, "-c", textwrap.dedent(host), str(path)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
            with listener.accept()[0] as connection:
                connection.sendall(b"hello")
            said, complaint = started.communicate(timeout=60)
    lines = said.splitlines()
    assert lines[:1] == ["host hello"], complaint
    assert len(lines) == 3 and all("Permission" in line or "EACCES" in line for line in lines[1:]), (said, complaint)
