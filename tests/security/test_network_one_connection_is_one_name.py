"""Claim: what is said inside a connection names the host it was opened for: CONNECT, SNI, Host, URL of each request.

A second name anywhere in it is refused, and so is a request that two readers would cut differently. What the web server
has been asked is in its own log, with the Host that it saw.
"""

from __future__ import annotations

import pytest

from _support.internet import Host, Internet, places

from .network import attack, control

HOSTS = ("origin.example", "www.origin.example")
LISTED, OTHER = "origin.example", "denied.example"

TLS = """
    import ssl, warnings
    warnings.simplefilter("ignore")

    def shake(s, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        s.settimeout(PATIENCE)
        with context.wrap_socket(s, server_hostname=name) as inner:
            inner.sendall(b"GET /tls HTTP/1.0\\r\\nHost: " + (name or LISTED).encode() + b"\\r\\n\\r\\n")
            return "reached" if inner.recv(100) else "closed"

    def by_socks(name):
        s, said = through_socks(LISTED.encode(), 443)
        assert said[:2] == b"\\5\\0"
        return shake(s, name)

    def by_connect(name):
        s, status = through_connect(LISTED.encode(), 443)
        assert status == "200"
        return shake(s, name)

    def by_address(name):
        return shake(socket.create_connection((LISTED, 443), PATIENCE), name)

    for name in NAMES:
        for way in (by_socks, by_connect, by_address):
            says(f"{way.__name__}, {name}", way, name)
"""
WAYS = ("by_socks", "by_connect", "by_address")

