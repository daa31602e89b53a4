"""The lists in force: they only ever get narrower, for a cage and for single processes, and whoever may bear a mark
that is not known is held to all of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pysandbox._native import lib

from pysandbox.compile.plan import NetPlan, NotifyPlan, Plan
from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.handlers.call import Call
from pysandbox.handlers.verdict import Errno
from pysandbox.policy.endpoint import SYNTHETIC, parse_list
from pysandbox.policy.model import Policy
from pysandbox.supervise import context, marks
from pysandbox.supervise.marks import LAST, Mark, Marks, mark_of, set_mark
from pysandbox.supervise.rules_in_force import RulesInForce
from pysandbox.supervise.wire import EncodedRules

UNMARKED = Mark(-1, -1)
INIT, FIRST, SECOND, THIRD = 1, 11, 12, 13
ONE, TWO, THREE = "192.0.2.1:443/tcp", "192.0.2.2:443/tcp", "192.0.2.3:443/tcp"
CALLS = ("CONNECT", "BIND", "LISTEN", "SENDTO", "SENDMSG")
NOTIFY = NotifyPlan(
    calls=(), actions=(*((name, "LIST") for name in CALLS), ("EXEC", "TELL")), endpoints=parse_list([ONE, TWO, THREE]),
    no_external_reach=False, abstract=False, refuse_control=False, lenient=False, programs=None,
)  # fmt: skip
PLAN = Plan(
    isolation="full", notes=(), namespaces=("USER",), inside_uid=0, inside_gid=0, hostname_prefix="", env=(), cwd="/",
    staging="", mounts=(), landlock=None, seccomp=b"", seccomp_late=b"", notify=NOTIFY, loopback=True, limits=(),
    walltime=None, grace=1, output_cap=1,
)  # fmt: skip


class Limits:
    """The two hard limits of each process, which only ever fall."""

    def __init__(self) -> None:
        self.of = {pid: {10: -1, 5: -1} for pid in (INIT, FIRST, SECOND, THIRD)}
        self.looked = 0

    def __call__(self, pid: int, resource: int, value: int | None = None) -> int:
        self.looked += value is None
        if pid not in self.of:
            raise ProcessLookupError
        held = self.of[pid]
        if value is not None:
            if 0 <= held[resource] < value:
                raise PermissionError
            held[resource] = value
        return held[resource]

    def start(self, pid: int, parent: int) -> None:
        self.of[pid] = dict(self.of[parent])


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Limits:
    made = Limits()
    monkeypatch.setattr(marks.native, "limit", made)
    return made


class InForce:
    """Rules, and the copies that the C half was given."""

    def __init__(self, plan: Plan = PLAN, policy: Policy | None = None, *, recorded: bool = False) -> None:
        self.copies: list[EncodedRules] = []
        live: Any = SimpleNamespace(pid=INIT, user=0)
        policy = policy or Policy()
        self.rules = RulesInForce(live, plan, policy, self.copies.append, deadline=5, recorded=recorded)

    def reaches(self, pid: int) -> list[str]:
        return [line for line in (ONE, TWO, THREE) if not isinstance(self.verdict(pid, line), Errno)]

    def verdict(self, pid: int, line: str) -> object:
        host, port = line.removesuffix("/tcp").split(":")
        address = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s", int(port), socket.inet_aton(host)) + bytes(8)
        return self.rules.decide(Call("CONNECT", "connect", pid, protocol=socket.IPPROTO_TCP, address=address))

    def narrow_pids(self, pids: Sequence[int], *lines: str) -> set[Mark]:
        return self.rules.narrow_pids(pids, parse_list(lines))


# ---- whose a mark is -----------------------------------------------------------------------------------------


def test_a_mark_binds_to_its_list_and_one_that_is_not_known_to_all(limits: Limits) -> None:
    known, held = {1, 2}, Marks(UNMARKED)
    (first, mark), (second, other) = held.inside(UNMARKED), held.inside(UNMARKED)
    assert (first, second) == (1, 2) and LAST not in (mark, other)
    assert held.binding(FIRST, known) == frozenset()
    set_mark(FIRST, other)
    assert mark_of(FIRST) == other and held.binding(FIRST, known) == {2}
    assert held.binding(FIRST, {1}) == {1}  # of a mark without a list: every list
    set_mark(FIRST, Mark(other.locks - 1, other.rss))
    assert held.binding(FIRST, known) == known
    set_mark(FIRST, LAST)
    assert held.binding(FIRST, known) == known
    assert mark_of(99) is None and held.binding(99, known) == known  # it is gone: nobody knows what it bore


def test_where_no_process_is_bound_none_is_looked_at(limits: Limits) -> None:
    assert Marks(UNMARKED).binding(FIRST, ()) == frozenset()
    assert limits.looked == 0


@pytest.mark.parametrize("unmarked", [Mark(-1, -1), Mark(-1, 1 << 40), Mark(1 << 40, -1), Mark(0x4000, 0x4000)])
def test_there_is_room_for_marks_below_whatever_limits_a_cage_begins_with(unmarked: Mark) -> None:
    held = Marks(unmarked)
    made = {held.inside(unmarked)[1] for _ in range(2)}
    assert LAST not in made and len(made) == 2
    assert all(0 < end <= limit for mark in made for end, limit in zip(mark, unmarked, strict=True) if limit >= 0)


def test_a_mark_that_could_not_be_put_on_counts_as_every_mark(limits: Limits) -> None:
    in_force = InForce()
    limits.of[FIRST][10] = 7  # it has lowered a limit already
    in_force.narrow_pids([SECOND], TWO)
    assert in_force.reaches(FIRST) == [TWO]
    in_force.narrow_pids([FIRST], ONE)
    assert in_force.reaches(FIRST) == []
    assert in_force.reaches(SECOND) == [TWO] and in_force.reaches(THIRD) == [ONE, TWO, THREE]


def test_where_no_process_can_be_told_from_another_none_is_said_to_be_bound(limits: Limits) -> None:
    """Hard limits that are 0 from the start: the last mark looks as none does."""
    for held in limits.of.values():
        held.update({10: 0, 5: 0})
    in_force = InForce()
    with pytest.raises(UnsupportedError, match="RLIMIT_LOCKS and RLIMIT_RSS are 0"):
        in_force.narrow_pids([FIRST], ONE)
    assert in_force.reaches(FIRST) == [ONE, TWO, THREE] and in_force.copies == []
    for held in limits.of.values():
        held.update({10: 0, 5: 1})
    in_force = InForce()
    in_force.narrow_pids([FIRST], ONE)
    assert (in_force.reaches(FIRST), in_force.reaches(SECOND)) == ([ONE], [ONE, TWO, THREE])


# ---- what holds for whom -------------------------------------------------------------------------------------


def test_a_process_is_bound_with_all_that_it_starts_and_nobody_else(limits: Limits) -> None:
    in_force = InForce()
    assert in_force.reaches(FIRST) == [ONE, TWO, THREE]
    assert in_force.narrow_pids([FIRST, SECOND], ONE, TWO) == {mark_of(FIRST)}
    limits.start(21, FIRST)
    assert [in_force.reaches(pid) for pid in (FIRST, SECOND, 21)] == [[ONE, TWO]] * 3
    assert in_force.reaches(THIRD) == [ONE, TWO, THREE]
    assert isinstance(refused := in_force.verdict(21, THREE), Errno) and refused.rule == "policy_fn"


def test_one_that_is_bound_already_is_held_to_both_lists(limits: Limits) -> None:
    in_force = InForce()
    in_force.narrow_pids([FIRST], ONE, TWO)
    limits.start(21, FIRST)
    in_force.narrow_pids([FIRST], TWO, THREE)
    assert (in_force.reaches(FIRST), in_force.reaches(21)) == ([TWO], [ONE, TWO])
    in_force.narrow_pids([SECOND], THREE)
    assert in_force.reaches(FIRST) == [TWO] and LAST not in (mark_of(FIRST), mark_of(SECOND))
    in_force.narrow_pids([FIRST], ONE)
    assert in_force.reaches(FIRST) == []


def test_what_the_cage_has_lost_no_list_of_a_process_gives_back(limits: Limits) -> None:
    in_force = InForce()
    in_force.narrow_pids([FIRST], ONE, TWO)
    assert in_force.rules.narrow(parse_list([TWO, THREE])) == parse_list([TWO, THREE])
    assert (in_force.reaches(FIRST), in_force.reaches(SECOND)) == ([TWO], [TWO, THREE])
    assert in_force.rules.now.network.local == parse_list([TWO, THREE])
    in_force.rules.narrow(())
    in_force.rules.narrow(parse_list([ONE]))
    assert in_force.rules.now.network.local == () and in_force.rules.now.source == "policy_fn"
    assert in_force.reaches(FIRST) == in_force.reaches(SECOND) == []


NET = NetPlan(doors=(), routes=b"", redirect=b"", hosts=(), endpoints=(), published=(), loopback_ports=None, bridge="",
              ipv6="nodata")  # fmt: skip


@pytest.mark.parametrize(("net", "lines", "kept"), [(NET, [ONE], True), (NET, [], False), (None, [ONE], False)])
def test_doors_stay_open_only_where_something_is_left_to_reach(
    limits: Limits, net: NetPlan | None, lines: list[str], kept: bool
) -> None:
    notify = replace(NOTIFY, endpoints=(*NOTIFY.endpoints, SYNTHETIC))
    in_force = InForce(replace(PLAN, net=net, notify=notify))
    assert (SYNTHETIC in in_force.rules.narrow(parse_list(lines))) is kept


# ---- what the C half is given --------------------------------------------------------------------------------


def actions(encoded: EncodedRules) -> dict[str, int]:
    return {name: int(encoded.struct.action[getattr(lib, f"PSB_CALL_{name}")]) for name in (*CALLS, "EXEC")}


LIST, ASK, TELL, PASS = (int(getattr(lib, f"PSB_ACTION_{name}")) for name in ("LIST", "ASK", "TELL", "PASS"))


def test_each_tightening_is_given_to_the_c_half_at_once(limits: Limits) -> None:
    in_force = InForce()
    in_force.rules.narrow(parse_list([ONE]))
    assert [int(each.struct.n_endpoints) for each in in_force.copies] == [1]
    assert actions(in_force.copies[0]) == {**dict.fromkeys(CALLS, LIST), "EXEC": PASS}
    in_force.narrow_pids([FIRST], ONE)
    assert actions(in_force.copies[1]) == {**dict.fromkeys(CALLS, ASK), "EXEC": PASS}  # Python alone knows the marks
    in_force.rules.narrow(())
    assert actions(in_force.copies[2])["CONNECT"] == ASK


def test_of_what_is_recorded_python_decides_all(limits: Limits) -> None:
    assert actions(InForce(recorded=True).rules.encoded())["CONNECT"] == ASK


@pytest.mark.parametrize(
    ("planned", "programs", "action"),
    [("TELL", None, PASS), ("TELL", (), TELL), ("TELL", ("/usr/bin/*",), TELL), ("ASK", None, ASK), ("ASK", (), ASK)],
)
def test_only_an_exec_that_is_reported_and_held_to_no_list_is_passed(
    limits: Limits, planned: str, programs: tuple[str, ...] | None, action: int
) -> None:
    notify = replace(NOTIFY, actions=(*NOTIFY.actions[:-1], ("EXEC", planned)), programs=programs)
    assert actions(InForce(replace(PLAN, notify=notify)).rules.encoded())["EXEC"] == action


FLAGS = ("no_external_reach", "abstract", "refuse_control", "landlock_denies_bind", "on_host", "keeps_ports", "doors",
         "watches_paths")  # fmt: skip


WORDS: dict[str, Any] = {**dict.fromkeys(FLAGS, True), "grants": parse_list([ONE])}


@pytest.mark.parametrize("word", WORDS)
def test_each_word_of_the_plan_is_told(limits: Limits, word: str) -> None:
    encoded = InForce(replace(PLAN, notify=replace(NOTIFY, **{word: WORDS[word]}))).rules.encoded().struct
    assert {name for name in WORDS if getattr(encoded, name)} == {word}
    assert (encoded.init_pid, encoded.user, encoded.moves, encoded.deadline_ms) == (INIT, 0, 0, 5000)


@pytest.mark.parametrize(("more", "moves"), [((), False), ((("RENAME", "TELL"),), True)])
def test_whether_directories_are_renamed_is_told(limits: Limits, more: Any, moves: bool) -> None:
    in_force = InForce(replace(PLAN, notify=replace(NOTIFY, actions=(*NOTIFY.actions, *more))))
    assert bool(in_force.rules.encoded().struct.moves) is moves


@pytest.mark.parametrize(("kept", "watched"), [(("CONNECT", "EXEC"), True), (("EXEC",), False), ((), False)])
def test_the_network_is_watched_where_a_connect_is(limits: Limits, kept: tuple[str, ...], watched: bool) -> None:
    notify = replace(NOTIFY, actions=tuple(each for each in NOTIFY.actions if each[0] in kept))
    assert InForce(replace(PLAN, notify=notify)).rules.watches_network is watched


@pytest.mark.parametrize(("policy", "rule"), [(Policy(), "network.egress"), (Policy(allow_ips=[ONE]),
                                                                             "network.allow_ips")])  # fmt: skip
def test_a_refusal_names_what_made_the_list(limits: Limits, policy: Policy, rule: str) -> None:
    verdict = InForce(policy=policy).verdict(FIRST, "198.51.100.1:443/tcp")
    assert isinstance(verdict, Errno) and verdict.rule == rule


# ---- a process, its descendants, and what began meanwhile ----------------------------------------------------


class CutNothing:
    def __init__(self) -> None:
        self.cut: list[list[int]] = []

    def __call__(self, pids: Sequence[int]) -> int:
        self.cut.append(list(pids))
        return len(pids)


def test_a_second_look_binds_what_began_since_and_leaves_the_others(
    limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "descendants", lambda pid: [SECOND])
    in_force, cut = InForce(), CutNothing()
    binding = context._Binding(in_force.rules, FIRST, cut, parse_list([ONE]))  # type: ignore[arg-type]
    assert binding.bind([INIT, FIRST, SECOND, THIRD]) == 2
    limits.start(21, FIRST)
    limits.start(22, THIRD)  # it may be an orphan of theirs
    assert binding.bind([INIT, FIRST, SECOND, THIRD, 21, 22]) == 4
    assert cut.cut == [[FIRST, SECOND], [FIRST, SECOND, 21, 22]]
    assert [in_force.reaches(pid) for pid in (FIRST, SECOND, 21, 22)] == [[ONE]] * 4
    assert in_force.reaches(THIRD) == in_force.reaches(INIT) == [ONE, TWO, THREE]
    assert len(in_force.copies) == 2 and binding.bind([FIRST]) == 1 and len(in_force.copies) == 2


def test_a_process_of_another_cage_is_not_bound(limits: Limits) -> None:
    binding = context._Binding(InForce().rules, 99, CutNothing(), ())  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="process 99 is not of this cage"):
        binding.bind([INIT, FIRST])
