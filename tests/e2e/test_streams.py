"""Connections through the doors, over loopback: what is allowed arrives whole, what is not is refused and told."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from _support.doors import ALLOWED, ALSO_ALLOWED, SYNTHETIC, Doors, server
from _support.sockets import PATIENCE, everything, exactly
from _support.streams import Origin, a_banner, connect, connected, echo, head, socks
from pysandbox.gate.tcp import streams

MANY = int(os.environ.get("PSB_TRIES", "10000"))


# ---- SOCKS ----------------------------------------------------------------------------------------------------------


def test_socks_carries_an_allowed_name_and_refuses_another(doors: Doors) -> None:
    with server(echo) as port:
        code, sock = socks(doors.ports["socks"], ALLOWED, port)
        with sock:
            assert code == 0
            sock.sendall(b"\0hello")
            assert exactly(sock, 6) == b"\0hello"
            sock.shutdown(socket.SHUT_WR)
            assert everything(sock) == b""
        code, sock = socks(doors.ports["socks"], "evil.com", port)
        with sock:
            assert code == 2
            assert everything(sock) == b""
    assert doors.denied() == ["evil.com"]


@pytest.mark.parametrize("name", [b"evil.com\0.example.com", b"example.com\0", b"a@example.com", b"*.example.com", b""])
def test_socks_refuses_a_name_that_has_two_readings(doors: Doors, name: bytes) -> None:
    code, sock = socks(doors.ports["socks"], name, 80)
    sock.close()
    assert code == 2


@pytest.mark.parametrize("spelled", ["EXAMPLE.com", "example.com.", "Example.Com."])
def test_one_name_has_many_spellings(doors: Doors, spelled: str) -> None:
    with server(echo) as port:
        code, sock = socks(doors.ports["socks"], spelled, port)
        sock.close()
    assert code == 0


def test_socks4_is_hung_up_on_in_peace(doors: Doors) -> None:
    with connect(doors.ports["socks"]) as sock:
        sock.sendall(b"\4\1\0\x50\x7f\0\0\1\0")
        assert everything(sock) == b""


def test_a_closed_port_is_a_refused_connection(doors: Doors) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, sock = socks(doors.ports["socks"], ALLOWED, port)
    sock.close()
    assert code == 5


# ---- CONNECT, and what is said in a tunnel --------------------------------------------------------------------------


def test_connect_carries_an_allowed_host_whoever_speaks_first(doors: Doors) -> None:
    with server(a_banner) as port:
        answer, sock = connected(doors, ALLOWED, port)
        with sock:
            assert answer.startswith(b"HTTP/1.1 200")
            assert exactly(sock, 11) == b"220 ready\r\n"
            sock.sendall(b"EHLO me\r\n")
            assert exactly(sock, 9) == b"EHLO me\r\n"


def test_connect_to_another_host_is_refused_with_the_line_that_would_allow_it(doors: Doors) -> None:
    answer, sock = connected(doors, "evil.com", 443)
    with sock:
        body = everything(sock)
    assert answer.startswith(b"HTTP/1.1 415")
    assert b"x-pysandbox-error: contract-refused" in answer.lower()
    assert b'    [[also]]\n    host = [{ domain = "evil.com" }]' in body
    assert doors.denied() == ["evil.com"]


def test_plain_http_in_a_tunnel_is_held_against_the_host(doors: Doors) -> None:
    origin = Origin()
    with server(origin) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock:
            sock.sendall(f"GET /a HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n".encode())
            assert head(sock).startswith(b"HTTP/1.1 200")
            assert exactly(sock, 2) == b"hi"
            sock.sendall(f"GET /b HTTP/1.1\r\nHost: {ALSO_ALLOWED}:{port}\r\n\r\n".encode())
            assert head(sock).startswith(b"HTTP/1.1 403")
            assert b"Host names other.example.com" in everything(sock)
    assert [each.split()[1] for each in origin.heads] == [b"/a"]


def test_http_to_a_server_that_spoke_first_is_cut(doors: Doors) -> None:
    with server(a_banner) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock, pytest.raises(ConnectionResetError):
            exactly(sock, 11)
            sock.sendall(b"GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n")
            everything(sock)
    assert doors.denied() == [ALLOWED]


# ---- the transparent door -------------------------------------------------------------------------------------------


def through(doors: Doors, port: int, said: bytes) -> bytes:
    """What a program that knows of no proxy gets for it."""
    doors.transparent(port)
    with connect(port, SYNTHETIC) as sock:
        sock.sendall(said)
        sock.shutdown(socket.SHUT_WR)
        return everything(sock)


def test_a_program_without_proxy_is_governed_by_name(doors: Doors) -> None:
    with server(echo) as port:
        assert through(doors, port, b"\1binary") == b"\1binary"


@pytest.mark.parametrize("host", [ALLOWED, "EXAMPLE.com.", "evil.com", ALSO_ALLOWED, "127.0.0.1", ""])
def test_its_http_names_the_host_it_connected_to(doors: Doors, host: str) -> None:
    origin = Origin()
    with server(origin) as port:
        answer = through(doors, port, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    allowed = host in (ALLOWED, "EXAMPLE.com.", "")
    assert answer.split()[1] == (b"200" if allowed else b"403")
    assert len(origin.heads) == allowed
    assert all(b"Host: example.com" in each for each in origin.heads)


def test_an_unknown_address_meets_a_reset(doors: Doors) -> None:
    doors.session.rules = doors.session.rules.tightened(())
    with server(echo) as port:
        doors.transparent(port)
        with pytest.raises(ConnectionResetError), connect(port, SYNTHETIC) as sock:
            everything(sock)
    assert doors.denied()


# ---- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    names = f"subjectAltName=DNS:{ALLOWED},DNS:evil.com"
    both = ["-keyout", str(folder / "both.pem"), "-out", str(folder / "cert.pem"), "-subj", "/CN=x", "-addext", names]
    subprocess.run([*command, *both], check=True, capture_output=True, timeout=30)
    (folder / "both.pem").write_text((folder / "both.pem").read_text() + (folder / "cert.pem").read_text())
    return folder / "both.pem"


def speaks_tls(certificate: Path) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(client: socket.socket) -> None:
        with context.wrap_socket(client, server_side=True) as tls:
            while said := tls.recv(4096):
                tls.sendall(said)

    return answer


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.with_name("cert.pem")))


def test_tls_to_the_name_that_was_connected_is_carried(doors: Doors, certificate: Path) -> None:
    with server(speaks_tls(certificate)) as port:
        _, sock = connected(doors, ALLOWED, port)
        with trusting(certificate).wrap_socket(sock, server_hostname=ALLOWED) as tls:
            tls.sendall(b"hello")
            assert tls.recv(5) == b"hello"


@pytest.mark.parametrize("name", ["evil.com", None])
def test_tls_to_another_name_or_none_is_refused_with_an_alert(
    doors: Doors, certificate: Path, name: str | None
) -> None:
    context = trusting(certificate)
    context.check_hostname = name is not None
    with server(speaks_tls(certificate)) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock, pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
            context.wrap_socket(sock, server_hostname=name)
    assert doors.denied() == [ALLOWED]


def test_a_hello_in_many_segments_is_still_read(doors: Doors, certificate: Path) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting(certificate).wrap_bio(incoming, outgoing, server_hostname="evil.com").do_handshake()
    heard: list[bytes] = []
    with server(lambda client: heard.append(client.recv(1))) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in outgoing.read():
                sock.sendall(bytes([byte]))
            assert everything(sock)[:1] == b"\x15"
    assert heard in ([], [b""])


# ---- bounds and the end ---------------------------------------------------------------------------------------------


def test_tightening_cuts_what_lost_its_grant(doors: Doors) -> None:
    with server(echo) as port:
        _, sock = socks(doors.ports["socks"], ALLOWED, port)
        with sock:
            sock.sendall(b"\0")
            assert exactly(sock, 1) == b"\0"
            assert doors.connections() == 1
            assert doors.session.tighten(()) == 1
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        code, sock = socks(doors.ports["socks"], ALLOWED, port)
        sock.close()
    assert code == 2


def test_the_end_of_a_cage_cuts_what_it_was_connected_to(doors: Doors) -> None:
    with server(a_banner) as port:
        socks_, relayed = socks(doors.ports["socks"], ALLOWED, port)
        assert socks_ == 0 and exactly(relayed, 11)
        with relayed, connect(doors.ports["http"]) as silent:
            doors.call(doors.session.close)
            for sock in (relayed, silent):
                with pytest.raises(ConnectionResetError):
                    sock.recv(1)


def test_the_end_of_a_cage_resets_who_has_said_nothing_yet(doors: Doors) -> None:
    with connect(doors.ports["http"]) as one, connect(doors.ports["socks"]) as other:
        for _ in range(20):  # rounds of the loop, in which both are accepted
            doors.call(lambda: None)
        doors.call(doors.session.close)
        for sock in (one, other):
            with pytest.raises(ConnectionResetError):
                sock.recv(1)


def test_a_head_that_never_ends_is_hung_up_on(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysandbox.gate.http.forward.HEAD_SECONDS", 0.1)
    monkeypatch.setattr("pysandbox.gate.tcp.socks_door.HANDSHAKE_SECONDS", 0.1)
    monkeypatch.setattr("pysandbox.gate.tcp.first_bytes.WORDS_SECONDS", 0.1)
    with connect(doors.ports["http"]) as sock:
        sock.sendall(b"GET http://example.com/ HTTP/1.1\r\nHost:")
        assert head(sock).startswith(b"HTTP/1.1 408")
    with connect(doors.ports["socks"]) as sock, pytest.raises(ConnectionResetError):
        sock.sendall(b"\5")
        sock.recv(1)
    with server(echo) as port:
        _, sock = connected(doors, ALLOWED, port)
        with sock, pytest.raises(ConnectionResetError):
            sock.sendall(b"\x16\x03\x01\x02")
            sock.recv(1)


@pytest.mark.parametrize("count", [300, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_junk_is_bounded_and_leaves_the_door_open(doors: Doors, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr("pysandbox.gate.tcp.streams.MOST_STREAMS", 20)
    words = [b"", b"\5", b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"\5\1\0\5\1\0\3\0\0\0", b"\4\1"]
    with server(echo) as port:
        for number in range(count):
            with connect(doors.ports[("http", "socks")[number % 2]]) as sock:
                sock.sendall(words[number % len(words)])
        code, sock = socks(doors.ports["socks"], ALLOWED, port)
        sock.close()
        assert code == 0


def wait_for_full_doors(doors: Doors) -> None:
    """Until as many streams as may be are served: what has been sent may not have been seen."""
    deadline = time.monotonic() + PATIENCE
    while not ((slots := streams._slots.get(doors.session)) and slots.locked()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_more_streams_than_the_bound_wait_for_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysandbox.gate.tcp.streams.MOST_STREAMS", 3)
    doors = Doors(tmp_path / "hosts")
    try:
        silent = [connect(doors.ports["http"]) for _ in range(3)]
        for each in silent:
            each.sendall(b"CONN")  # who has said nothing is no stream yet
        wait_for_full_doors(doors)
        with server(echo) as port, connect(doors.ports["http"]) as late:
            late.sendall(f"CONNECT {ALLOWED}:{port} HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\n\r\n".encode())
            late.settimeout(0.2)
            with pytest.raises(TimeoutError):
                late.recv(1)
            late.settimeout(PATIENCE)
            silent.pop().close()
            assert head(late).startswith(b"HTTP/1.1 200")
        for sock in silent:
            sock.close()
    finally:
        doors.close()


# ---- a real client --------------------------------------------------------------------------------------------------

WAYS = {
    "http": ["--proxy", "http://127.0.0.1:{http}", "http://{host}:{port}/"],
    "connect": ["--proxytunnel", "--proxy", "http://127.0.0.1:{http}", "http://{host}:{port}/"],
    "socks5h": ["--proxy", "socks5h://127.0.0.1:{socks}", "http://{host}:{port}/"],
    "no proxy": ["--noproxy", "*", "--resolve", "{host}:{port}:" + SYNTHETIC, "http://{host}:{port}/"],
}


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing: apt-get install curl")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("host", [ALLOWED, "evil.com"])
def test_curl_reaches_what_is_allowed_and_nothing_else(doors: Doors, way: list[str], host: str) -> None:
    with server(Origin()) as port:
        doors.transparent(port)
        words = [each.format(host=host, port=port, **doors.ports) for each in way]
        done = subprocess.run(
            ["curl", "-sS", "--fail", *words, "-m", "20"],
            env={"PATH": "/usr/bin:/bin"},
            capture_output=True,
            timeout=30,
        )
    assert (done.returncode == 0) == (host == ALLOWED), done.stderr
    assert done.stdout == (b"hi" if host == ALLOWED else b"")
