"""Whatever fails while a cage starts, wherever: the error says so, and the leak guard finds nothing left of it.

Every step of the setup and of cage-init has its failure brought about through `Cage`, and every stage between them
that is Python's is made to raise what nobody expects: want of memory, and Ctrl-C.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

import pytest

from kernel.inject import ERRNO, KILL, answering, under
from kernel.test_steps import FORK_FLAGS, MS_PRIVATE, MS_REC
from pysandbox import Cage, CageClosedError, Policy, Result, Runtime, StartError, greenlets
from pysandbox.errors import UnsupportedError
from pysandbox.events import SPAWN, Event
from pysandbox.launch.native import NativePlan

TRUE = ["/bin/true"]
FULL, FLAT = Policy(), Policy(isolation="landlock", run_as="self")

# One call answers with EIO: (call, its arguments, the policy, the step).
SETUP: list[tuple[str, dict[int, int], Policy, str]] = [
    ("socketpair", {}, FULL, "control"),
    ("pidfd_open", {}, FULL, "control"),
    ("write", {2: len("deny")}, FULL, "setgroups"),
    ("keyctl", {}, FULL, "keyring"),
    ("sethostname", {}, FULL, "hostname"),
    ("mount", {3: MS_REC | MS_PRIVATE}, FULL, "propagation"),
    ("pivot_root", {}, FULL, "pivot_root"),
    ("umount2", {}, FULL, "detach"),
    ("socket", {}, FULL, "loopback"),
    ("landlock_create_ruleset", {}, FULL, "landlock_ruleset"),
    ("capset", {}, FULL, "caps"),
    ("prctl", {0: 38}, FULL, "no_new_privs"),
    ("dup3", {}, FULL, "init_fds"),
    ("execveat", {}, FULL, "init_exec"),
    ("landlock_create_ruleset", {}, FLAT, "landlock_ruleset"),
    ("landlock_restrict_self", {}, FLAT, "landlock_scope"),
    ("execveat", {}, FLAT, "init_exec"),
]
COMMAND: list[tuple[str, dict[int, int], Policy, str]] = [
    ("clone", {0: FORK_FLAGS}, FULL, "fork"),
    ("setsid", {}, FULL, "setsid"),
    ("landlock_restrict_self", {}, FULL, "landlock"),
    ("setsid", {}, FLAT, "setsid"),
]


def named(rows: list[tuple[str, dict[int, int], Policy, str]]) -> list[str]:
    return [f"{policy.isolation} {step} {call}" for call, _, policy, step in rows]


def one_shot(cage: Cage) -> None:
    told(cage.run(TRUE))


def told(result: Result) -> None:
    """A run whose cage dies with its order on the way cannot tell that from a cage that was killed while it ran."""
    if result.reason == "cancelled" and result.returncode == -9:
        raise CageClosedError("killed")


def spawned(cage: Cage) -> None:
    with cage.spawn(TRUE) as process:
        process.wait()


def session(cage: Cage) -> None:
    with cage:
        told(cage.run(TRUE))


WAYS = pytest.mark.parametrize("way", [one_shot, spawned, session], ids=lambda way: way.__name__)


def known_host(policy: Policy) -> Cage:
    """What is looked at once is looked at before the failure: only the start is to fail."""
    cage = Cage(policy, runtime=Runtime(warm=0))
    cage.runtime._init(cage._launcher.prepare(policy).plan)
    return cage


@WAYS
@pytest.mark.parametrize(("call", "arguments", "policy", "step"), SETUP, ids=named(SETUP))
def test_a_step_of_the_setup(
    way: Callable[[Cage], None], call: str, arguments: dict[int, int], policy: Policy, step: str
) -> None:
    cage = known_host(policy)
    with pytest.raises(StartError) as error:
        under(answering(ERRNO | errno.EIO, call, arguments), lambda: way(cage))
    assert (error.value.step, error.value.errno) == (step, errno.EIO)
    cage.runtime.drain()


@WAYS
@pytest.mark.parametrize(("call", "arguments", "policy", "step"), COMMAND, ids=named(COMMAND))
def test_a_step_of_the_command(
    way: Callable[[Cage], None], call: str, arguments: dict[int, int], policy: Policy, step: str
) -> None:
    cage = known_host(policy)
    with pytest.raises(StartError) as error:
        under(answering(ERRNO | errno.EIO, call, arguments), lambda: way(cage))
    assert (error.value.step, error.value.errno) == (step, errno.EIO)
    cage.runtime.drain()


@WAYS
@pytest.mark.parametrize("policy", [FULL, FLAT], ids=["full", "landlock"])
def test_a_setup_that_is_killed(way: Callable[[Cage], None], policy: Policy) -> None:
    cage = known_host(policy)
    with pytest.raises((StartError, CageClosedError)):  # killed before, or after, the host had sent it something
        under(answering(KILL, "execveat", {}), lambda: way(cage))
    cage.runtime.drain()


# Stages of a start that are Python's: what is patched, and whether its work has been done when it raises.
STAGES: list[tuple[str, bool]] = [
    ("pysandbox.runtime.runtime.make_scratch", False),
    ("pysandbox.launch.native.NativePlan.open", False),
    ("pysandbox.launch.native.send", False),
    ("pysandbox.launch.native._send_setup", True),
    ("pysandbox.live.init.CageInit.__init__", False),
    ("pysandbox.live.init.CageInit.__init__", True),
    ("pysandbox.runtime.runtime.Runtime.record", False),
    ("pysandbox.live.commands.Commands.begin", False),
    ("pysandbox.live.init.CageInit.wake_hint", False),
    ("pysandbox.start.open_stdio", False),
    ("pysandbox.launch.orders.encode_exec", False),
    ("pysandbox.live.init.CageInit.execute", False),
    ("pysandbox.live.init.CageInit.execute", True),
    ("pysandbox.launch.orders.send_exec", True),
    ("pysandbox.process.Process.__init__", False),
    ("pysandbox.process.Process.__init__", True),
    ("pysandbox.runtime.runtime.Runtime.replenish", False),
    ("pysandbox.runtime.runtime.Runtime.track", True),
    ("pysandbox.launcher.Launcher.tell", False),
    ("pysandbox.launch.orders.read_report", False),
]
UNREACHED = {  # by one way or another
    "one_shot": set(),
    "spawned": set(),
    "session": {"pysandbox.runtime.runtime.Runtime.track"},
}


@WAYS
@pytest.mark.parametrize("raised", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    ("stage", "after"), STAGES, ids=[f"{'after' if after else 'at'} {name}" for name, after in STAGES]
)
def test_a_stage_in_python(
    monkeypatch: pytest.MonkeyPatch, stage: str, after: bool, raised: type[BaseException], way: Callable[[Cage], None]
) -> None:
    if stage in UNREACHED[way.__name__]:
        return
    cage = known_host(FLAT)  # it has a directory on the host besides
    replace_once(monkeypatch, stage, after, raised)

    with pytest.raises(raised):
        way(cage)

    monkeypatch.undo()
    cage.close()
    cage.runtime.drain()


def replace_once(monkeypatch: pytest.MonkeyPatch, stage: str, after: bool, raised: type[BaseException]) -> None:
    """The first call of `stage` raises; cleaning up may call it again."""
    real = resolve_name(stage)
    calls: list[int] = []

    def replaced(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return real(*args, **kwargs)
        if after:
            real(*args, **kwargs)
        raise raised("as the test wants it")

    monkeypatch.setattr(stage, replaced)


@WAYS
def test_a_sink_that_raises(way: Callable[[Cage], None]) -> None:
    def sink(event: Event) -> None:
        if event.type == SPAWN.name:
            raise RuntimeError("a sink of the user's")

    cage = Cage(FULL, runtime=Runtime(warm=0, sink=sink))
    with pytest.raises(RuntimeError):
        way(cage)
    cage.close()
    cage.runtime.drain()


@pytest.mark.parametrize(
    "policy", [Policy(hosts=["a.example"]), Policy(host_loopback_ports=[80]), Policy(cow=["/opt"])]
)
def test_where_there_are_no_threads_no_cage_is_made_that_needs_one(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greenlets, "patched_by", lambda: "gevent")
    monkeypatch.setattr(NativePlan, "open", lambda *_: pytest.fail("a cage was made"))
    with pytest.raises(UnsupportedError, match="gevent"):
        Cage(policy).run(TRUE)