# A connection that was opened for LISTED, on port 80, with these bytes in it.
PLAIN = {
    "another Host": b"GET /evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "Host in other letters, another": b"GET /evil HTTP/1.1\r\nhOST:denied.example\r\n\r\n",
    "two Hosts": b"GET /evil HTTP/1.1\r\nHost: origin.example\r\nHost: denied.example\r\n\r\n",
    "two Hosts, reversed": b"GET /evil HTTP/1.1\r\nHost: denied.example\r\nHost: origin.example\r\n\r\n",
    "a folded Host": b"GET /evil HTTP/1.1\r\nHost: origin.example\r\n .evil.test\r\n\r\n",
    "a space before the colon": b"GET /evil HTTP/1.1\r\nHost : denied.example\r\nHost: origin.example\r\n\r\n",
    "no Host": b"GET /evil HTTP/1.1\r\n\r\n",
    "absolute and another Host": b"GET http://denied.example/evil HTTP/1.1\r\nHost: origin.example\r\n\r\n",
    "absolute, another and its Host": b"GET http://denied.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "userinfo": b"GET /evil HTTP/1.1\r\nHost: origin.example@denied.example\r\n\r\n",
    "a second request for another":
        b"GET /first HTTP/1.1\r\nHost: origin.example\r\n\r\nGET /evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "both lengths": b"POST /first HTTP/1.1\r\nHost: origin.example\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "two lengths": b"POST /first HTTP/1.1\r\nHost: origin.example\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\n"
        b"GET /evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "an odd coding": b"POST /first HTTP/1.1\r\nHost: origin.example\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"
        b"GET /evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "bare newlines": b"GET /evil HTTP/1.1\nHost: denied.example\n\n",
    "NUL in Host": b"GET /evil HTTP/1.1\r\nHost: origin.example\0denied.example\r\n\r\n",
    "not HTTP on its port": b"\x16\x03\x01evil",
}  # fmt: skip
REQUESTS = """
    def requests(s, data):
        s.settimeout(3)
        s.sendall(data)
        got = b""
        try:
            while part := s.recv(65536):
                got += part
        except (TimeoutError, ConnectionResetError):
            pass
        return [line.split(b" ")[1].decode() for line in got.split(b"\\r\\n") if line.startswith(b"HTTP/1.1 ")]

    def by_socks(data):
        s, said = through_socks(LISTED.encode(), 80)
        assert said[:2] == b"\\5\\0"
        return requests(s, data)

    def by_address(data):
        return requests(socket.create_connection((LISTED, 80), PATIENCE), data)

    def by_connect(data):
        s, status = through_connect(LISTED.encode(), 80)
        assert status == "200"
        return requests(s, data)

    def by_door(data):
        return requests(socket.create_connection(door("HTTP_PROXY"), PATIENCE), data)

    for way in (by_socks, by_address, by_connect, by_door):
        if way.__name__ in WAYS:
            for name, data in PLAIN.items():
                says(f"{way.__name__}, {name}", way, data)
"""
# What an honest client sends down the same ways.
HONEST = {
    "Host": b"GET / HTTP/1.1\r\nHost: origin.example\r\nConnection: close\r\n\r\n",
    "Host with its port": b"GET / HTTP/1.1\r\nHost: origin.example:80\r\nConnection: close\r\n\r\n",
    "two requests": b"GET / HTTP/1.1\r\nHost: origin.example\r\n\r\n"
    b"GET / HTTP/1.1\r\nHost: origin.example\r\nConnection: close\r\n\r\n",
}
# And what only the HTTP door is asked for.
AT_THE_DOOR = {
    "another": b"GET http://denied.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "listed with another Host": b"GET http://origin.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "another with the listed Host": b"GET http://denied.example/evil HTTP/1.1\r\nHost: origin.example\r\n\r\n",
    "a second request for another": b"GET http://origin.example/first HTTP/1.1\r\nHost: origin.example\r\n\r\n"
        b"GET http://denied.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "CONNECT with another Host": b"CONNECT origin.example:443 HTTP/1.1\r\nHost: denied.example:443\r\n\r\n",
    "CONNECT another": b"CONNECT denied.example:443 HTTP/1.1\r\nHost: origin.example:443\r\n\r\n",
    "CONNECT without a port": b"CONNECT denied.example HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "https": b"GET https://denied.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "ftp": b"GET ftp://denied.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "no scheme": b"GET denied.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "relative": b"GET /evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "userinfo": b"GET http://origin.example@denied.example/evil HTTP/1.1\r\nHost: origin.example\r\n\r\n",
    "a fragment": b"GET http://denied.example#.origin.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "a backslash": b"GET http://denied.example\\.origin.example/evil HTTP/1.1\r\nHost: denied.example\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}  # fmt: skip


def evil(net: Internet) -> list[str]:
    """Requests that a web server has seen and should not have."""
    return [line for site in ("origin", "denied") for line in net.requests(site)
            if "/evil" in line or OTHER in line or "evil.test" in line]  # fmt: skip


def test_uncaged_the_server_of_one_name_answers_for_another(net_host: Host, net: Internet) -> None:
    control(net_host, REQUESTS, names={"PLAIN": {"another": PLAIN["another Host"]}, "LISTED": LISTED,
                                       "WAYS": ["by_address"]})  # fmt: skip

    assert evil(net) == [f"{places.ORIGIN} 80 denied.example /evil"]


@pytest.mark.parametrize("ways", [("by_socks",), ("by_address",), ("by_connect",)], ids=lambda ways: str(ways[0]))
def test_the_name_of_the_connection_is_served(ways: tuple[str, ...], net_host: Host, net: Internet) -> None:
    said = attack(net_host, REQUESTS, names={"PLAIN": HONEST, "LISTED": LISTED, "WAYS": ways}, hosts=HOSTS)

    assert [value[:1] for value in said.values.values()] == [["200"]] * len(HONEST), said.values
    assert said.answer.refused() == set()


@pytest.mark.parametrize("ways", [("by_socks",), ("by_address",), ("by_connect",)], ids=lambda ways: str(ways[0]))
def test_another_name_in_a_request_is_refused(ways: tuple[str, ...], net_host: Host, net: Internet) -> None:
    said = attack(net_host, REQUESTS, names={"PLAIN": PLAIN, "LISTED": LISTED, "WAYS": ways}, timeout=90, hosts=HOSTS)

    assert evil(net) == []
    assert net.arrivals_at(places.DENIED) == []
    assert said.answer.refused() >= {OTHER}
    assert len(said.values) == len(PLAIN)


def test_another_name_at_the_http_door_is_refused(net_host: Host, net: Internet) -> None:
    said = attack(net_host, REQUESTS, names={"PLAIN": AT_THE_DOOR, "LISTED": LISTED, "WAYS": ["by_door"]}, hosts=HOSTS,
                  timeout=90)  # fmt: skip

    last = {name: value[-1:] for name, value in said.values.items() if isinstance(value, list)}
    assert {name: value for name, value in last.items() if value == ["200"]} in (
        {},
        {"a second request for another": ["200"]},
    )
    assert evil(net) == []
    assert net.arrivals_at(places.DENIED) == []
    assert said.answer.refused() >= {OTHER}


def test_the_sni_of_the_connection_is_served(net_host: Host, net: Internet) -> None:
    said = attack(net_host, TLS, names={"LISTED": LISTED, "NAMES": [LISTED]}, hosts=HOSTS)

    assert dict(said.values) == {f"{way}, {LISTED}": "reached" for way in WAYS}
    assert len(net.requests("origin")) == 3


def test_another_sni_is_refused(net_host: Host, net: Internet) -> None:
    """Another listed name as well: the connection is not for that one."""
    said = attack(net_host, TLS, names={"LISTED": LISTED, "NAMES": [OTHER, "www.origin.example", None]}, hosts=HOSTS)

    assert "reached" not in said.values.values()
    assert net.requests("origin") == net.requests("denied") == []
    assert said.answer.refused() == {LISTED}  # the connection is; what it said instead is in the reason
    assert any(OTHER in str(each["rule"]) for each in said.answer.denials), said.answer.denials
