"""csrc/host/notify/named.c: an address that stands for a name leads to what the rules let the name lead to, at its
ports, until its time is over, and is not kept without bound."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests._support.ccode import compile_c

HOST = Path(__file__).parents[2] / "csrc" / "host"
MAIN = """
#include <netinet/in.h>
#include <stdio.h>
#include <sys/syscall.h>
static uint64_t now;
uint64_t now_ms(void) { return now; }
int is_inet(const struct call_facts *facts) { return facts->domain == AF_INET || facts->domain == AF_INET6; }
int main(void) {
    const struct psb_endpoint listed = {.address = {[10] = 0xff, [11] = 0xff, 203, 0, 113}, .prefix = 120,
                                        .last_port = 65535, .protocols = 1, .reach = PSB_REACH_NAMED};
    const struct psb_rules rules = {.n_endpoints = 1, .endpoints = &listed};
    struct names names = {0};
    char what;
    unsigned host, net, real, first, last, until, domain, port;
    while (scanf(" %c", &what) == 1) {
        uint8_t synthetic[16] = {[10] = 0xff, [11] = 0xff, 198, 18}, address[16] = {[10] = 0xff, [11] = 0xff, 203};
        if (what == 'r' && scanf("%u %u %u %u %u %u", &host, &net, &real, &first, &last, &until) == 6) {
            synthetic[14] = (uint8_t)(host >> 8), synthetic[15] = (uint8_t)host;
            address[14] = (uint8_t)net, address[15] = (uint8_t)real;
            if (remember_name(&names, synthetic, address, (uint16_t)first, (uint16_t)last, until)) return 2;
        } else if (scanf("%u %u %u %u", &domain, &host, &port, &until) == 4) {
            const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                           .sin_addr.s_addr = htonl(198U << 24 | 18U << 16 | host)};
            struct call_facts facts = {.number = SYS_connect, .domain = (int)domain, .protocol = IPPROTO_TCP,
                                       .address.size = sizeof to};
            struct route route;
            memcpy(facts.address.bytes, &to, sizeof to);
            now = until;
            route = find_route(&names, &rules, &facts);
            printf("%d\\n", route.named && route.reach == PSB_REACH_GRANT ? route.real[15] : -1);
        }
    }
    forget_names(&names);
    return 0;
}
"""
SOURCES = ("emulate/call_address.c", "emulate/reach.c", "notify/named.c")
INET, UNIX, LISTED, OTHER = 2, 1, 113, 114
MOST = 1024  # NAMED


def remember(host: int, real: int, first: int = 80, last: int = 443, until: int = 100, net: int = LISTED) -> str:
    return f"r {host} {net} {real} {first} {last} {until}"


def find(host: int = 1, port: int = 80, now: int = 99, domain: int = INET) -> str:
    return f"f {domain} {host} {port} {now}"


def said(*orders: str) -> list[int]:
    """To which of the real addresses each `find` leads; -1: nowhere."""
    source = (
        "#define _GNU_SOURCE\n#define MAY_CLOSE\n" + "\n".join((HOST / each).read_text() for each in SOURCES) + MAIN
    )
    program = compile_c(source, f"-I{HOST}/notify", f"-I{HOST}/emulate")
    done = subprocess.run([program], input="\n".join(orders).encode(), capture_output=True, check=True, timeout=60)
    return [int(line) for line in done.stdout.split()]


def test_it_leads_there_until_its_time_is_over() -> None:
    assert said(remember(1, 7), *(find(now=now) for now in (0, 99, 100, 101))) == [7, 7, -1, -1]


def test_it_leads_there_at_its_ports() -> None:
    assert said(remember(1, 7), *(find(port=port) for port in (79, 80, 443, 444))) == [-1, 7, 7, -1]


def test_another_address_and_another_family_lead_nowhere() -> None:
    assert said(remember(1, 7), find(2), find(domain=UNIX), find()) == [-1, -1, 7]


def test_only_what_the_rules_let_a_name_lead_to_is_taken() -> None:
    assert said(remember(1, 6, net=OTHER), find(), remember(1, 7), find()) == [-1, 7]


def test_of_several_the_first_that_holds_is_taken_and_each_has_its_ports() -> None:
    several = [remember(1, 7, 80, 80), remember(1, 8, 80, 80), remember(1, 7, 443, 443)]
    assert said(*several, find(), find(port=443), find(port=81)) == [7, 7, -1]
    assert said(remember(1, 7, until=50), remember(1, 8), find(now=49), find(now=50)) == [7, 8]


def test_one_that_is_told_again_is_the_same_one_and_lasts_longer() -> None:
    again = [remember(1, 7, until=each) for each in range(MOST + 1)]
    assert said(remember(2, 9), *again, find(2), find(now=MOST - 1), find(now=MOST)) == [9, 7, -1]


def test_where_there_is_no_more_room_whichever_would_be_forgotten_first_is() -> None:
    full = [remember(host, host % 200, until=(300 if host == 500 else 400 + host)) for host in range(MOST)]
    assert said(*full, find(500)) == [100]
    assert said(*full, remember(MOST, 7), find(500), find(MOST), find(0), find(MOST - 1)) == [
        -1, 7, 0, (MOST - 1) % 200,
    ]  # fmt: skip
