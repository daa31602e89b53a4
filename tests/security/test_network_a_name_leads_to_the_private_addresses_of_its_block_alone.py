"""Claim: `private_addresses` of a [[host]] block opens these addresses for that name, at its ports, by every door, with
inspection and without; no other name, spelling or port leads there, and that name leads nowhere else inside, whatever
its owner has it resolve to, and when.

CONTROL   the servers answer whoever is outside; the name reaches its address by each door
ATTACK    the owner of the name points it elsewhere, at once and later, by records, aliases and IPv6 that carries an
          address; the cage asks by another name, port and spelling, by the address, and after it was tightened
EVIDENCE  what arrived at the servers and at the taps, on the wire and on the host
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from _support.internet import Answer, Host, Internet, places
from _support.internet.host import host_program
from _support.nameserver import AAAA, CNAME, A
from pysandbox import Policy

from .harness import program
from .network import DOORS, Said, control, said

NAME, OTHER = "api.corp.example", "wiki.corp.example"
LISTED = ["10.20.30.0/24"]
HELD = {"domain": NAME, "private_addresses": LISTED}
ECHO, GREET, WEB = places.ECHO, places.GREET, 8080
INSIDE = (places.PRIVATE, places.OTHER_PRIVATE, places.HOST_PRIVATE, places.METADATA, places.HOST, "127.0.0.1")
WAYS = {
    "socks": "def to(name, port): return socks(name.encode(), port)",
    "connect": "def to(name, port): return connect(name.encode(), port)",
    "transparent": "def to(name, port): return direct(name, port)",
}
ONCE = "says(NAME, to, NAME, PORT)"
# What the host program does in turn: it has the names lead elsewhere, tightens the cage, and runs the same again.
HOST = textwrap.dedent("""
    import json, sys, time
    from dataclasses import asdict
    from _support.internet.program import made
    from _support.nameserver import NameServer
    from pysandbox import DEVNULL, Cage
    from pysandbox.runtime.runtime import Runtime

    asked = json.load(sys.stdin)
    with NameServer({}, ttl=asked["ttl"]) as names:
        runtime = Runtime(nameservers=[names.place], warm=0)
        with Cage(made(asked["policy"]), runtime=runtime) as cage:
            for turn in asked["turns"]:
                names.records = {(name, kind): values for name, kind, *values in turn["records"]}
                if "left" in turn:
                    cage.restrict_network(turn["left"])
                time.sleep(turn.get("after", 0))
                result = cage.run(asked["argv"], stdin=DEVNULL, timeout=60)
                print(json.dumps({
                    "exit_code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr,
                    "denials": [asdict(each) for each in result.denials],
                }), flush=True)
        runtime.drain()
