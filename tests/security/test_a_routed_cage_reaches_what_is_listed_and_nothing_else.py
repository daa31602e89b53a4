"""Claim: with the routed back end a cage reaches the addresses that are listed, and no other host, port or protocol.

Tried from the inside, with a witness on the other side of the wire.

Each test runs as root of a network of its own (`_support.rooted`). CONTROL: the host itself, or a cage with the
grant, reaches the place. ATTACK: a cage without it tries. EVIDENCE: the witness saw no packet, or the service got no
byte. `bared` takes the rules inside the cage away first, so that what is tried is the wall in the host alone.
"""

from __future__ import annotations

from _support.rooted import HOST, LISTED, METADATA, OTHER, PRIVATE, on_a_host

BARE = """
from pysandbox.netfilter import nftables as nft
from pysandbox.launch import netns
def bared(cage):
    batch = nft.batch(nft.IPV4, [nft.delete_table("pysandbox")])
    netns.sockets_inside(cage.open()._live.pidfd, (), redirect=batch)
    return cage
def to(place):
    return [packet for packet in internet.seen() if packet[2] == place]
"""
REACHED = [4, 5000, 4, 12]


def test_what_is_listed_is_reached_by_udp_tcp_and_echo() -> None:
    answers, seen = on_a_host(f"""
answers = cage_python(routed("{LISTED}"), EVERY_WAY, "{LISTED}")
report([answers, internet.seen()])
""")
    assert answers == REACHED
    assert {(number, place) for number, _, place, _ in seen} == {(17, LISTED), (6, LISTED), (1, LISTED)}
    assert {source for _, source, _, _ in seen} == {HOST}  # masqueraded


def test_what_is_not_listed_is_sent_nothing() -> None:
    control, witnessed, inside, alone, evidence = on_a_host(f"""
{BARE}
control = uncaged_python(SENDERS + "report([udp('{OTHER}', 7), tcp('{OTHER}', 7)])")
witnessed = len(to("{OTHER}"))
inside = cage_python(routed("{LISTED}"), EVERY_WAY, "{OTHER}")
with bared(Cage(routed("{LISTED}"))) as cage:
    alone = cage_python(cage, EVERY_WAY, "{OTHER}")
report([control, witnessed, inside, alone, to("{OTHER}")])
""")
    assert control == [4, 4] and witnessed
    assert inside[0] == inside[1] == inside[3] == "EPERM" and inside[2] != 4
    assert alone == ["silence"] * 4
    assert evidence == []


def test_a_port_or_a_protocol_that_is_not_listed_is_not_reached() -> None:
    asked = f'EVERY_WAY + "report([*answers, *together((udp, place, 9), (tcp, place, 9))])", "{LISTED}"'
    control, inside, alone, ports = on_a_host(f"""
{BARE}
control = cage_python(routed("{LISTED}"), {asked})
internet.seen()
with Cage(routed("{LISTED}:7/udp")) as cage:
    inside = cage_python(cage, {asked})
    alone = cage_python(bared(cage), {asked})
report([control, inside, alone, [(packet[0], packet[3]) for packet in to("{LISTED}")]])
""")
    assert control == [*REACHED, 4, 4]
    assert inside[:2] == [4, 5000] and inside[4] == "EPERM" and 4 not in (inside[2], inside[5]) and inside[3] != 12
    assert alone[:2] == [4, 5000] and {alone[2], *alone[4:]} == {"silence"} and alone[3] != 12
    assert {number for number, _ in ports} == {17}
    assert 9 not in [port for _, port in ports]


def test_names_are_asked_of_the_door_unless_an_entry_names_the_port() -> None:
    asked = f"SENDERS + \"report(udp('{LISTED}', 53))\""
    attack, evidence, control = on_a_host(f"""
{BARE}
attack = cage_python(routed("{LISTED}"), {asked})
evidence = to("{LISTED}")
report([attack, evidence, cage_python(routed("{LISTED}:53/udp"), {asked})])
""")
    assert control == 4
    assert attack != 4 and evidence == []


def test_a_range_leads_neither_to_the_metadata_service_nor_into_private_networks() -> None:
    control, attack, alone, evidence = on_a_host(f"""
{BARE}
control = [cage_python(routed("{METADATA}"), EVERY_WAY, "{METADATA}"),
           cage_python(routed("10.9.0.0/16"), EVERY_WAY, "{PRIVATE}"),
           cage_python(routed("0.0.0.0/0"), EVERY_WAY, "{OTHER}")]
to("")
with Cage(routed("0.0.0.0/0")) as cage:
    attack = [cage_python(cage, EVERY_WAY, "{METADATA}"), cage_python(cage, EVERY_WAY, "{PRIVATE}")]
    bared(cage)
    alone = [cage_python(cage, EVERY_WAY, "{METADATA}"), cage_python(cage, EVERY_WAY, "{PRIVATE}")]
report([control, attack, alone, [packet for packet in internet.seen() if packet[2] in ("{METADATA}", "{PRIVATE}")]])
""")
    assert control == [REACHED, REACHED, REACHED]
    assert all(4 not in answers and 5000 not in answers and 12 not in answers for answers in attack)
    assert alone == [["silence"] * 4] * 2
    assert evidence == []


