"""Cages for asyncio: the same names as `cage`, awaitable, with no thread per process.

A running command is three descriptors to the event loop (report pipe, stdout, stderr) watched by `add_reader`. What
can take longer than a millisecond (compiling a new policy, opening a cold cage, closing) runs in the loop's executor
for as long as it takes; a warm start does not.

A task may be cancelled at every await, and again while it cleans up (anyio's scopes cancel each await of it). So what
ends a command is done before the first await (`_condemn`), and what was begun in the executor goes on without us
(`_surely`): a cancelled task leaves no command and no cage.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pysandbox.aio_streams import AsyncReader, AsyncWriter, settle
from pysandbox.cage import Cage
from pysandbox.command import Command, demand_seconds, input_bytes
from pysandbox.errors import CageTimeout
from pysandbox.exchange import Drain, Feed, _close_stdin, drains_of, keep
from pysandbox.files import READ_CAP, Files
from pysandbox.launch.stdio import PIPE, File
from pysandbox.process import Process, Result

if TYPE_CHECKING:
    from pysandbox.launch.stats import Stats
    from pysandbox.policy.model import Policy

T = TypeVar("T")
NO_LOOP = ("AsyncCage runs in an event loop of asyncio's, and none runs here; under trio, run a Cage in a thread "
           "(trio.to_thread.run_sync)")  # fmt: skip


class AsyncProcess:
    """A running command under asyncio; `process` is the plain Process, whose non-blocking methods may be used too.

    `stdin` is written as an asyncio.StreamWriter, `stdout` and `stderr` are read as an asyncio.StreamReader is.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self._readers: dict[str, AsyncReader] = {}
        self._writer: AsyncWriter | None = None
        self._report: asyncio.Future[None] | None = None  # whoever waits for the next one

    @property
    def argv(self) -> tuple[str, ...]:
        return self.process.argv

    @property
    def pid(self) -> int | None:
        return self.process.pid

    @property
    def stdin(self) -> AsyncWriter | None:
        fd = self.process._stdio.stdin
        if self._writer is None and fd >= 0:
            self._writer = AsyncWriter(fd, partial(_close_stdin, self.process))
        return self._writer

    @property
    def stdout(self) -> AsyncReader | None:
        return self._reader("stdout")

    @property
    def stderr(self) -> AsyncReader | None:
        return self._reader("stderr")

    def _reader(self, name: str) -> AsyncReader | None:
        fd = getattr(self.process._stdio, name)
        if name not in self._readers and fd >= 0:
            self._readers[name] = AsyncReader(fd)
        return self._readers.get(name)

    @property
    def pty_fd(self) -> int | None:
        return self.process.pty_fd

    async def _await_start(self) -> None:
        while self.process.pid is None and self.process._ended is None:
            await self._next_report()
            self.process._read_report()
        if self.process.pid is None:
            self.process._await_start()  # raises what became of it

    async def _next_report(self) -> None:
        """Returns when there is one; any number of tasks may wait."""
        loop = asyncio.get_running_loop()
        if self._report is None or self._report.done():
            self._report = loop.create_future()
            loop.add_reader(self.process.fileno(), self._reported)
        await asyncio.shield(self._report)

    def _reported(self) -> None:
        if self._report is not None:
            asyncio.get_running_loop().remove_reader(self.process.fileno())
            settle(self._report)

    async def wait(self, timeout: float | None = None) -> int:
        """The return code. Raises TimeoutError after `timeout` seconds; the command runs on."""
        with self.process._descriptors():
            async with asyncio.timeout(timeout):
                while self.process._ended is None:
                    await self._next_report()
                    self.process._read_report()
        return self.process._returncode()

    async def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        """As Process.communicate."""
        with self.process._descriptors():
            for name, reader in self._readers.items():
                self.process._captured[name] = self.process._captured.get(name, b"") + reader.rest()
            unwritten = self._writer.rest() if self._writer is not None else b""
            async with asyncio.timeout(timeout):
                await _exchange(self, unwritten + (input or b""))
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
        """Ends the command if it still runs and closes its descriptors. Idempotent. A task that is cancelled here, or
        was before, has ended it all the same."""
        self.process._condemn("cancelled")
        self._stop_watching()
        if self.process._ended is not None:
            self.process.close()
        else:
            await _surely(self.process.close)

    def _stop_watching(self) -> None:
        """No descriptor is watched that is going to be closed; whoever waits comes to see that."""
        if self.process.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.process.fileno())
        if self._writer is not None:
            self._writer.forget()

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
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(NO_LOOP) from None
        self.cage._decide = self.cage._decide._replace(loop=loop)

    async def open(self) -> Self:
        self._use_loop()
        try:
            await _surely(self.cage.open)
        except asyncio.CancelledError:
            _begin(self.cage.close)  # waits for the opening to be over
            raise
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await _surely(self.cage.close)

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
    def files(self) -> AsyncFiles:
        return AsyncFiles(self.cage.files)

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
        process = AsyncProcess(start() if self.cage._is_quick() else await _made(start))
        try:
            await process._await_start()
        except BaseException:  # cancelled: nobody else knows of the command
            await process.close()
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


class AsyncFiles:
    """`Files`, awaitable."""

    def __init__(self, files: Files) -> None:
        self.files = files

    async def read(self, path: str | os.PathLike[str], *, limit: int = READ_CAP) -> bytes:
        return await _in_executor(partial(self.files.read, path, limit=limit))

    async def write(self, path: str | os.PathLike[str], data: bytes | str, *, mode: int = 0o644) -> None:
        await _in_executor(partial(self.files.write, path, data, mode=mode))

    async def list(self, path: str | os.PathLike[str] = "/") -> list[str]:
        return await _in_executor(partial(self.files.list, path))

    async def exists(self, path: str | os.PathLike[str]) -> bool:
        return await _in_executor(partial(self.files.exists, path))


# ---- the executor, and tasks that are cancelled --------------------------------------------------------------------


def _begin(call: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, call)


async def _in_executor(call: Callable[[], T]) -> T:
    return await _begin(call)


async def _surely(call: Callable[[], T]) -> T:
    """It is done whatever becomes of the task: a future of the executor that is cancelled would not even begin."""
    return await asyncio.shield(_begin(call))


async def _made(start: Callable[[], Process]) -> Process:
    """A process that is started in the executor. If the task is cancelled meanwhile, it is ended there."""
    guard, given_up = threading.Lock(), threading.Event()

    def begin() -> Process | None:
        if given_up.is_set():
            return None
        process = start()
        with guard:
            if not given_up.is_set():
                return process
        process.close()
        return None

    begun = _begin(begin)
    try:
        process = await asyncio.shield(begun)
    except asyncio.CancelledError:
        with guard:
            given_up.set()
        begun.add_done_callback(_drop)  # it may have got through at this very moment
        raise
    assert process is not None  # since nobody gave up
    return process


def _drop(begun: asyncio.Future[Process | None]) -> None:
    process = None if begun.cancelled() or begun.exception() is not None else begun.result()
    if process is not None:
        process._condemn("cancelled")
        _begin(process.close)


async def _exchange(talk: AsyncProcess, data: bytes | None) -> None:
    """`exchange.exchange` for the event loop: the same drains and feed, driven by readers and a writer."""
    loop = asyncio.get_running_loop()
    process = talk.process
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
            await talk._next_report()
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