""")
EXPIRED = 2.5  # seconds after which an answer with a life of one holds no longer


def turns(net: Internet, bodies: tuple[str, ...], several: list[dict[str, Any]], *, ttl: int = 60, **policy: Any
          ) -> Iterator[Said]:  # fmt: skip
    """What the bodies say in one cage of this policy, at each turn."""
    names = {"NAME": NAME, "OTHER": OTHER, "PORT": ECHO, "GREET": GREET, "WEB": WEB, "PRIVATE": places.PRIVATE}
    asked = {"policy": policy, "turns": several, "ttl": ttl, "argv": program(DOORS.read_text(), *bodies, **names)}
    with host_program(net.space, HOST) as host:
        out, err = host.communicate(json.dumps(asked).encode(), 120)
    assert host.returncode == 0, err.decode()
    for line in out.splitlines():
        yield said(Answer(**json.loads(line)))


def attempted(net: Internet, *bodies: str, records: list[Any], **policy: Any) -> Said:
    (only,) = turns(net, bodies, [{"records": records}], **policy)
    return only


def arrived(net: Internet) -> set[tuple[object, object]]:
    return {(each["to"], each["port"]) for each in net.arrivals_at(*INSIDE) if each["port"] in (ECHO, GREET, WEB)}


LEADS = [[NAME, A, places.PRIVATE]]
THERE = {(places.PRIVATE, ECHO)}


def test_uncaged_each_of_these_places_is_reached(net_host: Host, net: Internet) -> None:
    reached = control(net_host, "for each in INSIDE: says(each, direct, each, PORT)",
                      names={"INSIDE": INSIDE, "PORT": ECHO})  # fmt: skip
    assert dict(reached.values) == dict.fromkeys(INSIDE, "reached")


@pytest.mark.parametrize(
    "more", [{}, {"direct": True, "ports": [ECHO]}, {"ports": [ECHO]}], ids=["relay", "direct", "port"]
)
@pytest.mark.parametrize("way", WAYS)
def test_the_name_leads_to_what_its_block_lists(way: str, more: dict[str, Any], net: Internet) -> None:
    """Many times over, so that whoever dials what is known dials it, too."""
    said = attempted(net, WAYS[way], "for each in range(20): says(str(each), to, NAME, PORT)", records=LEADS,
                     hosts=[HELD | more])  # fmt: skip
    assert {*said.values.values()} == {"reached"}
    assert arrived(net) == THERE


@pytest.mark.parametrize("scanned", [{}, {"dlp_enabled": True}], ids=["plain", "scanned"])
@pytest.mark.parametrize("way", WAYS)
def test_without_a_list_it_leads_nowhere_and_the_line_that_is_told_opens_it(
    way: str, scanned: dict[str, Any], net: Internet
) -> None:
    alone = {"domain": NAME, "ports": [ECHO]}
    said = attempted(net, WAYS[way], ONCE, records=LEADS, hosts=[alone], **scanned)
    assert said.let_through() == {} and arrived(net) == set()
    denials = {each["fix"]: each["rule"] for each in said.answer.denials}
    [(fix, rule)] = denials.items()
    assert rule.startswith(f"host.private_addresses: the name leads to {places.PRIVATE}")
    merged = Policy(egress="proxy-only", hosts=[alone]).merge(Policy.parse(fix))
    blocks = [each.given for each in merged.hosts]
    again = attempted(net, WAYS[way], ONCE, records=LEADS, hosts=blocks, **scanned)
    assert arrived(net) == THERE  # where it is scanned an echo is no answer to a request
    assert scanned or again[NAME] == "reached"


ELSEWHERE = {
    "another private network": [[NAME, A, places.OTHER_PRIVATE]],
    "the host by a private address": [[NAME, A, places.HOST_PRIVATE]],
    "the host by its address": [[NAME, A, places.HOST]],
    "the host's loopback": [[NAME, A, "127.0.0.1"]],
    "no address": [[NAME, A, "0.0.0.0"]],
    "metadata": [[NAME, A, places.METADATA]],
    "a door": [[NAME, A, "198.18.0.1"]],
    "an alias of a name elsewhere": [[NAME, CNAME, OTHER], [OTHER, A, places.OTHER_PRIVATE]],
    "loopback in IPv6": [[NAME, AAAA, "::1"]],
    "loopback mapped": [[NAME, AAAA, "::ffff:127.0.0.1"]],
    "metadata mapped": [[NAME, AAAA, "::ffff:169.254.169.254"]],
    "another mapped": [[NAME, AAAA, f"::ffff:{places.OTHER_PRIVATE}"]],
    "NAT64 of the listed one": [[NAME, AAAA, f"64:ff9b::{places.PRIVATE}"]],
    "local NAT64 of the listed one": [[NAME, AAAA, f"64:ff9b:1::{places.PRIVATE}"]],
    "6to4 of the listed one": [[NAME, AAAA, "2002:a14:1e28::1"]],
    "compatible with the listed one": [[NAME, AAAA, f"::{places.PRIVATE}"]],
    "a link": [[NAME, AAAA, "fe80::1"]],
    "another network of its own": [[NAME, AAAA, "fd00:1::1"]],
    "metadata in one": [[NAME, AAAA, "fd00:ec2::254"]],
}  # fmt: skip


@pytest.mark.parametrize("scanned", [{}, {"dlp_enabled": True}], ids=["plain", "scanned"])
@pytest.mark.parametrize("way", WAYS)
def test_its_owner_leads_it_nowhere_else(way: str, scanned: dict[str, Any], net: Internet) -> None:
    """Each of them is another name here, with the same list."""
    names = {where: f"n{number}.{NAME}" for number, where in enumerate(ELSEWHERE)}
    records = [
        [names[where] if each == NAME else each, *rest] for where, all_ in ELSEWHERE.items() for each, *rest in all_
    ]
    ask = f"for where, name in {names!r}.items(): says(where, to, name, PORT)"
    said = attempted(net, WAYS[way], ask, records=records, hosts=[HELD | {"domain": each} for each in names.values()],
                     dns_ipv6="resolve", **scanned)  # fmt: skip
    assert said.values.keys() == names.keys() and said.let_through() == {}
    assert arrived(net) == set()


def test_the_listed_address_is_one_address_in_ipv6_clothing_too(net: Internet) -> None:
    said = attempted(net, WAYS["socks"], ONCE, records=[[NAME, AAAA, f"::ffff:{places.PRIVATE}"]], hosts=[HELD],
                     dns_ipv6="resolve")  # fmt: skip
    assert said[NAME] == "reached" and arrived(net) == THERE


@pytest.mark.parametrize("way", WAYS)
def test_what_it_leads_to_later_is_asked_again(way: str, net: Internet) -> None:
    """Even where it was dialled so often that nobody decides it any more."""
    several = [{"records": LEADS}, {"records": [[NAME, A, places.OTHER_PRIVATE]], "after": EXPIRED}]
    often = "for each in range(40): says(str(each), to, NAME, PORT)"
    before, after = turns(net, (WAYS[way], often), several, ttl=1, hosts=[HELD])
    assert {*before.values.values()} == {"reached"}
    assert after.let_through() == {} and arrived(net) == THERE


ALIASES = [[OTHER, CNAME, NAME], *LEADS]


@pytest.mark.parametrize("way", WAYS)
def test_another_name_does_not_lead_there_by_itself_nor_as_an_alias(way: str, net: Internet) -> None:
    """After the listed one was reached, in the same cage."""
    for records in (ALIASES, [*LEADS, [OTHER, A, places.PRIVATE]]):
        said = attempted(net, WAYS[way], ONCE, "says(OTHER, to, OTHER, PORT)", records=records, hosts=[HELD, OTHER])
        assert said[NAME] == "reached" and {*said.let_through()} == {NAME}
        (refused,) = said.answer.denials
        assert refused["target"].startswith(OTHER) and refused["rule"].startswith("host.private_addresses")


def test_an_alias_is_asked_for_by_the_name_that_is_listed(net: Internet) -> None:
    """Whose address is what counts, not what it is called on the way."""
    said = attempted(net, WAYS["socks"], ONCE, records=[[NAME, CNAME, OTHER], [OTHER, A, places.PRIVATE]], hosts=[HELD])
    assert said[NAME] == "reached" and arrived(net) == THERE


SPELLINGS = (
    places.PRIVATE, "169090600", "0x0a141e28", "012.024.036.050", "10.1318440", f"::ffff:{places.PRIVATE}",
    f"[::ffff:{places.PRIVATE}]", f"64:ff9b::{places.PRIVATE}", f"x.{NAME}", f"{NAME}.evil.example",
)  # fmt: skip


@pytest.mark.parametrize("way", ["socks", "connect"])
def test_no_spelling_of_the_address_and_no_name_beside_it_leads_there(way: str, net: Internet) -> None:
    records = [*LEADS, *([each, A, places.PRIVATE] for each in SPELLINGS[-2:])]
    said = attempted(net, WAYS[way], ONCE, f"for each in {SPELLINGS!r}: says(each, to, each, PORT)",
                     "says('there', direct, PRIVATE, PORT)", records=records, hosts=[HELD])  # fmt: skip
    assert said[NAME] == "reached" and {*said.let_through()} == {NAME}
    assert arrived(net) == THERE


@pytest.mark.parametrize("way", WAYS)
def test_it_is_opened_at_the_ports_of_its_block_alone(way: str, net: Internet) -> None:
    """A wider block has the other port; so has one of the same names."""
    wider = {"domain": "**.corp.example", "ports": [GREET]}
    said = attempted(net, WAYS[way], ONCE, "says('greet', to, NAME, GREET)", records=LEADS,
                     hosts=[HELD | {"ports": [ECHO]}, wider])  # fmt: skip
    assert {*said.let_through()} == {NAME}
    below = {"domain": "corp.example", "include_subdomains": True, "ports": [ECHO], "private_addresses": LISTED}
    said = attempted(net, WAYS[way], ONCE, "says('greet', to, NAME, GREET)", records=LEADS, hosts=[below, wider])
    assert {*said.let_through()} == {NAME}
    assert arrived(net) == THERE


@pytest.mark.parametrize("listed", [["10.20.0.0/16"], [places.HOST_PRIVATE]], ids=["network", "address"])
def test_an_address_of_the_host_is_reached_where_it_is_listed_by_itself(listed: list[str], net: Internet) -> None:
    said = attempted(net, WAYS["socks"], ONCE, records=[[NAME, A, places.HOST_PRIVATE]],
                     hosts=[HELD | {"private_addresses": listed}])  # fmt: skip
    by_itself = listed == [places.HOST_PRIVATE]
    assert (said[NAME] == "reached") == by_itself
    assert arrived(net) == ({(places.HOST_PRIVATE, ECHO)} if by_itself else set())


@pytest.mark.parametrize("way", WAYS)
def test_a_cage_that_was_tightened_has_no_more_of_it_than_is_left(way: str, net: Internet) -> None:
    several = [{"records": LEADS, "left": ["10.0.0.0/8"]}, {"records": LEADS, "left": [places.OTHER_PRIVATE]},
               {"records": LEADS, "left": ["10.0.0.0/8"]}]  # fmt: skip
    before, after, again = turns(net, (WAYS[way], ONCE), several, hosts=[HELD])
    assert before[NAME] == "reached"
    assert after.let_through() == again.let_through() == {}


def test_and_none_that_its_block_did_not_list(net: Internet) -> None:
    leads = [[NAME, A, places.OTHER_PRIVATE]]
    (only,) = turns(net, (WAYS["socks"], ONCE), [{"records": leads, "left": ["10.0.0.0/8"]}], hosts=[HELD])
    assert only.let_through() == {} and arrived(net) == set()


# ---- with inspection ---------------------------------------------------------------------------------------------

SERVER = textwrap.dedent(f"""
    import http.server, sys, threading
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200); self.send_header("content-length", "2"); self.end_headers()
            self.wfile.write(b"ok")
        do_POST = do_GET
        def log_message(self, *_): print(self.command, self.headers["host"], file=sys.stderr)
    server = http.server.ThreadingHTTPServer(({places.PRIVATE!r}, {WEB}), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
""")
ASK = """
def ask(method, name, path="/v1/", body=b""):
    at = b"%s:%d" % (name.encode(), WEB)
    head = b"%s http://%s%s HTTP/1.1\\r\\nHost: %s\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n"
    return http(head % (method.encode(), at, path.encode(), at, len(body)), body)
says("get", ask, "GET", NAME)
says("post", ask, "POST", NAME, "/v1/", b"x")
says("other path", ask, "GET", NAME, "/v2/")
says("other name", ask, "GET", OTHER)
says("leak", ask, "GET", NAME, "/v1/ghp_" + "aB3dE5fG7h" * 3 + "aB3dE5")
"""
CONTRACT = {"methods": ["GET"], "paths": ["/v1/"], "ports": [WEB]}


@pytest.mark.parametrize("scanned", [{}, {"dlp_enabled": True}], ids=["contract", "scanned"])
def test_what_is_sent_there_is_looked_at_as_anywhere(scanned: dict[str, Any], net: Internet) -> None:
    with net.serving(["/usr/bin/python3", "-c", SERVER]):
        records = [*LEADS, [OTHER, A, places.PRIVATE]]
        blocks = [HELD | CONTRACT, {"domain": OTHER, **CONTRACT}]
        said = attempted(net, ASK, records=records, hosts=blocks, **scanned)
    assert said["get"] == "200"
    refused = {"post": "415", "other path": "415", "other name": "403"}
    assert {name: said[name] for name in refused} == refused
    assert (said["leak"] == "200") is not bool(scanned)


@pytest.mark.parametrize("held", [LISTED, []], ids=["listed", "not"])
def test_in_the_other_isolation_it_is_the_same(held: list[str], net: Internet) -> None:
    said = attempted(net, WAYS["connect"], ONCE, records=LEADS, hosts=[{"domain": NAME, "private_addresses": held}],
                     isolation="landlock", run_as="self")  # fmt: skip
    assert (said[NAME] == "reached") is bool(held)
    assert arrived(net) == (THERE if held else set())
