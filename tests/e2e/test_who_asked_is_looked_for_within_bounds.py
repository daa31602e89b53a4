"""A cage may make it dear to say who was refused something, by a chain of forks: it is looked for where that is needed,
and for a share of the time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pysandbox import Cage, Policy
from pysandbox.denial import Denial
from pysandbox.live import askers, look_credit
from pysandbox.supervise import refusals

LONG = 40  # processes of the chain; of one that has ended its session is looked at as well
REFUSED = f"""
import os, sys, time
for above in range({LONG}):
    if os.fork():
        os.wait()
        os._exit(0)
    if not above:
        os.setsid()
for number in range(int(sys.argv[1])):
    name = "/tmp/" + sys.argv[2] + str(number)
    open(name, "w").close()
    os.chmod(name, 0o700)
    try: os.execv(name, ["x"])
    except OSError: pass
time.sleep(0.3)  # it is still there when somebody looks
"""
PROGRAMS = Policy(allow_execve=["/usr/bin/*", "/bin/*"])


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many processes were looked at, for each refusal that was."""
    found: list[int] = []
    status_of, asker_of = askers.status_of, refusals.asker_of

    def counted(pid: int) -> dict[bytes, bytes]:
        if found:
            found[-1] += 1
        return status_of(pid)

    def begun(*arguments: object, **named: object) -> object:
        found.append(0)
        asker: Callable[..., object] = asker_of
        return asker(*arguments, **named)

    monkeypatch.setattr(askers, "status_of", counted)
    monkeypatch.setattr(refusals, "asker_of", begun)
    return found


def chain(cage: Cage, count: int, name: str = "x") -> tuple[Denial, ...]:
    return cage.run(["/usr/bin/python3", "-I", "-S", "-c", REFUSED, str(count), name]).denials


def test_where_one_command_alone_can_have_asked_no_ancestor_is_looked_at(reads: list[int]) -> None:
    with Cage(PROGRAMS) as cage:
        denials = chain(cage, 20)
    assert len(denials) == 20 and {each.command for each in denials} == {1}
    assert len(reads) >= 20 and max(reads) <= 2


def test_what_there_is_no_room_for_is_counted_without_a_look(reads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "KINDS_KEPT", 5)
    with Cage(PROGRAMS) as cage:
        denials = chain(cage, 30)
    assert sum(each.count for each in denials) == 30 and len(denials) == 6
    assert len(reads) == 5


def test_of_several_commands_it_is_looked_for_until_the_share_is_spent(
    reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_credit, "CREDIT", 60.0)
    with Cage(PROGRAMS) as cage, cage.spawn(["sleep", "60"]) as other:
        denials = chain(cage, 5)
        assert denials and max(reads) > LONG, "the control: it is looked for, and known whose it was"
        reads.clear()
        monkeypatch.setattr(look_credit, "CREDIT", 1e-9)
        monkeypatch.setattr(look_credit, "SHARE", 1e-9)
        chain(cage, 1, "y")  # spends it
        reads.clear()
        chain(cage, 20, "z")
        whole = cage.denials
        other.kill()
        other.wait()
    assert sum(each.count for each in whole) == 26, "each is told, of whomever"
    assert len(reads) >= 20 and max(reads) <= 2
