"""A fix is one table that grants exactly what was refused, whatever the cage has called it; or there is none."""

from __future__ import annotations

import socket
import struct
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from _support.gate import net_plan
from pysandbox.cli.apply import Proposal
from pysandbox.compile.notify import _check_addresses
from pysandbox.errors import PolicyError
from pysandbox.gate.rules import GateRules
from pysandbox.handlers import fix
from pysandbox.handlers.call import Call
from pysandbox.handlers.fix import fix_of
from pysandbox.policy.also import layer_of
from pysandbox.policy.endpoint import MAPPED, TCP, UDP, parse_endpoint
from pysandbox.policy.expand import expand
from pysandbox.policy.match import may_execute
from pysandbox.policy.model import Policy
from pysandbox.policy.names import BadName, canonical
from pysandbox.policy.recipe import Recipe
from pysandbox.policy.render import literal

SPECIAL = "/*?[]{}\"'\\#=,$~ \n\r\t\x00\x1b\x7f\x85\u2028\u2029\u202e\u2066\u200b\ufeff\udcff.-é\U000e0001"
NAMES = st.text(st.one_of(st.sampled_from(SPECIAL), st.characters()), max_size=12)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
HOSTILE = (
    '/tmp/helper", "/usr/bin/*', "/a\nb", "/dir/*", "/*", "/$HOME", "/~", "/a (deleted)", "/a/../b", "/", "/a\u202eb",
    "/a\x85b", "/a\\", "/\udcff", "/x\u2028allow_execve = []", "/$$", "/a/./b", "//a", "/a/", "/${PATH}", "/a[b]?",
)  # fmt: skip


def executables(line: str) -> tuple[str, ...]:
    given = layer_of(line)
    assert set(given) == {"allow_execve"}
    rules = Policy(allow_execve=given["allow_execve"])
    return expand(rules, env={"HOME": "/h", "PATH": "/p"}, cwd="/c", home="/h").allow_execve


@given(PATHS)
@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_program_is_named_alone_or_not_at_all(path: str, other: str) -> None:
    for each in (path, other):
        line = fix.of_program(each)
        if line:
            assert line.replace("\n", "", 1).isprintable()
            assert executables(line) == (each,)
            assert not may_execute(executables(line), f"{each}/below")


def test_an_ordinary_program_is_named() -> None:
    assert fix.of_program("/usr/bin/git") == '[[also]]\nprocess.allow_execve = ["/usr/bin/git"]'
    assert fix.of_program("/opt/a b/c$d") == '[[also]]\nprocess.allow_execve = ["/opt/a b/c$$d"]'


def sockaddr(packed: bytes, port: int) -> bytes:
    if packed.startswith(MAPPED):
        return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s", port, packed[12:]) + bytes(8)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI16sI", port, 0, packed, 0)


ADDRESSES = st.one_of(
    st.binary(min_size=4, max_size=4).map(lambda four: MAPPED + four), st.binary(min_size=16, max_size=16),
    st.sampled_from([MAPPED + bytes(4), MAPPED + b"\x7f\0\0\1", MAPPED + b"\x7f\1\2\3", MAPPED + b"\xc6\x12\0\1",
                     MAPPED + b"\xc6\x13\xff\xff", bytes(16), bytes(15) + b"\1", MAPPED + b"\xff" * 4]),
)  # fmt: skip


@given(ADDRESSES, st.integers(0, 65535), st.sampled_from([0, 6, 17, 132, 136]), st.sampled_from(["full", "landlock"]))
@example(MAPPED + b"\x7f\0\0\1", 80, 6, "full")
def test_an_address_is_named_alone_and_the_next_run_takes_it(packed: bytes, port: int, protocol: int, way: str) -> None:
    own = way == "full"
    call = Call("CONNECT", "connect", 1, protocol=protocol, address=sockaddr(packed, port))
    line = fix_of(call, "network.allow_ips", own_network=own, udp=own)
    if not line:
        assert protocol not in (6, 17) or not port or own or protocol == 17
        return
    ((text,),) = layer_of(line).values()
    assert parse_endpoint(text) == (packed, 128, port, port, {6: TCP, 17: UDP}[protocol])
    run_as = {} if own else {"isolation": "landlock", "run_as": "self"}
    _check_addresses(Policy(allow_ips=(text,), **run_as))  # raises where the compiler refuses it


@given(
    st.text(st.one_of(st.sampled_from('abcABC019.-_*[]" @%\n'), st.characters()), max_size=30), st.integers(1, 65535)
)
@example("localhost", 80)
@example("*.example.com", 80)
def test_a_host_is_named_alone(name: str, port: int) -> None:
    try:
        known = canonical(name)
    except BadName:
        return
    if not isinstance(known, str):
        return
    decision = GateRules.of(net_plan()).name(known, port)
    if decision.fix and decision.rule == "host":
        (block,) = Policy(**layer_of(decision.fix)).hosts
        assert block.domain == known and not block.include_subdomains


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "198.18.1.1", "198.19.255.255"])
def test_what_is_the_cage_s_own_is_no_address_to_list(address: str) -> None:
    rules = GateRules.of(net_plan())
    at = ip_address(address)
    for decision in (
        *(rules.address(at, 80, "tcp", own=own) for own in (False, True)),
        *(rules.resolved("a.example", at, 80, own=own) for own in (False, True)),
    ):
        assert not decision.allowed and decision.fix == ""


@given(st.text(st.one_of(st.sampled_from(SPECIAL), st.characters())))
def test_the_renderer_prints_what_reads_back_and_what_a_terminal_takes_as_it_is(text: str) -> None:
    try:
        line = f"allow_execve = {literal((text,))}"
    except PolicyError:
        assert any("\ud800" <= each <= "\udfff" for each in text)
        return
    assert line.isprintable() and len(line.splitlines()) == 1
    import tomllib

    assert tomllib.loads(line) == {"allow_execve": [text]}


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_line_is_applied_as_one_entry(path: str, tmp_path: Path) -> None:
    line = fix.of_program(path)
    if line:
        proposal = Proposal.of(str(tmp_path / "r.toml"), [line])
        before = Recipe({})
        assert len(before.merge(Recipe(layer_of(line))).given["allow_execve"]) == 1
        assert proposal.after.count("allow_execve") == 1 + path.count("allow_execve")
        again = replace(proposal, before=proposal.after)
        assert again.nothing_new


def test_forks_beyond_the_limit_are_one_denial_with_a_wider_limit() -> None:
    found = fix.of_forks(8, 3)
    assert (found.kind, found.rule, found.count, found.errno) == ("process", "process.max_pids", 3, 11)
    assert found.flag == "--max-pids 16"
