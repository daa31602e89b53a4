"""What is written down of a cage's network, and that a flood of it costs nothing."""

from __future__ import annotations

import pytest

from pysandbox.events import Event
from pysandbox.gate.ledger import ERROR_PAUSE, EVERY_HOST, FURTHER, KINDS_KEPT, Ledger
from pysandbox.gate.rules import Decision
from pysandbox.live.commands import Asker, Commands

NO = Decision(False, "host", 'host = [{ domain = "x" }]')


def test_a_refusal_is_an_event_once_and_counted_always():
    events: list[Event] = []
    ledger = Ledger("cage", events.append)
    for _ in range(3):
        ledger.denied("tcp", "x", 443, NO)
    ledger.denied("dns", "x", None, NO)
    fields = {"invocation_id": "cage", "rule": NO.rule, "fix": NO.fix}
    assert events == [
        Event("gatekeeper.tcp_denied", fields | {"target": "x", "port": 443}),
        Event("gatekeeper.dns_denied", fields | {"hostname": "x"}),
    ]
    assert ledger.counts == {"gatekeeper.tcp_denied": 3, "gatekeeper.dns_denied": 1}
    assert [(each.kind, each.target, each.fix, each.count) for each in ledger.denials()] == [
        ("tcp", "x:443", NO.fix, 3), ("dns", "x", NO.fix, 1)
    ]  # fmt: skip


def test_what_holds_a_credential_is_not_told_with_its_arguments():
    events: list[Event] = []
    ledger = Ledger("cage", events.append, who=lambda: Asker(7, ("curl", "-d", "the token")))
    ledger.denied("dlp", "x", None, NO)
    ledger.denied("http", "x", None, NO)
    assert [each.argv for each in ledger.denials()] == [("curl",), ("curl", "-d", "the token")]
    assert [each.data["argv"] for each in events] == [("curl",), ("curl", "-d", "the token")]


@pytest.mark.parametrize(
    ("kind", "target", "rule", "argv", "told"),
    [
        ("dns", "a.example", "host", ("getent", "a.example"), ("a.example", "host", ("getent", "a.example"))),
        ("dns", "SECRET.example", "host", ("getent", "SECRET.example"), ("a name", "host", ("getent",))),
        ("tcp", "a.example", "SNI names SECRET", ("curl",), ("a.example:443", "a name", ("curl",))),
        ("http", "GET https://a.example/SECRET", "host.paths", ("curl",), ("a request", "host.paths", ("curl",))),
        ("tcp", "a.example", "host", ("sh", "-c", "echo SECRET"), ("a.example:443", "host", ("sh",))),
        ("udp", "a.example", "network", ("SECRET", "x"), ("a.example:443", "network", ())),
    ],
)
def test_no_field_of_a_refusal_has_the_credential_in_it(kind, target, rule, argv, told):
    """The first says none: the control."""
    events: list[Event] = []
    ledger = Ledger("cage", events.append, who=lambda: Asker(7, argv))
    ledger.credential_in = lambda said: "dlp.x" if "SECRET" in said else ""
    ledger.denied(kind, target, 443 if kind in ("tcp", "udp") else None, Decision(False, rule, ""))
    (denial,) = ledger.denials()
    assert (denial.target, denial.rule, denial.argv) == told and len(events) == 1
    assert "SECRET" not in f"{events} {denial}" and events[0].data["rule"] == told[1]


def test_a_flood_is_counted_and_takes_no_room():
    events: list[Event] = []
    ledger = Ledger("cage", events.append)
    for number in range(20_000):
        ledger.denied("dns", f"{number}.evil.com" * 100, None, NO)
    assert ledger.counts == {"gatekeeper.dns_denied": 20_000}
    assert len(ledger.denials()) == len(events) == KINDS_KEPT + 1
    assert ledger.denials()[-1].target == FURTHER and ledger.denials()[-1].count == 20_000 - KINDS_KEPT
    assert all(len(each.target) <= 300 for each in ledger.denials())


def test_a_sink_that_fails_does_not_let_a_refusal_fail():
    def broken(event: Event) -> None:
        raise OSError("disk full")

    ledger = Ledger("cage", broken)
    ledger.denied("dns", "x", None, NO)
    ledger.unreachable("no answer")
    assert ledger.counts == {"gatekeeper.dns_denied": 1, "gatekeeper.upstream_unreachable": 1}


def test_the_same_fault_upstream_is_told_again_only_after_a_while():
    events: list[Event] = []
    moments = iter([0.0, 1.0, 1.0 + ERROR_PAUSE])
    ledger = Ledger("cage", events.append, lambda: next(moments))
    for _ in range(3):
        ledger.unreachable("no answer")
    assert len(events) == 2 and ledger.counts == {"gatekeeper.upstream_unreachable": 3}


def test_udp_has_the_general_event():
    events: list[Event] = []
    Ledger("cage", events.append).denied("udp", "2001:db8::1", 443, NO)
    assert events[0].type == "cage.denied" and events[0].data["target"] == "[2001:db8::1]:443"


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("command", [None, 1])
def test_a_flood_of_refused_names_with_a_credential_in_them_is_not_scanned_for_ever(distinct, command):
    """The control is a name that comes once: it is scanned, and counted as one that says nothing of itself."""
    events: list[Event] = []
    looked: list[str] = []
    commands = Commands()
    if command is not None:
        commands.begin()
    ledger = Ledger("cage", events.append, commands=commands)
    ledger.credential_in = lambda said: looked.append(said) or ("dlp.x" if "SECRET" in said else "")
    ledger.denied("dns", "SECRET.example", None, NO)
    once = len(looked)
    assert once > 0
    for number in range(5000):
        ledger.denied("dns", f"SECRET{number * distinct}.example", None, NO)
    assert ledger.counts == {"gatekeeper.dns_denied": 5001}
    assert sum(each.count for each in ledger.denials()) == 5001
    assert {each.target for each in ledger.denials()} <= {"a name", FURTHER}
    if command is not None:
        assert len(looked) <= once * (KINDS_KEPT + 2 if distinct else 2)
    assert "SECRET" not in f"{events} {ledger.denials()} {vars(ledger._hidden)}"


def test_a_cage_that_was_cut_off_tells_each_of_its_commands():
    """Those that run then, and those that are begun later; one that had ended hears nothing."""
    events: list[Event] = []
    commands = Commands()
    ended, running = commands.begin(), commands.begin()
    commands.close((ended,))
    ledger = Ledger("cage", events.append, commands=commands)
    assert ledger.denials() == ()  # the control
    ledger.cut_off("it was killed")
    assert [each.command for each in ledger.denials()] == [running]
    later = commands.begin()
    for _ in range(2):
        told = ledger.denials()
        assert [(each.command, each.target, each.count) for each in told] == [
            (running, EVERY_HOST, 1), (later, EVERY_HOST, 1)
        ]  # fmt: skip
    assert all("it was killed" in each.rule and "new Cage" in each.rule for each in told)
    assert len(events) == 1
