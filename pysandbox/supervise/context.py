"""Tightening a cage while it runs. Every method narrows what is in force, at once and for good; none widens.

A Context is what a callback gets as `ctx`, and what `Cage.context` gives the host. Any thread may call it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.events import RESTRICTED, Event, Sink
from pysandbox.launch import native
from pysandbox.launch.restrict import restrict_pids
from pysandbox.policy.endpoint import SYNTHETIC, TCP, Endpoint, parse_list
from pysandbox.policy.refusal import Refused, shown
from pysandbox.supervise.closing import close_path
from pysandbox.supervise.cut import cut_connections
from pysandbox.supervise.marks import Mark, mark_of
from pysandbox.supervise.stopped import while_stopped
from pysandbox.supervise.tasks import below

if TYPE_CHECKING:
    from pysandbox.launch.live import LiveInit
    from pysandbox.supervise.supervision import Supervision

DOORS = SYNTHETIC._replace(protocols=TCP)  # the addresses of doors, and those that stand for names
SMALLEST_MEMORY_MB = 16  # as resources.memory_mb
MOST = 2**31 - 1  # of any count; in MiB it fits the kernel's 64 bits


class Context:
    """The live policy of one cage."""

    def __init__(self, supervision: Supervision) -> None:
        self._supervision = supervision

    def restrict_network(self, addresses: Sequence[str]) -> int:
        """Only these addresses, as in `network.allow_ips`, out of what was allowed before; [] cuts everything.

        Connections that may no longer be are shut down; returns how many. Raises PolicyError for what is no address,
        UnsupportedError where the cage's network calls are not watched.
        """
        endpoints = _parse(addresses)
        live = self._supervision.live
        if not self._supervision.watches_network:
            return restrict_doors(live, self._supervision.sink, addresses)
        narrowed = self._supervision.narrow(endpoints)
        relayed = _tighten(live, endpoints)
        self._tell("network", list(addresses))
        # What leads to a door is the gatekeeper's to cut, which knows where it goes on to.
        kept = (*narrowed, DOORS) if endpoints and live.admission is not None else narrowed
        return relayed + while_stopped(live, self._supervision.sink, lambda pids: cut_connections(pids, kept))

    def restrict_pid_network(self, pid: int, addresses: Sequence[str]) -> int:
        """The same for one process (as the host numbers it, `CallEvent.pid`), those below it, and all that any of them
        ever starts. An orphan that has left it before is not of them."""
        endpoints = _parse(addresses)
        self._demand_network()
        binding = _Binding(self._supervision, pid, endpoints)
        cut = while_stopped(self._supervision.live, self._supervision.sink, binding.bind)
        self._tell("pid_network", [pid, *addresses])
        return cut

    def deny_path(self, path: str | os.PathLike[str]) -> None:
        """Closes a file or a directory for the whole cage, by a mount over it in the cage's own mount namespace.

        What is open already stays open, as after a chmod. `path` is absolute, as a command in the cage would name it.
        Raises TypeError, ValueError (it is no absolute path), PolicyError (it is the root, or of a process in /proc),
        FileNotFoundError (there is no such path), UnsupportedError (isolation = "landlock": there is no mount
        namespace), OSError.
        """
        supervision = self._supervision
        if not supervision.plan.namespaces:
            raise UnsupportedError(
                f'isolation = "landlock": {os.fspath(path)} cannot be closed, for Landlock takes no right away from a '
                "process that runs", feature="mount_namespace", fix='use isolation = "full", or deny it from the start',
            )  # fmt: skip
        self._tell("path", close_path(supervision.live, path))

    def restrict_max_processes(self, most: int) -> None:
        """At most so many processes and threads in the whole cage, those that run included; more fail with EAGAIN.

        Raises UnsupportedError for a cage that is root outside, whose processes the kernel does not count.
        """
        _demand_whole(most, 1, "max_processes", "")
        live = self._supervision.live
        if restrict_pids(live, most):
            pass
        elif not self._supervision.plan.namespaces:
            raise UnsupportedError('isolation = "landlock": the kernel counts all processes of the user, not those of '
                                   "the cage", feature="rlimit_nproc", fix='use isolation = "full"')  # fmt: skip
        elif os.geteuid() == 0 and not live.user:
            raise UnsupportedError("this cage is root outside, and the kernel does not count the processes of root",
                                   feature="rlimit_nproc", fix="run as an ordinary user")  # fmt: skip
        else:
            _limit_tree(live.pid, self._supervision, most)
        self._tell("max_processes", most)

    def restrict_max_memory(self, megabytes: int) -> None:
        """At most so many MiB for the whole cage, from now on; a cage that holds more is ended (reason "oom")."""
        _demand_whole(megabytes, SMALLEST_MEMORY_MB, "max_memory", " MiB")
        self._supervision.restrict_memory(megabytes)
        self._tell("max_memory", megabytes)

    def _demand_network(self) -> None:
        if not self._supervision.watches_network:
            raise _not_watched()

    def _tell(self, what: str, value: object) -> None:
        supervision = self._supervision
        supervision.sink(Event(RESTRICTED.name, {"invocation_id": supervision.live.id, "what": what, "value": value}))


class _Binding:
    """Binds a process and those below it to a list. Where some of the cage ran meanwhile it is done once more, and what
    has begun since counts as theirs: it may be a child that its parent has left."""

    def __init__(self, supervision: Supervision, pid: int, endpoints: tuple[Endpoint, ...]) -> None:
        self._supervision, self._pid, self._endpoints = supervision, pid, endpoints
        self._others: frozenset[int] | None = None  # what is none of theirs
        self._made: set[Mark] = set()

    def bind(self, pids: Sequence[int]) -> int:
        """How many connections were cut. Raises PolicyError."""
        if self._others is None:
            if self._pid not in pids:
                raise PolicyError(f"process {self._pid} is not of this cage", key="pid", suggestion="use CallEvent.pid")
            self._others = frozenset(pids).difference([self._pid, *below(self._pid)])
        bound = [pid for pid in pids if pid not in self._others]
        unmarked = [pid for pid in bound if mark_of(pid) not in self._made]
        if unmarked:
            self._made |= self._supervision.narrow_pids(unmarked, self._endpoints)
        return cut_connections(bound, self._endpoints)


def restrict_doors(live: LiveInit, sink: Sink, addresses: Sequence[str]) -> int:
    """`restrict_network` for a cage of which the gatekeeper alone decides what it reaches. Raises PolicyError,
    UnsupportedError."""
    endpoints = _parse(addresses)
    if live.admission is None:
        raise _not_watched()
    relayed = _tighten(live, endpoints)
    sink(Event(RESTRICTED.name, {"invocation_id": live.id, "what": "network", "value": list(addresses)}))
    return relayed


def _tighten(live: LiveInit, endpoints: tuple[Endpoint, ...]) -> int:
    return int(live.admission.tighten(endpoints)) if live.admission is not None else 0


def _not_watched() -> UnsupportedError:
    return UnsupportedError(
        "the network calls of this cage are not decided at run time", feature="policy_fn",
        fix='make it with watch=("network", ...), or with network.allow_ips',
    )  # fmt: skip


def _demand_whole(value: object, least: int, key: str, unit: str) -> None:
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
    except Refused as refused:
        raise refused.error("restrict_network") from None


def _limit_tree(init_pid: int, supervision: Supervision, most: int) -> None:
    """RLIMIT_NPROC of every process, counted by the kernel for the cage's own user namespace. Whatever is not stopped
    by then was forked by somebody who had the limit already, so cage-init comes first."""
    _limit(init_pid, most + 1)

    def limit_all(pids: Sequence[int]) -> int:
        for pid in pids:
            _limit(pid, most + 1)
        return len(pids)

    while_stopped(supervision.live, supervision.sink, limit_all)


def _limit(pid: int, most: int) -> None:
    with suppress(ProcessLookupError):
        hard = native.limit(pid, resource.RLIMIT_NPROC)
        if hard == resource.RLIM_INFINITY or hard > most:
            native.limit(pid, resource.RLIMIT_NPROC, most)
