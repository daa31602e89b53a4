"""Every exception this package raises, and nothing else.

    CageError                     the root; never raised itself
    ├── PolicyError(ValueError)   what was asked for is wrong: names file, line, key and a suggestion
    │   ├── SandboxCompileError   document 000: a policy that cannot be compiled
    │   └── SandboxPathMissing    document 000: a path the policy names does not exist
    ├── UnsupportedError(OSError) this kernel or host lacks what the policy needs: names the feature and the fix
    ├── StartError(OSError)       a step of the start failed: names step, errno, path; always one of
    │   ├── SandboxSpawnError     document 000: a process of the cage could not be started
    │   ├── SandboxNetworkError   document 000: its network could not be made
    │   └── SandboxCgroupError    document 000: its cgroup could not be made
    ├── CageTimeout(TimeoutError) the wall time ran out; carries the partial output
    ├── CageClosedError           the cage was closed, or its init died
    ├── AuditError(OSError)        the audit trail cannot be written, so what it should tell does not happen
    ├── CagePausedError           the cage is paused: it starts nothing until it is resumed
    ├── UnstoppableError(TimeoutError) a process of the cage did not stop: names which
    └── ExitError                 `Result.check()` on a command that failed

Each also subclasses the builtin a caller would already catch. A denial by policy is never an exception:
it is an event and an entry of `Result.denials`.
"""

from __future__ import annotations

import errno as _errno
import os

TYPE_CHECKING = False  # as typing's own: the command line starts without it
if TYPE_CHECKING:
    from pysandbox.handlers.denial import Denial
    from pysandbox.process import Result


class CageError(Exception):
    """Root of every error of this package."""


class PolicyError(CageError, ValueError):
    """The policy is wrong. `str()` is one line: where, what, and what to do next.

    `file`, `line` (1-based) and `key` (dotted TOML key) are None where they are unknown;
    `suggestion` is a sentence fragment such as ``did you mean "allow_write"?``.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        self.message = message
        self.file = file
        self.line = line
        self.key = key
        self.suggestion = suggestion
        super().__init__(str(self))

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        parts = [part for part in (where, self.key, self.message) if part]
        text = ": ".join(parts)
        return f"{text} ({self.suggestion})" if self.suggestion else text


class SandboxCompileError(PolicyError):
    """A policy that the parser accepted and the compiler cannot carry out (document 000)."""


class SandboxPathMissing(PolicyError):
    """A path that the policy names explicitly does not exist (document 000)."""


class UnsupportedError(CageError, OSError):
    """The host cannot do what the policy needs. `feature` is a row of `pysandbox check`; `fix` how to get it."""

    def __init__(self, message: str, *, feature: str, fix: str) -> None:
        self.feature = feature
        self.fix = fix
        super().__init__(_errno.EOPNOTSUPP, f"{message}; {fix}")

    def __str__(self) -> str:
        return str(self.strerror)


class StartError(CageError, OSError):
    """A step of the start failed; nothing was left behind. Whoever raises one gets the subclass of its step.

    `step` is a name from csrc/steps.def; `errno` and `filename` are those of the system call that failed. `denials`:
    what refused it, where a rule or a callback did.
    """

    denials: tuple[Denial, ...] = ()

    def __new__(cls, step: str, number: int, path: str | None = None, hint: str | None = None) -> StartError:
        kind = _OF_STEP.get(step, SandboxSpawnError) if cls is StartError else cls
        return super().__new__(kind, number, os.strerror(number))

    def __init__(self, step: str, number: int, path: str | None = None, hint: str | None = None) -> None:
        self.step = step
        self.hint: str | None = hint
        super().__init__(number, os.strerror(number))
        self.filename = path

    def __reduce__(self) -> tuple[type[StartError], tuple[object, ...], dict[str, object]]:
        return type(self), (self.step, self.errno, self.filename, self.hint), {"denials": self.denials}

    def __str__(self) -> str:
        name = _errno.errorcode.get(self.errno or 0, str(self.errno))
        text = f"{self.step}: {name} ({self.strerror})"
        if self.filename is not None:
            text += f": {self.filename!r}"
        return f"{text}; {self.hint}" if self.hint else text


class SandboxSpawnError(StartError):
    """The processes of a cage could not be started (document 000)."""


class SandboxNetworkError(StartError):
    """The network of a cage could not be made (document 000)."""


class SandboxCgroupError(StartError):
    """The cgroup of a cage could not be made (document 000)."""


_OF_STEP: dict[str, type[StartError]] = {
    "loopback": SandboxNetworkError,
    "network": SandboxNetworkError,
    "door_enter": SandboxNetworkError,
    "door_route": SandboxNetworkError,
    "door_redirect": SandboxNetworkError,
    "door_socket": SandboxNetworkError,
    "cgroup": SandboxCgroupError,
}


class CageTimeout(CageError, TimeoutError):
    """The command outlived its wall time and was ended. `result` holds the partial output."""

    def __init__(self, argv: tuple[str, ...], seconds: float, result: Result) -> None:
        self.argv = argv
        self.seconds = seconds
        self.result = result
        super().__init__(f"{argv[0]!r} did not end within {seconds:g} s; it was stopped")


class CageClosedError(CageError):
    """The cage was closed, or its init was killed, before this could be done."""


class AuditError(CageError, OSError):
    """The audit trail cannot be written: `filename` is the file or directory, `hint` what to do about it."""

    def __init__(self, message: str, number: int | None, path: str, hint: str) -> None:
        self.message = message
        self.hint = hint
        super().__init__(number, os.strerror(number) if number else message, path)

    def __str__(self) -> str:
        reason = f" ({self.strerror})" if self.errno else ""
        return f"audit: {self.filename} {self.message}{reason}; {self.hint}"


class CagePausedError(CageError):
    """The cage is paused, so nothing can be started in it; call `resume()` first."""


class UnstoppableError(CageError, TimeoutError):
    """Not every process of a cage could be stopped in time. `pids`: those of the host that still run."""

    def __init__(self, cage_id: str, pids: tuple[int, ...]) -> None:
        self.pids = pids
        running = ", ".join(map(str, pids))
        super().__init__(f"cage {cage_id}: still running: {running}; try again, or close the cage")


class ExitError(CageError):
    """A command ended in failure and the caller had asked for success (`Result.check()`)."""

    def __init__(self, result: Result) -> None:
        self.result = result
        super().__init__(f"{result.argv[0]!r} ended with exit code {result.exit_code} ({result.reason})")
