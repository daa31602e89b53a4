"""errors.py: a failed start is caught by document 000's name for what failed, and survives a pickle."""

from __future__ import annotations

import errno
import pickle

import pytest

from pysandbox.errors import SandboxCgroupError, SandboxNetworkError, SandboxSpawnError, StartError


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
