"""One command as its caller wrote it, checked, and its encoding as an order for cage-init.

Everything that can be wrong with an argument is found here, before anything is opened: the error names the argument.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pysandbox.compile.plan import SCRATCH, Plan
from pysandbox.errors import PolicyError
from pysandbox.launch import orders
from pysandbox.launch.lookup import DEFAULT_PATH, candidates
from pysandbox.policy.match import may_execute

if TYPE_CHECKING:
    from pysandbox.launch.live import LiveInit
    from pysandbox.launch.runtime import Prepared


@dataclass(frozen=True, slots=True)
class Command:
    """argv, the caller's own variables and working directory; all free of NUL bytes."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None

    @classmethod
    def of(
        cls,
        argv: Sequence[str | os.PathLike[str]],
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
    ) -> Command:
        """Raises ValueError (empty, NUL, a bad name) and TypeError (a string where a list belongs)."""
        if isinstance(argv, (str, bytes)):
            raise TypeError(f"argv must be a list such as [{str(argv)!r}], not one string: no shell reads it")
        texts = tuple(_text(each, f"argv[{index}]") for index, each in enumerate(argv))
        if not texts or not texts[0]:
            raise ValueError("argv is empty: name a program to run")
        variables = {_text(name, "env"): _text(value, f"env[{name!r}]") for name, value in (env or {}).items()}
        for name in variables:
            if not name or "=" in name:
                raise ValueError(f"env: {name!r} is not a name of a variable")
        return cls(texts, variables, None if cwd is None else _text(cwd, "cwd"))

    def candidates(self, path: str) -> list[str]:
        """What execvp would try, in order."""
        return candidates(self.argv[0], path)

    def demand_allowed(self, plan: Plan) -> None:
        """The initial command against process.allow_execve (PROC-06), before anything is started; the kernel holds the
        list for every exec. What the host has no program for is the cage's own to find. Raises PolicyError."""
        if plan.executables is None:
            return
        search = self.env.get("PATH", dict(plan.env).get("PATH", DEFAULT_PATH))
        found = next((path for path in self.candidates(search) if os.access(path, os.X_OK)), None)
        real = os.path.realpath(found) if found is not None else ""
        if found is not None and not may_execute(plan.executables, real):
            raise PolicyError(
                f"{found} is not on the list of executables",
                key="process.allow_execve",
                suggestion=f'add "{real}" to allow_execve',
            )


class Start(NamedTuple):
    """One command on its way: what it is, the cage that is to run it, and how."""

    command: Command
    prepared: Prepared
    live: LiveInit
    id: int
    oneshot: bool  # the cage ends with it
    caged: bool
    pty: bool  # descriptor 0 becomes its controlling terminal
    quiet: bool  # only its end is reported, or that it never ran


def encode(start: Start, targets: Sequence[int]) -> orders.Order:
    """The order; `targets` are the numbers of its descriptors in the cage."""
    command, plan = start.command, start.prepared.plan
    env = {name: start.live.scratch if value == SCRATCH else value for name, value in plan.env}
    if not start.caged:
        env = {**os.environ, **env}
    env.update(command.env)
    cwd = os.path.join(plan.cwd or "/", command.cwd) if command.cwd is not None else plan.cwd
    return orders.encode_order(
        argv=[os.fsencode(each) for each in command.argv],
        env=[os.fsencode(f"{name}={value}") for name, value in env.items()],
        paths=[os.fsencode(each) for each in command.candidates(env.get("PATH", DEFAULT_PATH))],
        cwd=os.fsencode(cwd or "/"),
        targets=targets,
        limits=start.prepared.limits,
        n_limits=len(plan.limits),
        walltime=plan.walltime,
        grace=plan.grace,
        command_id=start.id,
        oneshot=start.oneshot,
        terminal=start.pty,
        quiet=start.quiet,
    )


def _text(value: object, name: str) -> str:
    """A str without NUL. Raises TypeError, ValueError."""
    text = os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else value
    if not isinstance(text, str):
        raise TypeError(f"{name} must be str, bytes or a path, not {type(value).__name__}")
    if "\0" in text:
        raise ValueError(f"{name} holds a NUL byte, which no argument of a program can")
    return text


def input_bytes(given: object) -> bytes | None:
    """What `run(input=)` feeds to stdin. Raises TypeError."""
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    raise TypeError(f"input must be str or bytes, not {type(given).__name__}")


def demand_seconds(name: str, value: object) -> None:
    """Raises TypeError, ValueError."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds or None, not {value!r}")
    if value < 0 or value != value:
        raise ValueError(f"{name} must not be negative: {value!r}")
