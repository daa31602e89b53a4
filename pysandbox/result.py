"""From the last report of a command to its Result, its exit code and its record in the audit. Pure.

cage-init reports a wait status, and whether the wall time ran out; the host knows why it ended the command, where it
did. `reason_of` puts the two together, once; everything else that is told of an end follows from the Result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pysandbox.cage_error import CageError
from pysandbox.denial import Denial
from pysandbox.exit_codes import shell_code
from pysandbox.shapes import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, asdict, dataclass, field

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pysandbox.note import Note

    Output = TypeVar("Output", str, bytes, default=bytes)  # of what speaks to a command
    Output_co = TypeVar("Output_co", covariant=True, default=str)
else:
    from pysandbox.shapes import TypeVar

    Output = TypeVar("Output", str, bytes)
    Output_co = TypeVar("Output_co", covariant=True)

Reason = Literal["exited", "signaled", "timeout", "oom", "seccomp", "cancelled"]

SIGKILL, SIGSYS = 9, 31
KILLED = -SIGKILL  # the return code of what ended without a report: cage-init was killed, and everything with it
_NOT_CAPTURED: Any = None  # the types leave it out: whoever has captured nothing knows it


class LastReport(Protocol):
    """What cage-init says of a command that is over (`launch.orders.Report`): its wait status, times in seconds."""

    status: int
    timed_out: bool
    user_time: float
    system_time: float
    max_rss_kb: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command and the children it waited for used (getrusage(2)): seconds, and KiB at the peak."""

    user_time: float = 0.0
    system_time: float = 0.0
    max_rss_kb: int = 0


@dataclass(frozen=True)
class Result(Generic[Output_co]):
    """The outcome of a command. `Result[str]` where it was asked for text, as `run` does by itself, or `Result[bytes]`.

    `exit_code` is a shell's view (128+n for signal n, 124 after the wall time), `returncode` Popen's (-n).
    `stdout` and `stderr` are str or bytes as asked for, None where they were not captured. `duration` in seconds.
    `denials` are the command's own; `Cage.denials` has those of the whole cage.
    `network` counts what the gatekeeper has let through and refused for the whole cage so far, by type of event
    ("gatekeeper.dns_denied", "gatekeeper.tcp_denied", ...). `no_route`: it failed in a cage without a way out, where
    meanwhile a name was looked up or an address called, and no other command ran. repr() is one line; str() is for
    a person, with the output, cut, and what was refused.
    """

    argv: tuple[str, ...]
    returncode: int
    reason: Reason
    stdout: Output_co = _NOT_CAPTURED
    stderr: Output_co = _NOT_CAPTURED
    truncated: bool = False
    duration: float = 0.0
    usage: Usage = field(default_factory=Usage)
    denials: tuple[Denial, ...] = ()
    caged: bool = True
    notes: tuple[Note, ...] = ()
    network: Mapping[str, int] = field(default_factory=dict)
    no_route: bool = False

    def __hash__(self) -> int:
        """Without `network`, which no hash can be made of."""
        return hash((self.argv, self.returncode, self.reason, self.stdout, self.stderr, self.duration))

    def __repr__(self) -> str:
        from pysandbox.result_text import short

        return short(self)

    def __str__(self) -> str:
        from pysandbox.result_text import told

        return told(self)

    @property
    def exit_code(self) -> int:
        return shell_code(self.returncode, out_of_time=self.reason == "timeout")

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended the command, None if it exited."""
        return -self.returncode if self.returncode < 0 else None

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and self.reason == "exited"

    def check(self) -> Self:
        """This result if the command succeeded. Raises ExitError."""
        if not self.ok:
            raise ExitError(self)
        return self


class CageTimeout(CageError, TimeoutError):
    """The command outlived its wall time and was ended. `result` holds the partial output; `stages` the results of
    all commands, where it was one of a pipeline."""

    stages: tuple[Result[Any], ...] = ()

    def __init__(self, argv: tuple[str, ...], seconds: float, result: Result[Any]) -> None:
        self.argv = argv
        self.seconds = seconds
        self.result = result
        super().__init__(f"{argv[0]!r} did not end within {seconds:g} s; it was stopped")


class ExitError(CageError):
    """A command ended in failure and the caller had asked for success (`Result.check()`). `stages`: the results of all
    commands, where it was one of a pipeline."""

    stages: tuple[Result[Any], ...] = ()

    def __init__(self, result: Result[Any]) -> None:
        self.result = result
        super().__init__(f"{result.argv[0]!r} ended with exit code {result.exit_code} ({result.reason})")


def returncode_of(final: LastReport | None) -> int:
    """Popen's view of the end."""
    return KILLED if final is None else os.waitstatus_to_exitcode(final.status)


def reason_of(final: LastReport | None, cause: Reason | None = None, blamed: Reason | None = None) -> Reason:
    """Why a command is over. `cause` is why the host killed it; `blamed` why it was asked to end, which counts when it
    died of a signal, or when its time was up."""
    if final is not None and final.timed_out:
        return "timeout"
    if cause is not None:
        return cause
    if final is None:
        return "cancelled"
    if not final.status and blamed is None:
        return "exited"
    code = returncode_of(final)
    if blamed == "timeout" or (blamed is not None and code < 0):
        return blamed
    if code >= 0:
        return "exited"
    return "seccomp" if code == -SIGSYS else "signaled"


def usage_of(final: LastReport | None) -> Usage:
    return Usage() if final is None else Usage(final.user_time, final.system_time, final.max_rss_kb)


def outcome(result: Result[Any]) -> dict[str, object]:
    """The fields of EXIT that tell how a command ended and what it used."""
    told: dict[str, object] = {
        "exit_code": result.exit_code,
        "reason": result.reason,
        "duration_ms": round(result.duration * 1000),
        "user_ms": round(result.usage.user_time * 1000),
        "system_ms": round(result.usage.system_time * 1000),
        "max_rss_kb": result.usage.max_rss_kb,
    }
    if result.denials:
        told["denials"] = [asdict(each) for each in result.denials]
    if result.network:
        told["counts"] = dict(result.network)
    return told
