"""errors.py: a failed start is caught by document 000's name for what failed, and survives a pickle."""

from __future__ import annotations

import copy
import errno
import pickle

import pytest

from pysandbox.errors import (
    AppError,
    AuditError,
    CageClosedError,
    CageError,
    CagePausedError,
    CageTimeout,
    CommitConflict,
    CommitError,
    ConfineError,
    Conflict,
    ExitError,
    PolicyError,
    SandboxCgroupError,
    SandboxCompileError,
    SandboxedError,
    SandboxNetworkError,
    SandboxPathMissing,
    SandboxSpawnError,
    StartError,
    TemplateError,
    UnstoppableError,
    UnsupportedError,
)  # fmt: skip
from pysandbox.result import Result, Usage


@pytest.mark.parametrize(
    ("step", "kind"),
    [("clone", SandboxSpawnError), ("exec", SandboxSpawnError), ("loopback", SandboxNetworkError),
     ("cgroup", SandboxCgroupError)],
)  # fmt: skip
def test_a_start_error_is_one_of_its_step(step: str, kind: type[StartError]) -> None:
    error = StartError(step, errno.EPERM, "/path", "do this")
    assert type(error) is kind
    assert (error.step, error.errno, error.filename, error.hint) == (step, errno.EPERM, "/path", "do this")
    assert str(error) == f"{step}: EPERM (Operation not permitted): '/path'; do this"


def test_a_subclass_raised_by_name_keeps_its_class() -> None:
    assert type(SandboxCgroupError("clone", errno.EPERM)) is SandboxCgroupError


def test_a_start_error_reads_back_from_a_pickle() -> None:
    error = StartError("loopback", errno.EIO, None, "hint")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is SandboxNetworkError
    assert (again.step, again.errno, again.filename, again.hint) == ("loopback", errno.EIO, None, "hint")


RESULT = Result(("false",), 1, "exited", "out", denials=(), usage=Usage(0.5, 0.25, 1024))
EVERY = [
    PolicyError("wrong", file="a.toml", line=3, key="files.read", suggestion="leave it out"),
    SandboxCompileError("too many"),
    SandboxPathMissing("'/none' does not exist", key="files.read"),
    TemplateError("no model"),
    AppError("the grant does not hold", "install the app again"),
    UnsupportedError("no user namespaces", feature="userns", fix="ask the administrator"),
    StartError("exec", errno.ENOENT, "/bin/none", "hint"),
    CageTimeout(("sleep", "9"), 1.5, RESULT),
    CageClosedError("closed"),
    CagePausedError("paused"),
    AuditError("cannot be written", errno.ENOSPC, "/var/trail", "make room"),
    AuditError("is not a directory", None, "/var/trail", "name another"),
    UnstoppableError("01ABC", (7, 8)),
    SandboxedError("it raised", reason="raised", logs="x", kind="ValueError", traceback="..."),
    ConfineError("landlock", errno.EPERM, "/bin/none", ("no_new_privs",)),
    CommitConflict("/tree", (Conflict("file", "it was changed"),)),
    CommitError("/tree", OSError(errno.ENOSPC, "no room", "file")),
    ExitError(RESULT),
]


def every_class(kind: type) -> set[type]:
    return {kind}.union(*(every_class(each) for each in kind.__subclasses__()))


def test_every_error_reads_back_from_a_pickle() -> None:
    """A pool of processes hands over what a worker raised; one that could not be read back has ended the pool."""
    public = {kind for kind in every_class(CageError) if kind.__module__ == "pysandbox.errors"}
    assert public - {type(error) for error in EVERY} <= {CageError, StartError, SandboxNetworkError, SandboxCgroupError}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for error in EVERY:
            again = pickle.loads(pickle.dumps(error, protocol))
            assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
            if isinstance(error, OSError):
                assert (again.errno, again.strerror, again.filename) == (error.errno, error.strerror, error.filename)


def test_a_copied_error_is_the_same_error() -> None:
    for error in EVERY:
        assert str(copy.deepcopy(error)) == str(error)
