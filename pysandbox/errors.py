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
    ├── ConfineError(OSError)     this process could not confine itself: names step, errno, threads, what holds anyway
    ├── AppError                  an app's package, grant or journal is not what it should be
    ├── TemplateError             a template could not be prepared; carries what its modules said
    ├── CagePausedError           the cage is paused: it starts nothing until it is resumed
    ├── UnstoppableError(TimeoutError) a process of the cage did not stop: names which
    ├── CommitConflict            the tree of a workspace was changed meanwhile: which paths, and nothing was written
    ├── CommitError(OSError)      a commit could not be written; the tree is as it was
    ├── SandboxedError(RuntimeError) a call of a sandboxed function: it has raised, or its cage has ended
    └── ExitError                 `Result.check()` on a command that failed

    WeakerWarning(RuntimeWarning) no error: a wall that this host lacks, told where nobody listens to events

Each error also subclasses the builtin a caller would already catch. A denial by policy is never an exception:
it is an event and an entry of `Result.denials`.
"""

from __future__ import annotations

import errno as _errno
import os

from pysandbox.cage_error import CageError
from pysandbox.result import CageTimeout, ExitError
from pysandbox.shapes import NamedTuple

__all__ = [
    "AppError", "AuditError", "CageClosedError", "CageError", "CagePausedError", "CageTimeout", "CommitConflict",
    "CommitError", "ConfineError", "Conflict", "ExitError", "PolicyError", "SandboxCgroupError",
    "SandboxCompileError", "SandboxNetworkError", "SandboxPathMissing", "SandboxSpawnError", "SandboxedError",
    "StartError", "TemplateError", "UnstoppableError", "UnsupportedError",
]  # fmt: skip

TYPE_CHECKING = False  # as typing's own: the command line starts without it
if TYPE_CHECKING:
    from pysandbox.denial import Denial


class WeakerWarning(RuntimeWarning):
    """This host lacks a wall of every cage; the other walls hold. A strict policy makes an error of it."""


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
    what refused it, where a rule or a callback did; `argv`: the command, where it was one of several.
    """

    denials: tuple[Denial, ...] = ()
    argv: tuple[str, ...] = ()

    def __new__(cls, step: str, number: int, path: str | None = None, hint: str | None = None) -> StartError:
        kind = _OF_STEP.get(step, SandboxSpawnError) if cls is StartError else cls
        return super().__new__(kind, number, os.strerror(number))

    def __init__(self, step: str, number: int, path: str | None = None, hint: str | None = None) -> None:
        self.step = step
        self.hint: str | None = hint
        super().__init__(number, os.strerror(number))
        self.filename = path

    def __reduce__(self) -> tuple[type[StartError], tuple[object, ...], dict[str, object]]:
        return type(self), (self.step, self.errno, self.filename, self.hint), {**vars(self)}

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


class SandboxedError(CageError, RuntimeError):
    """A call of a sandboxed function came to nothing. `reason`: "raised" (then `kind` and `traceback` are the
    exception's, as text), or how its cage ended, as `Result.reason`. `logs`: what the function has printed."""

    def __init__(
        self, message: str, *, reason: str = "raised", logs: str = "", kind: str = "", traceback: str = ""
    ) -> None:
        self.message = message
        self.reason = reason
        self.logs = logs
        self.kind = kind
        self.traceback = traceback
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message}\n\n{self.traceback.rstrip()}" if self.traceback else self.message


_OF_STEP: dict[str, type[StartError]] = {
    "loopback": SandboxNetworkError,
    "network": SandboxNetworkError,
    "door_enter": SandboxNetworkError,
    "door_route": SandboxNetworkError,
    "door_redirect": SandboxNetworkError,
    "door_socket": SandboxNetworkError,
    "cgroup": SandboxCgroupError,
}


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


class ConfineError(CageError, OSError):
    """The calling process could not confine itself.

    `step` is a name from csrc/steps.def. `in_force`: what holds all the same and cannot be taken back, so that the
    process should end; empty: nothing has changed. `threads`: the other threads, where they stood in the way.
    """

    def __init__(
        self, step: str, number: int, path: str | None = None, in_force: tuple[str, ...] = (),
        threads: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.step: str = step
        self.in_force: tuple[str, ...] = in_force
        self.threads: tuple[str, ...] = threads
        super().__init__(number, os.strerror(number))
        self.filename = path

    def __reduce__(self) -> tuple[type[ConfineError], tuple[object, ...]]:
        return type(self), (self.step, self.errno, self.filename, self.in_force, self.threads)

    def __str__(self) -> str:
        if self.step == "threads":
            return self._about_threads()
        name = _errno.errorcode.get(self.errno or 0, str(self.errno))
        text = f"{self.step}: {name} ({self.strerror})" + (f": {self.filename!r}" if self.filename else "")
        held = f"in force all the same: {', '.join(self.in_force)}; end this process" if self.in_force else ""
        return f"{text}; {held or 'nothing has changed'}"

    def _about_threads(self) -> str:
        who = f"the threads {', '.join(self.threads)}" if self.threads else "a process that shares its memory"
        return (
            f"threads: {who} would stay unconfined, and could write into what is confined; call confine() before they "
            "start, or in a process of its own"
        )


class AppError(CageError):
    """An app's package, grant or journal is not what it should be, so that nothing of it runs. `hint`: what to do."""

    def __init__(self, message: str, hint: str) -> None:
        self.message: str = message
        self.hint: str = hint
        super().__init__(message, hint)

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}"


class TemplateError(CageError):
    """A template could not be prepared: what it loads failed, took too long, or made what no fork copies."""


class CagePausedError(CageError):
    """The cage is paused, so nothing can be started in it; call `resume()` first."""


class UnstoppableError(CageError, TimeoutError):
    """Not every process of a cage could be stopped in time. `pids`: those of the host that still run."""

    def __init__(self, cage_id: str, pids: tuple[int, ...]) -> None:
        self.pids = pids
        running = ", ".join(map(str, pids))
        super().__init__(f"cage {cage_id}: still running: {running}; try again, or close the cage")


class Conflict(NamedTuple):
    """A path of a tree that is not what the cage saw, and how that is known."""

    path: str
    reason: str


class CommitConflict(CageError):
    """The tree below a workspace was changed meanwhile, so nothing was written. `conflicts`: each path, with why."""

    def __init__(self, tree: str, conflicts: tuple[Conflict, ...]) -> None:
        self.tree = tree
        self.conflicts = conflicts
        first = "; ".join(f"{each.path!r}: {each.reason}" for each in conflicts[:3])
        more = f"; and {len(conflicts) - 3} more" if len(conflicts) > 3 else ""
        super().__init__(f"commit to {tree}: {first}{more}; nothing was written: leave these paths out, or force them")


class CommitError(CageError, OSError):
    """A commit could not be written, or undone; the trees are as they were, but for those of `left`: the ids of commits
    that could not be taken back, each with its tree. `errno` and `filename` say why."""

    def __init__(self, tree: str, cause: OSError, left: tuple[tuple[str, str], ...] = ()) -> None:
        self.tree: str = tree
        self.left: tuple[tuple[str, str], ...] = left
        super().__init__(cause.errno, cause.strerror, cause.filename)

    def __str__(self) -> str:
        where = f": {self.filename!r}" if self.filename is not None else ""
        more = "nothing was written"
        if self.left:
            left = " and ".join(f"{tree} (commit {name})" for name, tree in self.left)
            more = f"not all could be taken back of {left}: the next use of a workspace tries again"
        return f"commit to {self.tree}: {self.strerror}{where}; {more}"
