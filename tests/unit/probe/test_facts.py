"""What host_facts concludes from the probes' answers, on pretended kernels."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from pysandbox.errors import StartError
from pysandbox.probe import kernel
from pysandbox.probe.facts import HostFacts
from pysandbox.probe.host import asked_for_redirects, host_facts

FULL_NEEDS = ("USER_NS", "NET_NS", "MOUNT_SETATTR", "PROC")


@pytest.fixture
def facts_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., HostFacts]:
    """The facts of a host on which only the named probes succeed."""

    def facts(*works: str, abi: int = 0) -> HostFacts:
        monkeypatch.setattr(kernel, "probe", lambda name: 0 if name in works else errno.EPERM)
        monkeypatch.setattr(kernel, "landlock_abi", lambda: abi)
        return host_facts()

    return facts


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("where", ["FULL", "USER_NOTIF", "WAIT_KILLABLE"])
def test_what_is_lacking_at_the_moment_is_an_error_and_no_fact(
    monkeypatch: pytest.MonkeyPatch, where: str, number: int
) -> None:
    monkeypatch.setattr(kernel, "probe", lambda name: number if name == where else 0)
    with pytest.raises(StartError) as caught:
        host_facts()
    assert (caught.value.step, caught.value.errno) == ("clone", number) and caught.value.hint


def test_a_host_that_can_do_nothing_has_no_fact_to_offer(facts_of: Callable[..., HostFacts]) -> None:
    facts = facts_of()
    assert not any(getattr(facts, name) for name in HostFacts.__dataclass_fields__ if facts_bool(name))
    assert facts.landlock_abi == 0


def facts_bool(name: str) -> bool:
    return str(HostFacts.__dataclass_fields__[name].type) == "bool"


def test_a_host_with_all_that_a_full_cage_needs_is_asked_no_more(
    facts_of: Callable[..., HostFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = facts_of("FULL", "USER_NOTIF", "WAIT_KILLABLE", abi=7)
    assert all(getattr(facts, name) for name in HostFacts.__dataclass_fields__ if facts_bool(name))
    assert facts.landlock_abi == 7


@pytest.mark.parametrize(
    ("probe", "fact"),
    [
        ("USER_NS", "user_namespaces"),
        ("NET_NS", "network_namespaces"),
        ("MOUNT_SETATTR", "mount_setattr"),
        ("PROC", "proc_mountable"),
        ("SECCOMP_FILTER", "seccomp_filter"),
        ("WAIT_KILLABLE", "wait_killable"),
    ],
)
def test_where_a_full_cage_is_refused_each_part_is_asked_by_itself(
    facts_of: Callable[..., HostFacts], probe: str, fact: str
) -> None:
    facts = facts_of(probe)
    true = [name for name in HostFacts.__dataclass_fields__ if facts_bool(name) and getattr(facts, name)]
    assert true == [fact]


def test_the_environment_is_a_copy(facts_of: Callable[..., HostFacts], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSB_PROBE_TEST", "before")
    facts = facts_of()
    monkeypatch.setenv("PSB_PROBE_TEST", "after")
    assert facts.env["PSB_PROBE_TEST"] == "before"


def test_the_caller_is_who_the_kernel_says(facts_of: Callable[..., HostFacts]) -> None:
    facts = facts_of()
    assert (facts.uid, facts.gid, facts.machine) == (os.geteuid(), os.getegid(), os.uname().machine)


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ("6.18.44-fc-v669", (6, 18)),
        ("6.19-rc1", (6, 19)),
        ("5.10.0-28-amd64", (5, 10)),
        ("6.1", (6, 1)),
        ("7.0+", (7, 0)),
    ],
)
def test_a_kernel_release_is_read_as_two_numbers(release: str, version: tuple[int, int]) -> None:
    assert kernel.version(release) == version


@pytest.mark.parametrize(("number", "works"), [(0, True), (errno.EPROTONOSUPPORT, False)])
def test_redirects_are_asked_for_once_and_only_when_somebody_wants_to_know(
    number: int, works: bool, facts_of: Callable[..., HostFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(kernel, "redirect", lambda: asked.append(number) or number)
    facts = facts_of("FULL")
    assert (facts.nf_tables, asked) == (None, [])
    known = asked_for_redirects(facts)
    assert (known.nf_tables, asked_for_redirects(known), asked) == (works, known, [number])