def test_the_hosts_own_services_are_reached_only_where_its_address_is_written_down() -> None:
    control, attacks, alone, got = on_a_host(f"""
{BARE}
import socket, threading
service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
service.bind(("0.0.0.0", 7))
stream = socket.create_server(("0.0.0.0", 7))
def heard():
    service.setblocking(False), stream.setblocking(False)
    found = []
    for call in (lambda: service.recvfrom(64)[0].decode(), lambda: stream.accept()[0].close()):
        try:
            found.append(call())
        except BlockingIOError:
            pass
    return found
ask = SENDERS + "report([together((udp, place, 7), (tcp, place, 7), (ping, place)) for place in sys.argv[1:]])"
cage_python(routed("{HOST}"), ask, "{HOST}")
control = heard()
places = ["{HOST}", "127.0.0.1"]
with Cage(routed("0.0.0.0/0", "203.0.113.0/24", "10.0.0.0/8")) as cage:
    gateway = cage.open()._live.services.find(Attachment).address
    places.append(gateway.rsplit(".", 1)[0] + "." + str(int(gateway.rsplit(".", 1)[1]) - 1))
    attacks = cage_python(cage, ask, *places, timeout=60)
    bared(cage)
    alone = cage_python(cage, ask, places[0], places[2], timeout=60)
report([control, attacks, alone, heard()])
""")
    assert control[0] == "xxxx" and len(control) == 2
    assert 4 not in [answer for answers in attacks for answer in answers]
    assert alone == [["silence"] * 3] * 2
    assert got == []


def test_cages_do_not_meet() -> None:
    control, attack, alone, heard = on_a_host(f"""
{BARE}
listening = SENDERS + '''
service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
service.bind(("0.0.0.0", 7777))
stream = socket.create_server(("0.0.0.0", 7777))
print("listening", flush=True)
heard = []
def asked(line=None):
    sys.stdin.readline()
    while ready := select.select([service, stream], [], [], 0)[0]:
        heard.append(ready[0] is service)
        service.recv(64) if ready[0] is service else stream.accept()
    print(json.dumps(heard), flush=True)
print(udp(sys.argv[1], 7777), flush=True)
asked()
asked()
'''
from pysandbox import PIPE
from _support.cage import script
with Cage(routed("10.0.0.0/8")) as one, Cage(routed("10.0.0.0/8")) as other:
    place = other.open()._live.services.find(Attachment).address
    process = other.spawn(script(listening, place), stdin=PIPE, stdout=PIPE)
    assert process.stdout.readline() == b"listening\\n"
    process.stdout.readline()
    process.stdin.write(b"go\\n")
    control = json.loads(process.stdout.readline())
    ask = SENDERS + "report(together(*((call, sys.argv[1], 7777) for call in (udp, tcp)), (ping, sys.argv[1])))"
    attack = cage_python(one, ask, place)
    bared(one)
    alone = cage_python(one, ask, place)
    process.stdin.write(b"go\\n")
    heard = json.loads(process.stdout.readline())
    process.wait()
report([control, attack, alone, heard])
""")
    assert control == [True]  # it hears itself
    assert 4 not in attack
    assert alone == ["silence"] * 3
    assert heard == control


def test_another_source_address_is_not_believed() -> None:
    """The addresses of names are local to the cage, so one can be sent from; that needs no power."""
    control, attack, evidence, refused = on_a_host(f"""
{BARE}
with Cage(routed("{LISTED}")) as cage:
    control = cage_python(cage, SENDERS + "report(udp('{LISTED}', 7))")
    internet.seen()
    attack = cage_python(cage, SENDERS + "report(udp('{LISTED}', 7, source='198.18.5.5'))")
    import subprocess
    from pyroute2.nftables.main import NFTables
    with NFTables(nfgen_family=5) as walls:
        counters = [expression.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_COUNTER_PACKETS")
                    for rule in walls.get_rules() for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS")
                    if expression.get_attr("NFTA_EXPR_NAME") == "counter"]
report([control, attack, internet.seen(), counters])
""")
    assert control == 4
    assert attack == "silence"
    assert evidence == []
    assert refused[1] == 1  # the second rule that counts is the one about sources


def test_no_ipv6_passes() -> None:
    addresses, inside = on_a_host(f"""
from pyroute2 import IPRoute
with Cage(routed("{LISTED}", "2001:db8::1")) as cage:
    cage.open()
    with IPRoute() as network:
        names = dict((link["index"], link.get_attr("IFLA_IFNAME")) for link in network.get_links())
        addresses = [names[each["index"]] for each in network.get_addr(family=10)]
    inside = cage_python(cage, SENDERS + '''
def six(to):
    def send():
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
            s.sendto(b"x", to)
            return "sent"
    return tried(send)
report([six(("2001:db8::1", 7)), six(("ff02::1", 7, 0, 2)), six(("fe80::1", 7, 0, 2))])
''')
report([[name for name in addresses if name.startswith("kaged")], inside])
""")
    assert addresses == []
    assert "sent" not in (inside[0], inside[2])
