"""From what a cage asked for to a connected socket: decide, resolve, check the address, connect to that very address.

Every entrance dials here and nowhere else, so that the string that was matched is the one that is resolved, and the
address that was checked the one that is connected (T05): there is no second lookup. The decision is written down here;
what an entrance refuses by itself (a wrong SNI, a wrong Host) it writes down itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import Coroutine, Sequence
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any, NamedTuple

from pysandbox._native import lib
from pysandbox.gate.names import SYNTHETIC
from pysandbox.gate.rules import Decision, Rules, sixteen
from pysandbox.gate.stream import until_writable
from pysandbox.gate.upstream import Withdrawn
from pysandbox.policy.names import HOST_ALIAS, BadName, IPAddress, canonical

if TYPE_CHECKING:
    from pysandbox.gate.admission import Admission

CONNECT_SECONDS = 30.0  # for all the addresses of a name together
NEXT_ADDRESS_SECONDS = 0.25  # until the next address is tried beside the one that does not answer (RFC 8305)
ADDRESSES_TRIED = 8
HOST_LOOPBACK: tuple[IPAddress, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


class Target(NamedTuple):
    """`host` is a canonical name, or an address as `str` writes it."""

    host: str
    port: int


class Denied(Exception):
    """A rule refuses it; written down already."""

    def __init__(self, target: Target, decision: Decision) -> None:
        super().__init__(f"{target.host}:{target.port} is refused by {decision.rule}")
        self.target, self.decision = target, decision


class Unreachable(OSError):
    """It is allowed and cannot be had: `errno` says why."""


def target_of(admission: Admission, host: str | bytes | IPAddress, port: int) -> Target:
    """What a cage means by a host: a synthetic address is the name that it stands for. Raises BadName."""
    known = canonical(host) if isinstance(host, str | bytes) else host
    name = admission.names.name_of(known)
    return Target(name if name is not None else str(known), port)


async def dial(admission: Admission, target: Target) -> socket.socket:
    """A connected socket, non-blocking, the caller's to close. Raises Denied, Unreachable."""
    try:
        target = target_of(admission, target.host, target.port)
        host = canonical(target.host)
    except BadName as error:
        raise denied(admission, target, Decision(False, f"not a host: {error}", "")) from None
    if not 0 < target.port < 65536:
        raise denied(admission, target, Decision(False, "not a port", ""))
    rules = admission.rules
    addresses = await _addresses(admission, target, host)
    connected = await _first_of(admission, addresses, target, rules)
    try:
        if admission.rules is not rules:  # they were tightened meanwhile
            admission.demand(target, connected)
        admission.ledger.allowed("tcp", *target)
    except OSError as error:
        connected.close()
        raise _unreachable(target, error) from None
    except BaseException:
        connected.close()
        raise
    return connected


async def _addresses(admission: Admission, target: Target, host: str | IPAddress) -> Sequence[IPAddress]:
    """The addresses that may be connected. Raises Denied, Unreachable."""
    if not isinstance(host, str):
        decision = asked(admission, host, target.port)
        if not decision.allowed or host in SYNTHETIC or host.is_unspecified:  # the kernel takes :: for ::1
            raise denied(admission, target, decision)
        return (host,)
    decision = admission.rules.name(host, target.port)
    if not decision.allowed:
        raise denied(admission, target, decision)
    try:
        found = HOST_LOOPBACK if host == HOST_ALIAS else await admission.resolve(host)
    except Withdrawn:
        raise denied(admission, target, admission.rules.name(host, target.port)) from None
    if not found:
        raise Unreachable(errno.EHOSTUNREACH, f"{host} has no address")
    decided = [(each, reached(admission, host, each, target.port)) for each in found]
    allowed = [each for each, decision in decided if decision.allowed]
    if not allowed:
        raise denied(admission, target, decided[0][1])
    return allowed[:ADDRESSES_TRIED]


