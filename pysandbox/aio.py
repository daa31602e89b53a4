"""Cages for asyncio: the same names as `cage`, awaitable, with no thread per process.

A running command is three descriptors to the event loop (report pipe, stdout, stderr) watched by `add_reader`. What
can take longer than a millisecond (compiling a new policy, opening a cold cage, closing) runs in the loop's executor
for as long as it takes; a warm start does not.

A task may be cancelled at every await, and again while it cleans up (anyio's scopes cancel each await of it). So what
ends a command is done before the first await (`Process.condemn`), and what was begun in the executor goes on without us
(`_surely`): a cancelled task leaves no command and no cage.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pysandbox.aio_exchange import exchange
from pysandbox.aio_files import AsyncFiles, in_background, in_executor
from pysandbox.cage import Cage
from pysandbox.command import Command, check_seconds, coding_of, input_bytes, run_files
from pysandbox.errors import CageTimeout
from pysandbox.launch.stdio import PIPE, File
from pysandbox.misplaced import misplaced
from pysandbox.process import Process
from pysandbox.result import Output, Result
from pysandbox.shapes import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, overload
from pysandbox.streams.aio_streams import AsyncReader, AsyncWriter, set_ready
from pysandbox.streams.line_listener import LineFunction, check_listeners

if TYPE_CHECKING:
    from typing import Unpack

    from pysandbox.keywords import CageOptions, RunOptions, SpawnOptions
    from pysandbox.live.stats import Stats
    from pysandbox.policy.model import Policy
    from pysandbox.stages import Pipeline, Stage
    from pysandbox.workspace.workspace import Workspace

    Argv = str | Sequence[str | os.PathLike[str]]

T = TypeVar("T")
NO_LOOP = ("AsyncCage runs in an event loop of asyncio's, and none runs here; under trio, run a Cage in a thread "
           "(trio.to_thread.run_sync)")  # fmt: skip


class AsyncProcess(Generic[Output]):
    """A running command under asyncio; `process` is the plain Process, whose non-blocking methods may be used too.

    `stdin` is written as an asyncio.StreamWriter, `stdout` and `stderr` are read as an asyncio.StreamReader is.
    """

    def __init__(self, process: Process[Output]) -> None:
        self.process: Process[Output] = process
        self._readers: dict[str, AsyncReader[Output]] = {}
        self._writer: AsyncWriter[Output] | None = None
        self._report: asyncio.Future[None] | None = None  # whoever waits for the next one

    @property
    def argv(self) -> tuple[str, ...]:
        return self.process.argv

    @property
    def args(self) -> list[str]:
        return self.process.args

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        """The return code (-n for signal n), None while it runs. Never blocks."""
        return self.process.poll()

    def poll(self) -> int | None:
        """As `returncode`."""
        return self.process.poll()

    @property
    def stdin(self) -> AsyncWriter[Output] | None:
        streams = self.process.state.streams
        if self._writer is None and streams.stdio.stdin >= 0:
            self._writer = AsyncWriter(streams.stdio.stdin, streams.close_stdin, streams.coding)
        return self._writer

    @property
    def stdout(self) -> AsyncReader[Output] | None:
        return self._reader("stdout", self.process.state.streams.stdio.stdout)

    @property
    def stderr(self) -> AsyncReader[Output] | None:
        return self._reader("stderr", self.process.state.streams.stdio.stderr)

    def _reader(self, name: str, fd: int) -> AsyncReader[Output] | None:
        if name not in self._readers and fd >= 0:
            streams = self.process.state.streams
            reader: AsyncReader[Output] = AsyncReader(fd, streams.coding)
            self._readers[name], streams.unread[name] = reader, reader.unread
        return self._readers.get(name)

    @property
    def pty_fd(self) -> int | None:
        return self.process.pty_fd

    async def await_start(self) -> None:
        """As Process.await_start."""
        state = self.process.state
        while state.pid is None and state.ended is None:
            await self.next_report()
            state.read_report()
        self.process.await_start()  # raises what became of it

    async def next_report(self) -> None:
        """Returns when cage-init has reported something; any number of tasks may wait."""
        loop = asyncio.get_running_loop()
        if self._report is None or self._report.done():
            self._report = loop.create_future()
            loop.add_reader(self.process.fileno(), self._reported)
        await asyncio.shield(self._report)

    def _reported(self) -> None:
        if self._report is not None:
            asyncio.get_running_loop().remove_reader(self.process.fileno())
            set_ready(self._report)

    async def wait(self, timeout: float | None = None) -> int:
        """The return code. Raises TimeoutError after `timeout` seconds; the command runs on."""
        state = self.process.state
        with self.process.in_use:
            async with asyncio.timeout(timeout):
                while state.ended is None:
                    await self.next_report()
                    state.read_report()
        return state.returncode

    async def communicate(
        self, input: Output | None = None, timeout: float | None = None
    ) -> tuple[Output, Output]:  # fmt: skip
        """As Process.communicate."""
        await self.exchange(self.process.state.streams.input(input), timeout)
        return self.process.state.streams.outputs()

    async def exchange(self, data: bytes | None = None, timeout: float | None = None) -> None:
        """As Process.exchange."""
        with self.process.in_use:
            unwritten = self._writer.rest() if self._writer is not None else b""
            async with asyncio.timeout(timeout):
                await exchange(self, self.process.state, unwritten + (data or b""))
        self.process.state.raise_failure()

    async def result(self) -> Result[Output]:
        await self.wait()
        return self.process.state.result()

    def signal(self, number: int, *, tree: bool = False) -> None:
        self.process.signal(number, tree=tree)

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()

    async def close(self) -> None:
        """Ends the command if it still runs and closes its descriptors. Idempotent. A task that is cancelled here, or
        was before, has ended it all the same."""
        self.process.condemn("cancelled")
        self._stop_watching()
        if self.process.state.ended is not None:
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

    def __init__(self, policy: Policy | str | None = None, **options: Unpack[CageOptions]) -> None:
        self.cage: Cage = Cage(policy, **options)

    def _use_loop(self) -> None:
        """The cage may have been made before the loop ran."""
        try:
            self.cage.use_loop(asyncio.get_running_loop())
        except RuntimeError:
            raise RuntimeError(NO_LOOP) from None

    async def open(self) -> Self:
        self._use_loop()
        try:
            await _surely(self.cage.open)
        except asyncio.CancelledError:
            in_background(self.cage.close)  # waits for the opening to be over
            raise
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, raised: object = None, *_: object) -> None:
        await _surely(lambda: self.cage.leave(raised))

    async def close(self) -> None:
        await _surely(self.cage.close)

    async def pause(self) -> None:
        await in_executor(self.cage.pause)

    async def resume(self) -> None:
        await in_executor(self.cage.resume)

    async def stats(self) -> Stats:
        return await in_executor(self.cage.stats)

    async def restrict_network(self, addresses: Sequence[str]) -> int:
        return await in_executor(lambda: self.cage.restrict_network(addresses))

    async def revoke_secret(self, name: str) -> None:
        await in_executor(lambda: self.cage.revoke_secret(name))

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
    def workspace(self) -> Workspace:
        """As of `Cage`; what it does is done at once."""
        return self.cage.workspace

    @property
    def files(self) -> AsyncFiles:
        return AsyncFiles(self.cage.files)

    def cmd(
        self,
        argv: Argv,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        inputs: Mapping[str, Stage | Pipeline] | None = None,
    ) -> Stage:
        """As Cage.cmd: `await (a.cmd([...]) | b.cmd([...])).aio()`."""
        return self.cage.cmd(argv, shell=shell, env=env, cwd=cwd, inputs=inputs)

    @overload
    async def spawn(self, argv: Argv, *, text: Literal[False] | None = None, encoding: None = None, errors: None = None,
        **options: Unpack[SpawnOptions]) -> AsyncProcess[bytes]: ...  # fmt: skip
    @overload
    async def spawn(self, argv: Argv, *, text: Literal[True], encoding: str | None = None, errors: str | None = None,
        **options: Unpack[SpawnOptions]) -> AsyncProcess[str]: ...  # fmt: skip
    @overload
    async def spawn(self, argv: Argv, *, text: Literal[True] | None = None, encoding: str, errors: str | None = None,
        **options: Unpack[SpawnOptions]) -> AsyncProcess[str]: ...  # fmt: skip
    @overload
    async def spawn(self, argv: Argv, *, text: Literal[True] | None = None, encoding: None = None, errors: str,
        **options: Unpack[SpawnOptions]) -> AsyncProcess[str]: ...  # fmt: skip
    @overload
    async def spawn(self, argv: Argv, *,
        text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[SpawnOptions]) -> AsyncProcess[Any]: ...  # fmt: skip
    async def spawn(
        self, argv: Argv, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        shell: bool = False, stdin: File = None, stdout: File = None, stderr: File = None,
        pty: bool | tuple[int, int] = False, env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None, pass_fds: Sequence[int] = (), **unknown: object,
    ) -> AsyncProcess[Any]:  # fmt: skip
        """As Cage.spawn."""
        if unknown:
            raise misplaced("spawn", unknown)
        coding = coding_of(text, encoding, errors, default=False)
        command = Command.of(argv, env, cwd, shell=shell)
        self._use_loop()
        start = partial(
            self.cage.start, command, (stdin, stdout, stderr), pty=pty, pass_fds=pass_fds, coding=coding
        )  # fmt: skip
        return await self._started(command, start)

    async def _started(self, command: Command, start: Callable[[], Process[Any]]) -> AsyncProcess[Any]:
        process = AsyncProcess(start() if self.cage.is_quick(command) else await _made(start))
        try:
            await process.await_start()
        except BaseException:  # cancelled: nobody else knows of the command
            await process.close()
            raise
        return process

    @overload
    async def run(self, argv: Argv, *,
        text: Literal[True] | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[RunOptions]) -> Result[str]: ...  # fmt: skip
    @overload
    async def run(self, argv: Argv, *, text: Literal[False], encoding: None = None, errors: None = None,
        **options: Unpack[RunOptions]) -> Result[bytes]: ...  # fmt: skip
    @overload
    async def run(self, argv: Argv, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[RunOptions]) -> Result[Any]: ...  # fmt: skip
    async def run(
        self, argv: Argv, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        shell: bool = False, input: str | bytes | None = None, timeout: float | None = None, check: bool = False,
        capture_output: bool = True, stdin: File = None, stdout: File = PIPE, stderr: File = PIPE,
        env: Mapping[str, str] | None = None, cwd: str | os.PathLike[str] | None = None, pass_fds: Sequence[int] = (),
        on_stdout: LineFunction | None = None, on_stderr: LineFunction | None = None, **unknown: object,
    ) -> Result[Any]:  # fmt: skip
        """As Cage.run; `on_stdout` and `on_stderr` may be async. A cancelled task kills the command and everything it
        started."""
        if unknown:
            raise misplaced("run", unknown)
        coding = coding_of(text, encoding, errors, default=True)
        data = input_bytes(input, coding)
        check_seconds("timeout", timeout)
        listeners = {"stdout": on_stdout, "stderr": on_stderr}
        files = run_files(data, capture_output, stdin, stdout, stderr, listeners)
        check_listeners(listeners, files, waited_for=True)
        command = Command.of(argv, env, cwd, shell=shell)
        self._use_loop()
        began = time.monotonic()
        start = partial(self.cage.start, command, files, pass_fds=pass_fds, coding=coding)
        async with await self._started(command, start) as process:
            process.process.listen(listeners)
            try:
                left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
                await process.exchange(data, left)
            except TimeoutError:
                await in_executor(partial(process.process.stop, "timeout"))
                await process.exchange()
                raise CageTimeout(process.argv, timeout or 0.0, process.process.state.result()) from None
            result = process.process.state.result()
        return result.check() if check else result


# ---- the executor, and tasks that are cancelled --------------------------------------------------------------------


async def _surely(call: Callable[[], T]) -> T:
    """Calls it, whatever becomes of the task: a future of the executor that is cancelled would not even begin."""
    return await asyncio.shield(in_background(call))


async def _made(start: Callable[[], Process[Any]]) -> Process[Any]:
    """A process that is started in the executor. If the task is cancelled meanwhile, it is ended there."""
    guard, given_up = threading.Lock(), threading.Event()

    def begin() -> Process[Any] | None:
        if given_up.is_set():
            return None
        process = start()
        with guard:
            if not given_up.is_set():
                return process
        process.close()
        return None

    begun = in_background(begin)
    try:
        process = await asyncio.shield(begun)
    except asyncio.CancelledError:
        with guard:
            given_up.set()
        begun.add_done_callback(_drop)  # it may have got through at this very moment
        raise
    assert process is not None  # since nobody gave up
    return process


def _drop(begun: asyncio.Future[Process[Any] | None]) -> None:
    process = None if begun.cancelled() or begun.exception() is not None else begun.result()
    if process is not None:
        process.condemn("cancelled")
        in_background(process.close)
