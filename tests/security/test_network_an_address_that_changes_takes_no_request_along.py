"""Claim: the requests of one HTTP/2 connection all go where its address was checked, whatever its name leads to
meanwhile; and a connection that is made later is held to what the name leads to then.

The name servers of the host say another address between two requests: one inside, where no name may lead, or one of
somebody else. What arrived is told by the servers and by the tap on the wire.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from _support.internet import Internet, places
from _support.internet.host import host_program

NAME = "origin.example"
CLIENT = textwrap.dedent(f"""
    import socket, ssl, sys
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])

    def frame(kind, flags, stream, said=b""):
        return len(said).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + said

    def connected():
        near = socket.create_connection(({NAME!r}, {places.HTTP2}), 20)
        tls = context.wrap_socket(near, server_hostname={NAME!r})
        assert tls.selected_alpn_protocol() == "h2"
        tls.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + frame(4, 0, 0))
        return tls, tls.makefile("rb")

    def ask(connection, stream, path):
        tls, file = connection
        fields = {{":method": "GET", ":scheme": "https", ":authority": "{NAME}:{places.HTTP2}", ":path": path}}
        said = [[bytes((len(one),)) + one.encode() for one in each] for each in fields.items()]
        block = b"".join(b"\\0" + b"".join(each) for each in said)
        tls.sendall(frame(1, 5, stream, block))
        while head := file.read(9):
            kind, said = head[3], file.read(int.from_bytes(head[:3], "big"))
            if kind == 1 and int.from_bytes(head[5:], "big") == stream:
                return {{0x88: "200", 0x8d: "404"}}.get(said[0], said.hex())
            if kind in (3, 7):
                return "left"
        return "closed"

    def anew():
        try:
            return ask(connected(), 1, "/anew")
        except OSError as error:
            return type(error).__name__

    kept = connected()
    print(ask(kept, 1, "/first"), flush=True)
    sys.stdin.readline()
    print(ask(kept, 3, "/second"), flush=True)
    print(anew(), flush=True)
    print(ask(kept, 5, "/third"), flush=True)
""")
HOST = textwrap.dedent(f"""
    import json, sys, time
    from _support.nameserver import A, NameServer
    from pysandbox import PIPE, Cage, Policy
    from pysandbox.runtime.runtime import Runtime
    ca, client, address = sys.argv[1:]
    rules = {{"domain": {NAME!r}, "ports": [{places.HTTP2}], "methods": ["GET"]}}
    policy = Policy(hosts=[rules], proxy_upstream_ca=[ca])
    with NameServer({{({NAME!r}, A): [{places.ORIGIN!r}]}}, ttl=1) as names:
        with Cage(policy, runtime=Runtime(nameservers=[names.place])) as cage:
            with cage.spawn(["/usr/bin/python3", "-c", client], stdin=PIPE, stdout=PIPE) as process:
                said = [process.stdout.readline().decode().strip()]
                names.records[{NAME!r}, A][:] = [address]
                time.sleep(2.5)  # what was answered before holds no longer
                process.stdin.write(b"go on\\n")
                process.stdin.close()
                said += [process.stdout.readline().decode().strip() for _ in range(3)]
                result = process.result()
        asked = len([kind for _, kind, _ in names.asked if kind == A])
    denials = [[each.target, each.rule] for each in result.denials]
    print(json.dumps({{"said": said, "asked": asked, "denials": denials}}), flush=True)
""")
INSIDE = {"its metadata": places.METADATA, "a private network": places.PRIVATE, "its loopback": "127.0.0.1",
          "the host itself": places.HOST}  # fmt: skip


def outcome(net: Internet, address: str) -> dict[str, Any]:
    net.forget()
    with host_program(net.space, HOST, net.ca, CLIENT, address) as process:
        return dict(json.loads(process.communicate(timeout=120)[0]))


def asked_of(net: Internet, site: str) -> list[str]:
    return [line.rsplit(" ", 1)[1] for line in net.requests(site)]


def test_an_address_that_stays_serves_all_of_them(net: Internet) -> None:
    """The control."""
    told = outcome(net, places.ORIGIN)
    assert told["said"] == ["404"] * 4 and told["denials"] == []
    assert told["asked"] >= 2
    assert asked_of(net, "origin") == ["/first", "/second", "/anew", "/third"]


@pytest.mark.parametrize("where", INSIDE)
def test_a_name_that_leads_inside_meanwhile_takes_no_request_there(where: str, net: Internet) -> None:
    told = outcome(net, INSIDE[where])
    first, second, anew, third = told["said"]
    assert (first, second, third) == ("404", "404", "404")
    assert anew in ("ConnectionResetError", "SSLEOFError", "BrokenPipeError"), anew
    assert told["asked"] >= 2  # the new answer was heard
    assert any(INSIDE[where] in f"{target} {rule}" or NAME in target for target, rule in told["denials"])
    assert asked_of(net, "origin") == ["/first", "/second", "/third"]
    assert [each for each in net.arrivals_at(INSIDE[where]) if each["port"] == places.HTTP2] == []


def test_a_name_that_leads_to_somebody_else_meanwhile_takes_no_request_there(net: Internet) -> None:
    """A public address may be the name's new one; but who is there has to have its certificate."""
    told = outcome(net, places.DENIED)
    first, second, anew, third = told["said"]
    assert (first, second, third) == ("404", "404", "404") and anew != "404"
    assert told["asked"] >= 2
    assert asked_of(net, "origin") == ["/first", "/second", "/third"]
    assert asked_of(net, "denied") == []
