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
from collections.abc import Coroutine, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address

from pysandbox.gate.dns.names import SYNTHETIC
from pysandbox.gate.dns.resolver import NotAsked, Withdrawn
from pysandbox.gate.rules import Decision, GateRules
from pysandbox.gate.tcp.stream import until_writable
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable, check_literal, check_resolved, deny, target_of
from pysandbox.policy.names import HOST_ALIAS, BadName, IPAddress, canonical
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox.gate.cage_session import CageSession
    from pysandbox.policy.parent import ParentProxy

NO_ADDRESS = "has no address"
NO_IPV4 = 'has no IPv4 address; where it has one of IPv6: dns.ipv6 = "resolve"'
CONNECT_SECONDS = 30.0  # for all the addresses of a name together
NEXT_ADDRESS_SECONDS = 0.25  # until the next address is tried beside the one that does not answer (RFC 8305)
ADDRESSES_TRIED = 8
HOST_LOOPBACK: tuple[IPAddress, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


async def dial(session: CageSession, target: DialTarget) -> socket.socket:
    """A connected, non-blocking socket; the caller closes it. Raises Denied, Unreachable."""
    try:
        target = target_of(session, target.host, target.port)
        host = canonical(target.host)
    except BadName as error:
        raise deny(session, target, Decision(False, f"not a host: {error}", "")) from None
    if not 0 < target.port < 65536:
        raise deny(session, target, Decision(False, "not a port", ""))
    rules = session.rules
    if isinstance(host, str) and rules.by_parent(host):
        connected = await _by_parent(session, target._replace(host=host), rules)
    else:
        addresses = await _addresses(session, target, host)
        connected = await _first_of(session, addresses, target, rules)
    try:
        if session.rules is not rules:  # they were tightened meanwhile
            session.connections.check(target, connected)
        session.ledger.allowed("tcp", *target)
    except OSError as error:
        connected.close()
        raise _unreachable(target, error) from None
    except BaseException:
        connected.close()
        raise
    return connected


async def _addresses(session: CageSession, target: DialTarget, host: str | IPAddress) -> Sequence[IPAddress]:
    """The addresses that may be connected. Raises Denied, Unreachable."""
    if not isinstance(host, str):
        decision = check_literal(session, host, target.port)
        if not decision.allowed or host in SYNTHETIC or host.is_unspecified:  # the kernel takes :: for ::1
            raise deny(session, target, decision)
        return (host,)
    decision = session.rules.name(host, target.port)
    if not decision.allowed:
        raise deny(session, target, decision)
    try:
        found = HOST_LOOPBACK if host == HOST_ALIAS else await _resolve(session, host)
    except Withdrawn:
        raise deny(session, target, session.rules.name(host, target.port)) from None
    except NotAsked as refused:
        raise deny(session, target._replace(host=refused.shown), refused.decision) from None
    if not found:
        raise Unreachable(errno.EHOSTUNREACH, f"{host} {NO_ADDRESS if session.net.ipv6 == 'resolve' else NO_IPV4}")
    decided = [(each, check_resolved(session, host, each, target.port)) for each in found]
    allowed = [each for each, decision in decided if decision.allowed]
    if not allowed:
        raise deny(session, target, decided[0][1])
    return allowed[:ADDRESSES_TRIED]


async def _resolve(session: CageSession, name: str) -> tuple[IPAddress, ...]:
    """The addresses of an allowed name, as the host sees it; none where there is no such name. Raises Unreachable,
    with the fault written down; Withdrawn."""
    found = (await session.lookup(name)).addresses
    return found or (await session.lookup(name, six=True)).addresses if session.net.ipv6 == "resolve" else found


# ---- through the parent proxy ---------------------------------------------------------------------------------------


async def _by_parent(session: CageSession, target: DialTarget, rules: GateRules) -> socket.socket:
    """A connection that the parent has made, to a name that nobody here resolves. Raises Denied, Unreachable, which is
    written down."""
    from pysandbox.gate.tcp.parent import open_tunnel

    parent = rules.parent
    assert parent is not None
    for decision in (rules.name(target.host, target.port), rules.through_parent()):
        if not decision.allowed:
            raise deny(session, target, decision)
    try:
        session.may_ask(target.host)
    except NotAsked as refused:
        raise deny(session, target._replace(host=refused.shown), refused.decision) from None
    connected = None
    try:
        connected = await _to_parent(session, parent, rules)
        await open_tunnel(connected, parent, target, partial(_send_to_parent, session, target, connected, rules))
        return connected
    except BaseException as error:
        if connected is not None:
            connected.close()
        if isinstance(error, Unreachable):
            session.ledger.unreachable(str(error.strerror))
        raise


async def _to_parent(session: CageSession, parent: ParentProxy, rules: GateRules) -> socket.socket:
    """Wherever it is: whoever wrote the policy has named it, and no cage. Raises Denied, Unreachable."""
    host = canonical(parent.host)
    try:
        if isinstance(host, str):
            found = (await session.upstream.resolve(host, share=session.questions)).addresses
            found = found or (await session.upstream.resolve(host, six=True, share=session.questions)).addresses
        else:
            found = (host,)
        if not found:
            raise Unreachable(errno.EHOSTUNREACH, "it has no address")
        return await _first_of(session, found[:ADDRESSES_TRIED], DialTarget(parent.host, parent.port), rules)
    except OSError as error:
        number = error.errno or errno.EHOSTUNREACH
        raise Unreachable(number, f"the parent proxy is not reached: {os.strerror(number)}") from None


def _send_to_parent(
    session: CageSession, target: DialTarget, connected: socket.socket, rules: GateRules, said: bytes
) -> None:  # fmt: skip
    """Sends the request, unless the rules were tightened meanwhile. Raises Denied, OSError."""
    with session.lock:
        if session.rules is rules:
            if connected.send(said) < len(said):
                raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
            return
    raise deny(session, target, session.rules.through_parent())


# ---- connecting -----------------------------------------------------------------------------------------------------


async def _first_of(
    session: CageSession, addresses: Sequence[IPAddress], target: DialTarget, rules: GateRules
) -> socket.socket:  # fmt: skip
    """Connects to the first address that answers. Each is tried a moment after the one before it, where the share of
    the cage has one more descriptor. Raises Denied, Unreachable."""
    connect = partial(_connect, session, target, rules)
    if len(addresses) == 1:
        return await _only(connect(addresses[0]), target)
    trying: set[asyncio.Task[socket.socket]] = set()
    failure: OSError = TimeoutError(errno.ETIMEDOUT, "nobody answered")
    waiting, extra = list(addresses), 0
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            while waiting or trying:
                if waiting and (not trying or session.descriptors.take()):
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
        session.descriptors.give(extra)
    raise _unreachable(target, failure)


async def _only(connecting: Coroutine[Any, Any, socket.socket], target: DialTarget) -> socket.socket:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await connecting
    except OSError as error:  # TimeoutError is one, without a number
        raise _unreachable(target, error if error.errno else TimeoutError(errno.ETIMEDOUT, "")) from None


def _unreachable(target: DialTarget, failure: OSError) -> Unreachable:
    number = failure.errno or errno.EHOSTUNREACH
    return Unreachable(number, f"{target.host}:{target.port}: {os.strerror(number)}")


async def _connect(session: CageSession, target: DialTarget, rules: GateRules, address: IPAddress) -> socket.socket:
    """Connects to one address; connect(2) may succeed at once, for a server on this host. Raises Denied, OSError."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = session.connections.connect(target, address, made, rules)
        if number == errno.EINPROGRESS:
            await until_writable(made)
            number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            raise OSError(number, os.strerror(number))
    except BaseException:
        session.connections.dialled(made)
        made.close()
        raise
    session.connections.dialled(made)
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