def reached(admission: Admission, host: str, address: IPAddress, port: int) -> Decision:
    """A public address may still be this host's own, whose services are no more the cage's than those at 127.0.0.1."""
    decision = admission.rules.reached(host, address, port)
    return asked(admission, address, port) if decision.allowed and host != HOST_ALIAS and is_own(address) else decision


def asked(admission: Admission, address: IPAddress, port: int, protocol: str = "tcp") -> Decision:
    """Of an address that was asked for as such."""
    rules = admission.rules
    return rules.own(address, port, protocol) if is_own(address) else rules.address(address, port, protocol)


def is_own(address: IPAddress) -> bool:
    """Whether the kernel would deliver here what is sent there, or to no single host. Asked again every second."""
    return _is_own(sixteen(address), int(time.monotonic()))


@lru_cache(maxsize=1024)
def _is_own(packed: bytes, second: int) -> bool:
    return bool(lib.psb_is_own(packed))  # also where it cannot be told


def denied(admission: Admission, target: Target, decision: Decision, protocol: str = "tcp") -> Denied:
    """To be raised; the refusal is written down here."""
    admission.ledger.denied(protocol, *target, decision)
    return Denied(target, decision)


# ---- connecting -----------------------------------------------------------------------------------------------------


async def _first_of(
    admission: Admission, addresses: Sequence[IPAddress], target: Target, rules: Rules
) -> socket.socket:  # fmt: skip
    """The first address that answers, each tried a moment after the one before it, where the cage may have one more
    descriptor of the host's. Raises Denied, Unreachable."""
    connect = partial(_connect, admission, target, rules)
    if len(addresses) == 1:
        return await _only(connect(addresses[0]), target)
    trying: set[asyncio.Task[socket.socket]] = set()
    failure: OSError = TimeoutError(errno.ETIMEDOUT, "nobody answered")
    waiting, extra = list(addresses), 0
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            while waiting or trying:
                if waiting and (not trying or admission.descriptors.take()):
                    extra += 1 if trying else 0
                    trying.add(asyncio.create_task(connect(waiting.pop(0))))
                pause = NEXT_ADDRESS_SECONDS if waiting else None
                done, _ = await asyncio.wait(trying, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if isinstance(error := task.exception(), Denied):
                        raise error
                    if error is None:
                        trying.discard(task)
                        _close_others(done - {task})
                        trying -= done
                        return task.result()
                    trying.discard(task)
                    failure = _os_error(error)
    except TimeoutError:
        pass
    finally:
        await _give_up(trying)
        admission.descriptors.give(extra)
    raise _unreachable(target, failure)


async def _only(connecting: Coroutine[Any, Any, socket.socket], target: Target) -> socket.socket:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await connecting
    except OSError as error:  # TimeoutError is one, without a number
        raise _unreachable(target, error if error.errno else TimeoutError(errno.ETIMEDOUT, "")) from None


def _unreachable(target: Target, failure: OSError) -> Unreachable:
    number = failure.errno or errno.EHOSTUNREACH
    return Unreachable(number, f"{target.host}:{target.port}: {os.strerror(number)}")


async def _connect(admission: Admission, target: Target, rules: Rules, address: IPAddress) -> socket.socket:
    """Raises Denied, OSError. A server next door has answered by the time that the call returns."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = admission.connect(target, address, made, rules)
        if number == errno.EINPROGRESS:
            await until_writable(made)
            number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))
    except BaseException:
        admission.dialled(made)
        made.close()
        raise
    admission.dialled(made)
    return made


def _close_others(tasks: set[asyncio.Task[socket.socket]]) -> None:
    for task in tasks:
        if not task.cancelled() and task.exception() is None:
            task.result().close()


async def _give_up(trying: set[asyncio.Task[socket.socket]]) -> None:
    for task in trying:
        task.cancel()
    if trying:
        await asyncio.wait(trying)
        _close_others(trying)


def _os_error(error: BaseException | None) -> OSError:
    return error if isinstance(error, OSError) else OSError(errno.EIO, str(error))
