"""What the host knows of a name."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest

from _support.nameserver import AAAA, CNAME, A, NameServer
from pysandbox.gate.dns.resolver import Answer, Resolver, read_hosts, read_resolv_conf, read_server

EIGHT = ip_address("8.8.8.8")


def ask(*names: str, servers, clock=None, hosts="/nonexistent", six=False) -> list[Answer]:
    async def each() -> list[Answer]:
        made = Resolver(servers, hosts=str(hosts), **({"clock": clock} if clock else {}))
        return [await made.resolve(name, six=six) for name in names]

    return asyncio.run(each())


def test_a_name_is_asked_for_once_while_its_answer_holds():
    moments = iter([0.0, 10.0, 10.0, 61.0, 61.0, 61.0])
    with NameServer({("a.com", A): ["8.8.8.8"]}, ttl=300) as server:
        answers = ask("a.com", "a.com", "a.com", servers=[server.place], clock=lambda: next(moments))
    assert [each.addresses for each in answers] == [(EIGHT,)] * 3
    assert [each.ttl for each in answers] == [60, 50, 60]  # never longer than a minute, whatever the server says
    assert server.asked == [("a.com", A, "udp")] * 2


def test_equal_questions_at_one_time_are_one_question():
    async def both(place: str) -> list[Answer]:
        made = Resolver([place], hosts="/nonexistent")
        return await asyncio.gather(*(made.resolve("a.com") for _ in range(10)))

    with NameServer({("a.com", A): ["8.8.8.8"]}, ttl=0) as server:
        answers = asyncio.run(both(server.place))
    assert len(server.asked) == 1 and {each.addresses for each in answers} == {(EIGHT,)}


def test_what_must_not_be_kept_is_asked_again():
    with NameServer({("a.com", A): ["8.8.8.8"]}, ttl=0) as server:
        ask("a.com", "a.com", servers=[server.place])
    assert len(server.asked) == 2


def test_aliases_are_followed_and_a_name_without_an_address_exists():
    records = {("a.com", CNAME): ["b.com"], ("b.com", A): ["8.8.8.8"], ("six.com", AAAA): ["2001:db8::1"]}
    with NameServer(records) as server:
        alias, six, none = ask("a.com", "six.com", "none.com", servers=[server.place])
    assert alias.addresses == (EIGHT,)
    assert (six.addresses, six.exists) == ((), True)
    assert (none.addresses, none.exists) == ((), False)


def test_ipv6_is_found_where_it_is_wanted_and_mapped_ipv4_is_ipv4():
    with NameServer({("a.com", AAAA): ["2001:db8::1", "::ffff:127.0.0.1"]}) as server:
        (answer,) = ask("a.com", servers=[server.place], six=True)
    assert answer.addresses == (ip_address("2001:db8::1"), ip_address("127.0.0.1"))


def test_a_long_answer_is_fetched_over_tcp():
    with NameServer({("a.com", A): [f"8.8.{each}.8" for each in range(100)]}, truncate=True) as server:
        (answer,) = ask("a.com", servers=[server.place])
    assert len(answer.addresses) == 100 and [way for *_, way in server.asked] == ["udp", "tcp"]


def test_the_next_server_is_asked_when_one_refuses_and_nobody_else_is_listened_to():
    noise = [b"junk", b"ID\x81\x80\0\1\0\0\0\0\0\0\4evil\3com\0\0\1\0\1", b"\0\0" + b"x" * 40]
    with (
        NameServer({}, code=5) as refusing,
        NameServer({("a.com", A): ["8.8.8.8"]}, noise=noise) as server,
    ):
        (answer,) = ask("a.com", servers=["127.0.0.1:9", refusing.place, server.place])
    assert answer.addresses == (EIGHT,) and len(refusing.asked) == 1


def test_when_nobody_answers_it_says_who_was_asked():
    with pytest.raises(OSError, match=r"127\.0\.0\.1:9"):
        ask("a.com", servers=["127.0.0.1:9"])


def test_etc_hosts_comes_first_and_is_read_again_when_it_changes(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("10.0.0.1 Db.Internal. alias # a comment\n::1 db.internal\nnonsense line\n300.1.1.1 bad\n")

    async def twice() -> list[Answer]:
        made = Resolver(["127.0.0.1:9"], hosts=str(hosts))
        first = await made.resolve("db.internal")
        hosts.write_text("10.0.0.22 db.internal\n")
        return [first, await made.resolve("db.internal")]

    assert [each.addresses for each in asyncio.run(twice())] == [(ip_address("10.0.0.1"),), (ip_address("10.0.0.22"),)]


def test_the_files_of_the_host_are_read_as_its_own_resolver_does():
    assert read_resolv_conf("# x\nnameserver 1.1.1.1\noptions edns0\nnameserver ::1\nnameserver bad\n") == (
        ("1.1.1.1", 53), ("::1", 53),
    )  # fmt: skip
    assert read_resolv_conf("") == (("127.0.0.1", 53),)
    assert read_hosts("127.0.0.1 2130706433 a\0b ok\n") == {"ok": (ip_address("127.0.0.1"),)}


@pytest.mark.parametrize(
    ("text", "server"),
    [("1.1.1.1", ("1.1.1.1", 53)), ("127.0.0.1:5353", ("127.0.0.1", 5353)), ("[::1]:5353", ("::1", 5353)),
     ("::1", ("::1", 53))],
)  # fmt: skip
def test_a_name_server_is_given_by_its_address(text, server):
    assert read_server(text) == server


@pytest.mark.parametrize("text", ["dns.google", "1.1.1.1:", "1.1.1.1:0", "1.1.1.1:x", ""])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="is not a name server"):
        read_server(text)
