"""Tightening a cage while it runs. Every method narrows what is in force, at once and for good; none widens.

A Context is what a callback gets as `ctx`, and what `Cage.context` gives the host. Any thread may call it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from contextlib import suppress

from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.events import RESTRICTED, Event, Sink
from pysandbox.launch import native
from pysandbox.live.processes import descendants
from pysandbox.live.restrict import restrict_pids
from pysandbox.live.stopping import while_stopped
from pysandbox.policy.endpoint import SYNTHETIC, TCP, Endpoint, parse_endpoint, parse_list
from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.supervise.closing import close_path, is_denied_and_absent
from pysandbox.supervise.cut import Cutting
from pysandbox.supervise.marks import Mark, mark_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pysandbox.compile.plan import Plan
    from pysandbox.live.init import CageInit
    from pysandbox.policy.model import Policy
    from pysandbox.supervise.rules_in_force import RulesInForce

# The addresses of doors, and those that stand for names. Of a cage without a network namespace a connection to a door
# shows 127.198.18.1 (csrc/host/emulate/door.c).
DOORS = (SYNTHETIC._replace(protocols=TCP), parse_endpoint("127.198.18.1/tcp"))
SMALLEST_MEMORY_MB = 16  # as resources.memory_mb
MOST = 2**31 - 1  # of any count; in MiB it fits the kernel's 64 bits


class Context:
    """The live policy of one cage."""

    def __init__(
        self, live: CageInit, plan: Plan, policy: Policy, rules: RulesInForce, sink: Sink,
        restrict_memory: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._live, self._plan, self._policy, self._rules, self._sink = live, plan, policy, rules, sink
        self._restrict_memory = restrict_memory

    def restrict_network(self, addresses: Sequence[str]) -> int:
        """Only these addresses, as in `network.allow_ips`, out of what was allowed before; [] cuts everything.

        Connections that may no longer be are shut down; returns how many. Raises PolicyError for what is no address,
        UnsupportedError where the cage's network calls are not watched.
        """
        endpoints = _parse(addresses)
        if not self._rules.watches_network:
            return restrict_doors(self._live, self._sink, addresses)
        cut = self._live.services.tighten(endpoints)
        self._tell("network", list(addresses))
        # Connections to doors are left to the gatekeeper, which knows where they lead.
        doors = DOORS if endpoints and self._plan.net is not None else ()
        kept = (*self._rules.now.network.local, *doors)
        return cut + while_stopped(self._live, self._sink, Cutting(kept, self._live))

    def restrict_pid_network(self, pid: int, addresses: Sequence[str]) -> int:
        """Narrows the network of one process (by the host's pid, `CallEvent.pid`), of its descendants, and of all that
        any of them ever starts. A descendant that was orphaned before is not found. Returns and raises as
        `restrict_network`; UnsupportedError also where this program's hard limits RLIMIT_LOCKS and RLIMIT_RSS are 0."""
        endpoints = _parse(addresses)
        self._require_network()
        binding = _Binding(self._rules, pid, Cutting(endpoints, self._live), endpoints)
        cut = while_stopped(self._live, self._sink, binding.bind)
        self._tell("pid_network", [pid, *addresses])
        return cut

    def deny_path(self, path: str | os.PathLike[str]) -> None:
        """Closes a file or a directory for the whole cage, by a mount over it in the cage's own mount namespace.

        What is open already stays open, as after a chmod. `path` is absolute, as a command in the cage would name it.
        What the policy denies and the cage has not got (/etc/shadow) is closed as it is. Raises TypeError, ValueError
        (it is no absolute path), PolicyError (it is the root, or of a process in /proc), FileNotFoundError (there is
        no such path, so nothing to close), UnsupportedError (isolation = "landlock": there is no mount namespace),
        OSError.
        """
        if not self._plan.namespaces:
            raise UnsupportedError(
                f'isolation = "landlock": {os.fspath(path)} cannot be closed, for Landlock takes no right away from a '
                "process that runs", feature="mount_namespace", fix='use isolation = "full", or deny it from the start',
            )  # fmt: skip
        try:
            closed = close_path(self._live, path)
        except FileNotFoundError:
            closed = os.fsdecode(path)
            if not is_denied_and_absent(self._plan, self._policy, closed):
                raise
        self._tell("path", closed)

    def restrict_max_processes(self, most: int) -> None:
        """At most so many processes and threads in the whole cage, those that run included; more fail with EAGAIN.

        Raises UnsupportedError for a cage that is root outside, whose processes the kernel does not count.
        """
        _check_whole(most, 1, "max_processes", "")
        if restrict_pids(self._live, most):
            pass
        elif not self._plan.namespaces:
            raise UnsupportedError('isolation = "landlock": the kernel counts all processes of the user, not those of '
                                   "the cage", feature="rlimit_nproc", fix='use isolation = "full"')  # fmt: skip
        elif os.geteuid() == 0 and not self._live.user:
            raise UnsupportedError("this cage is root outside, and the kernel does not count the processes of root",
                                   feature="rlimit_nproc", fix="run as an ordinary user")  # fmt: skip
        else:
            _limit_tree(self._live, self._sink, most)
        self._tell("max_processes", most)

    def restrict_max_memory(self, megabytes: int) -> None:
        """At most so many MiB for the whole cage, from now on; a cage that holds more is ended (reason "oom")."""
        _check_whole(megabytes, SMALLEST_MEMORY_MB, "max_memory", " MiB")
        self._restrict_memory(megabytes)
        self._tell("max_memory", megabytes)

    def _require_network(self) -> None:
        if not self._rules.watches_network:
            raise _not_watched()

    def _tell(self, what: str, value: object) -> None:
        self._sink(Event(RESTRICTED.name, {"invocation_id": self._live.id, "what": what, "value": value}))


class _Binding:
    """Binds a process and its descendants to a list. Where some of the cage ran meanwhile it is done once more, and
    every process that began since is bound, too: it may be an orphan of theirs."""

    def __init__(self, rules: RulesInForce, pid: int, cut: Cutting, endpoints: tuple[Endpoint, ...]) -> None:
        self._rules, self._pid, self._cut, self._endpoints = rules, pid, cut, endpoints
        self._others: frozenset[int] | None = None  # what is none of theirs
        self._made: set[Mark] = set()

    def bind(self, pids: Sequence[int]) -> int:
        """Binds them and cuts their connections; returns how many. Raises PolicyError, UnsupportedError."""
        if self._others is None:
            if self._pid not in pids:
                raise PolicyError(f"process {self._pid} is not of this cage", key="pid", suggestion="use CallEvent.pid")
            self._others = frozenset(pids).difference([self._pid, *descendants(self._pid)])
        bound = [pid for pid in pids if pid not in self._others]
        unmarked = [pid for pid in bound if mark_of(pid) not in self._made]
        if unmarked:
            self._made |= self._rules.narrow_pids(unmarked, self._endpoints)
        return self._cut(bound)


def restrict_doors(live: CageInit, sink: Sink, addresses: Sequence[str]) -> int:
    """`restrict_network` for a cage whose network calls are not supervised: the gatekeeper alone decides what it
    reaches. Raises PolicyError, UnsupportedError."""
    endpoints = _parse(addresses)
    if not any(each.decides_network for each in live.services):
        raise _not_watched()
    cut = live.services.tighten(endpoints)
    sink(Event(RESTRICTED.name, {"invocation_id": live.id, "what": "network", "value": list(addresses)}))
    return cut


def _not_watched() -> UnsupportedError:
    return UnsupportedError(
        "the network calls of this cage are not decided at run time", feature="policy_fn",
        fix='make it with watch=("network", ...), or with network.allow_ips',
    )  # fmt: skip


def _check_whole(value: object, least: int, key: str, unit: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise PolicyError(f"must be a whole number, not {shown(value)}", key=key)
    if not least <= value <= MOST:
        raise PolicyError(f"must be at least {least}{unit} and at most {MOST}{unit}, not {shown(value)}", key=key)


def _parse(addresses: Sequence[str]) -> tuple[Endpoint, ...]:
    if isinstance(addresses, str):
        raise PolicyError("must be a list of addresses, not one string", key="restrict_network",
                          suggestion=f"write [{shown(addresses)}]")  # fmt: skip
    if not isinstance(addresses, list | tuple) or not all(isinstance(each, str) for each in addresses):
        raise PolicyError(f"must be a list of addresses, not {shown(addresses)}", key="restrict_network",
                          suggestion='write ["192.0.2.7:443/tcp"], or [] for none')  # fmt: skip
    try:
        return parse_list(addresses)
    except CommandRefused as refused:
        raise refused.error("restrict_network") from None


def _limit_tree(live: CageInit, sink: Sink, most: int) -> None:
    """Sets RLIMIT_NPROC of every process; the kernel counts them for the cage's own user namespace. cage-init comes
    first: a process that it starts meanwhile inherits the limit."""
    _limit(live.pid, most + 1)

    def limit_all(pids: Sequence[int]) -> int:
        for pid in pids:
            _limit(pid, most + 1)
        return len(pids)

    while_stopped(live, sink, limit_all)


def _limit(pid: int, most: int) -> None:
    with suppress(ProcessLookupError):
        hard = native.limit(pid, resource.RLIMIT_NPROC)
        if hard == resource.RLIM_INFINITY or hard > most:
            native.limit(pid, resource.RLIMIT_NPROC, most)
