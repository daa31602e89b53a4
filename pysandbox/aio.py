"""Cages for asyncio: the same names as `cage`, awaitable, with no thread per process.

A running command is three descriptors to the event loop (report pipe, stdout, stderr) watched by `add_reader`. What
can take longer than a millisecond (compiling a new policy, opening a cold cage, closing) runs in the loop's executor
for as long as it takes; a warm start does not.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from pysandbox.cage import Cage
from pysandbox.command import Command, demand_seconds, input_bytes
from pysandbox.errors import CageTimeout
from pysandbox.exchange import Drain, Feed, _close_stdin, drains_of, keep
from pysandbox.launch.stdio import PIPE, File
from pysandbox.process import Process, Result

if TYPE_CHECKING:
    from pysandbox.files import Files
    from pysandbox.launch.stats import Stats
    from pysandbox.policy.model import Policy

T = TypeVar("T")


class AsyncProcess:
    """A running command under asyncio; `process` is the plain Process, whose non-blocking methods may be used too."""

    def __init__(self, process: Process) -> None:
        self.process = process

    @property
    def argv(self) -> tuple[str, ...]:
        return self.process.argv

    @property
    def pid(self) -> int | None:
        return self.process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        return self.process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        return self.process.stderr

    @property
    def pty_fd(self) -> int | None:
        return self.process.pty_fd

    async def _await_start(self) -> None:
        while self.process.pid is None and self.process._ended is None:
            await _readable(self.process.fileno())
            self.process._read_report()
        if self.process.pid is None:
            self.process._await_start()  # raises what became of it

    async def wait(self, timeout: float | None = None) -> int:
        """The return code. Raises TimeoutError after `timeout` seconds; the command runs on."""
        with self.process._descriptors():
            async with asyncio.timeout(timeout):
                while self.process._ended is None:
                    await _readable(self.process.fileno())
                    self.process._read_report()
        return self.process._returncode()

    async def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """As Process.communicate."""
        with self.process._descriptors():
            async with asyncio.timeout(timeout):
                await _exchange(self.process, input)
        self.process._raise_failure()
        captured = self.process._captured
        return captured.get("stdout", b""), captured.get("stderr", b"")

    async def result(self) -> Result:
        await self.wait()
        return self.process._result()

    def signal(self, number: int, *, tree: bool = False) -> None:
        self.process.signal(number, tree=tree)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    async def close(self) -> None:
        """Ends the command if it still runs and closes its descriptors. Idempotent."""
        await _in_executor(self.process.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncCage:
    """A Cage under asyncio; see `Cage` for every argument. An async `policy_fn` runs in the loop that uses the cage, a
    plain one in a thread of its own."""

    def __init__(self, policy: Policy | None = None, **options: Any) -> None:
        self.cage = Cage(policy, **options)

    def _use_loop(self) -> None:
        """The cage may have been made before the loop ran."""
        self.cage._decide = self.cage._decide._replace(loop=asyncio.get_running_loop())

    async def open(self) -> Self:
        self._use_loop()
        await _in_executor(self.cage.open)
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await _in_executor(self.cage.close)

    async def pause(self) -> None:
        await _in_executor(self.cage.pause)

    async def resume(self) -> None:
        await _in_executor(self.cage.resume)

    async def stats(self) -> Stats:
        return await _in_executor(self.cage.stats)

    async def restrict_network(self, addresses: Sequence[str]) -> int:
        return await _in_executor(lambda: self.cage.restrict_network(addresses))

    @property
    def id(self) -> str | None:
        return self.cage.id

    @property
    def init_pid(self) -> int | None:
        return self.cage.init_pid

    @property
    def caged(self) -> bool:
        return self.cage.caged

    @property
    def files(self) -> Files:
        return self.cage.files

    async def spawn(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: File = None,
        stdout: File = None,
        stderr: File = None,
        pty: bool | tuple[int, int] = False,
        pass_fds: Sequence[int] = (),
        **options: Any,
    ) -> AsyncProcess:
        """As Cage.spawn."""
        command = Command.of(argv, options.pop("env", None), options.pop("cwd", None))
        if options:
            raise TypeError(f"spawn() got an unexpected keyword argument {next(iter(options))!r}")
        self._use_loop()
        start = partial(self.cage._start, command, (stdin, stdout, stderr), pty=pty, pass_fds=pass_fds)
        process = AsyncProcess(start() if self.cage._is_quick() else await _in_executor(start))
        try:
            await process._await_start()
        except BaseException:  # cancelled: nobody else knows of the command
            await _in_executor(process.process.close)
            raise
        return process

    async def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        input: str | bytes | None = None,
        timeout: float | None = None,
        text: bool = True,
        check: bool = False,
        stdin: File = None,
        stdout: File = PIPE,
        stderr: File = PIPE,
        **options: Any,
    ) -> Result:
        """As Cage.run. A cancelled task kills the command and everything it started."""
        data = input_bytes(input)
        demand_seconds("timeout", timeout)
        stdin = PIPE if data is not None else stdin
        began = time.monotonic()
        async with await self.spawn(argv, stdin=stdin, stdout=stdout, stderr=stderr, **options) as process:
            try:
                left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
                await process.communicate(data, left)
            except TimeoutError:
                await _in_executor(partial(process.process.stop, "timeout"))
                await process.communicate()
                partial_result = process.process._result(text)
                raise CageTimeout(process.argv, timeout or 0.0, partial_result) from None
            result = process.process._result(text)
        return result.check() if check else result


async def _in_executor(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, call)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def _exchange(process: Process, data: bytes | None) -> None:
    """`exchange.exchange` for the event loop: the same drains and feed, driven by readers and a writer."""
    loop = asyncio.get_running_loop()
    stdio, drains = process._stdio, drains_of(process)
    for drain in drains.values():
        os.set_blocking(drain.fd, False)
        loop.add_reader(drain.fd, _read_some, loop, drain)
    feed_fd = stdio.stdin
    if feed_fd >= 0 and data:
        os.set_blocking(feed_fd, False)
        loop.add_writer(feed_fd, _write_some, loop, process, Feed(feed_fd, data))
    elif feed_fd >= 0:
        _close_stdin(process)
    try:
        while process._ended is None:
            await _readable(process.fileno())
            process._read_report()
    finally:
        if stdio.stdin >= 0:
            loop.remove_writer(stdio.stdin)
        for drain in drains.values():
            loop.remove_reader(drain.fd)
        keep(process, drains)


def _read_some(loop: asyncio.AbstractEventLoop, drain: Drain) -> None:
    if not drain.read() and not drain.open:
        loop.remove_reader(drain.fd)


def _write_some(loop: asyncio.AbstractEventLoop, process: Process, feed: Feed) -> None:
    if not feed.write():
        loop.remove_writer(feed.fd)
        _close_stdin(process)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
