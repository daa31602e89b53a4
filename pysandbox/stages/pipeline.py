"""What users write: `(a.cmd(["git", "log"]) | b.cmd(["curl", "-T-", url])).run(timeout=60)`.

A Stage is one command and the cage that is to run it; nothing of it has started. Stages are joined by `|`, or by name
(`inputs` of `Cage.cmd`), and can be used again, also twice in one pipeline: what has no state can form no circle.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from pysandbox.command import Command, check_seconds, coding_of, input_bytes
from pysandbox.launch.stdio import PIPE, File
from pysandbox.shapes import TYPE_CHECKING, Any, Literal, overload
from pysandbox.stages.order import Placed, StartsCommands, Streams

if TYPE_CHECKING:
    from typing import Unpack

    from pysandbox.keywords import PipelineOptions
    from pysandbox.stages.outcome import PipelineResult

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class _Joinable:
    """A pipeline, or a single stage, which is the shortest one."""

    stages: tuple[Stage, ...]

    def __or__(self, other: Stage | Pipeline) -> Pipeline:
        if not isinstance(other, _Joinable):
            return NotImplemented
        return Pipeline(self.stages + other.stages)

    @overload
    def run(self, *, text: Literal[True] | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[PipelineOptions]) -> PipelineResult[str]: ...  # fmt: skip
    @overload
    def run(self, *, text: Literal[False], encoding: None = None, errors: None = None,
        **options: Unpack[PipelineOptions]) -> PipelineResult[bytes]: ...  # fmt: skip
    @overload
    def run(self, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[PipelineOptions]) -> PipelineResult[Any]: ...  # fmt: skip
    def run(
        self, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        input: str | bytes | None = None, timeout: float | None = None, check: bool = False, grace: float = 2.0,
        stdin: File = None, stdout: File = PIPE, stderr: File = PIPE,
    ) -> PipelineResult[Any]:  # fmt: skip
        """Runs all stages to their end, as `Cage.run` runs one command: `input` or `stdin` is for the first, `stdout`
        of the last, `stderr` of each; by default both are captured.

        All cages are opened before the first command starts, and no command is left when this returns or raises. When
        one fails the others have `grace` seconds to end by themselves. After `timeout` seconds all are killed, and
        CageTimeout raised. Raises what `Cage.run` does, and ExitError with `check`.
        """
        from pysandbox.stages.joined import Joined
        from pysandbox.stages.waiting import exchange

        for stage in self.stages:
            stage.cage.require_answer()
        asked = _checked(text, encoding, errors, input, timeout, grace, (stdin, stdout, stderr))
        with Joined(*_placed(self.stages), asked.streams) as joined:
            joined.start()
            late = exchange(joined, asked.data, asked.deadline, grace)
            result = joined.result(late, timeout)
        return result.check() if check else result

    @overload
    async def aio(self, *, text: Literal[True] | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[PipelineOptions]) -> PipelineResult[str]: ...  # fmt: skip
    @overload
    async def aio(self, *, text: Literal[False], encoding: None = None, errors: None = None,
        **options: Unpack[PipelineOptions]) -> PipelineResult[bytes]: ...  # fmt: skip
    @overload
    async def aio(self, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        **options: Unpack[PipelineOptions]) -> PipelineResult[Any]: ...  # fmt: skip
    async def aio(
        self, *, text: bool | None = None, encoding: str | None = None, errors: str | None = None,
        input: str | bytes | None = None, timeout: float | None = None, check: bool = False, grace: float = 2.0,
        stdin: File = None, stdout: File = PIPE, stderr: File = PIPE,
    ) -> PipelineResult[Any]:  # fmt: skip
        """As `run`, under asyncio. A cancelled task kills every stage."""
        from pysandbox.stages import aio
        from pysandbox.stages.joined import Joined

        asked = _checked(text, encoding, errors, input, timeout, grace, (stdin, stdout, stderr))
        joined = Joined(*_placed(self.stages), asked.streams)
        result = await aio.run(joined, asked.data, asked.deadline, grace, timeout)
        return result.check() if check else result


class Stage(_Joinable):
    """One command of a pipeline. Made by `Cage.cmd`."""

    def __init__(self, cage: StartsCommands[Any], command: Command, inputs: Mapping[str, Stage | Pipeline]) -> None:
        """Raises TypeError, ValueError."""
        for name, each in inputs.items():
            if not isinstance(name, str) or not VARIABLE.match(name):
                raise ValueError(f"inputs: {name!r} is not a name of a variable; it tells the command its descriptor")
            if not isinstance(each, _Joinable):
                raise TypeError(f"inputs: {name} must be made by cmd(), not {type(each).__name__}")
        self.cage = cage
        self.command = command
        self.inputs: dict[str, Stage | Pipeline] = dict(inputs)
        self.stages = (self,)

    def __repr__(self) -> str:
        return f"<Stage {list(self.command.argv)!r}>"


class Pipeline(_Joinable):
    """Stages, each of which reads what the one before it writes. Made by `|`."""

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        self.stages = stages

    def __repr__(self) -> str:
        return f"<Pipeline {' | '.join(repr(list(each.command.argv)) for each in self.stages)}>"


class _RunArguments:
    """The checked arguments of a run."""

    def __init__(self, streams: Streams, data: bytes | None, timeout: float | None) -> None:
        self.streams = streams
        self.data = data
        self.deadline = None if timeout is None else time.monotonic() + timeout


def _checked(
    text: bool | None, encoding: str | None, errors: str | None, input: str | bytes | None, timeout: float | None,
    grace: float, files: tuple[File, File, File],
) -> _RunArguments:  # fmt: skip
    """Raises TypeError, ValueError."""
    coding = coding_of(text, encoding, errors, default=True)
    data = input_bytes(input, coding)
    check_seconds("timeout", timeout)
    check_seconds("grace", grace)
    stdin, stdout, stderr = files
    if stdin == PIPE:
        raise ValueError("stdin=PIPE has nobody to write it: give input, a file or a descriptor")
    if data is not None and stdin is not None:
        raise ValueError("stdin and input both say what the first command reads: choose one")
    return _RunArguments(Streams(PIPE if data is not None else stdin, stdout, stderr, coding), data, timeout)


def _placed(stages: tuple[Stage, ...]) -> tuple[list[Placed], int]:
    """All commands, each before its reader; and the index of the one that reads the caller's input."""
    found: list[Placed] = []

    def add(chain: tuple[Stage, ...]) -> tuple[int, int]:
        """Where the first and the last of them stand."""
        head = before = -1
        for stage in chain:
            named = [(name, add(each.stages)[1]) for name, each in stage.inputs.items()]
            here = len(found)
            found.append(Placed(stage.cage, stage.command))
            for name, index in named:
                found[index] = found[index]._replace(feeds=here, name=name)
            if before >= 0:
                found[before] = found[before]._replace(feeds=here)
            head, before = here if head < 0 else head, here
        return head, before

    head, _ = add(stages)
    return found, head
