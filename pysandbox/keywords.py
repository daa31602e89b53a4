"""The keywords of `run`, `spawn` and `Cage`, for whoever checks types: each once, for the sync and the async calls.

Nothing of this is imported while a program runs. What each keyword means is said where it is taken, in `cage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO, Any

    from pysandbox.gate.sent import LeakFn
    from pysandbox.launch.scratch import Session
    from pysandbox.launch.stdio import File
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.supervise.policy_fn import PolicyFn


class _CommandOptions(TypedDict, total=False):
    shell: bool
    stdin: File
    stdout: File
    stderr: File
    env: Mapping[str, str] | None
    cwd: str | os.PathLike[str] | None
    pass_fds: Sequence[int]


class SpawnOptions(_CommandOptions, total=False):
    """What `spawn` takes beside `text`, `encoding` and `errors`, which say what type it gives."""

    pty: bool | tuple[int, int]


class RunOptions(_CommandOptions, total=False):
    """What `run` takes beside `text`, `encoding` and `errors`."""

    input: str | bytes | None
    timeout: float | None
    check: bool
    capture_output: bool
    on_stdout: Callable[[Any], object] | None
    on_stderr: Callable[[Any], object] | None


class PipelineOptions(TypedDict, total=False):
    """What `run` and `aio` of a pipeline take beside `text`, `encoding` and `errors`."""

    input: str | bytes | None
    timeout: float | None
    check: bool
    grace: float
    stdin: File
    stdout: File
    stderr: File


class CageOptions(TypedDict, total=False):
    """What `Cage` takes beside its policy."""

    cwd: str | os.PathLike[str] | None
    session: Session | str | None
    runtime: Runtime | None
    labels: Mapping[str, object] | None
    policy_fn: PolicyFn | None
    watch: Sequence[str] | None
    deadline: float
    record: IO[str] | None
    secrets: Mapping[str, str] | None
    leak_fn: LeakFn | None
