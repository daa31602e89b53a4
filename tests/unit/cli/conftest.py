"""A cage that runs nothing: what the command line asks of it is written down, and it ends as the test says."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

import pysandbox
from pysandbox.policy.model import Policy


class FakeResult:
    """The fields of Result, for a command that ended by itself with `exit_code`."""

    def __init__(self, argv: list[str], exit_code: int = 0, **fields: Any) -> None:
        self.argv = tuple(argv)
        self.exit_code, self.returncode, self.ok = exit_code, exit_code, exit_code == 0
        self.signal, self.reason, self.truncated, self.duration = None, "exited", False, 0.25
        self.usage, self.denials, self.caged, self.notes = {"user_time": 0.1}, (), True, ()
        self.no_route, self.network = False, {}
        vars(self).update(fields)


class FakeProcess:
    """`obeys`: SIGTERM ends it. It has ended already where nothing is said to the contrary."""

    def __init__(self, result: FakeResult, *, ended: bool = True, obeys: bool = True) -> None:
        self.calls: list[str] = []
        self.pid, self.caged, self.pty_fd = 2, True, None
        self.notes: tuple[Any, ...] = ()
        self.stdout: Any = None
        self.stderr: Any = None
        self._result, self._obeys = result, obeys
        self.relays: list[Any] = []
        self.loss: OSError | None = None
        self._read, self._write = os.pipe()
        if ended:
            self.end()

    def end(self) -> None:
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._read

    def signal(self, number: int, *, tree: bool = False) -> None:
        self.calls.append(signal.Signals(number).name)
        if self._obeys:
            self._result.exit_code = self._result.returncode = 128 + number
            self.end()

    def blame(self, reason: str, seconds: float | None = None) -> None:
        self._result.reason = reason

    def kill(self) -> None:
        self.calls.append("kill")
        self.end()

    def wait(self) -> int:
        self.calls.append("wait")
        return int(self._result.returncode)

    def result(self) -> FakeResult:
        return self._result

    def close(self) -> None:
        self.end()
        if self._read >= 0:
            self.calls.append("close")
            os.close(self._read)
            self._read = -1
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()


class FakeCage:
    """Stands in for what makes a cage, and for the cage: called with a policy, a sink and the switch, it is one."""

    def __init__(self) -> None:
        self.policy = Policy()
        self.argv: list[str] = []
        self.options: dict[str, Any] = {}
        self.raises: BaseException | None = None
        self.result_fields: dict[str, Any] = {}
        self.output = (b"", b"")
        self.on_spawn: Callable[[], None] = lambda: None
        self.ended, self.obeys = True, True
        self.process: FakeProcess | None = None
        self.drained_after: list[str] | None = None
        self.audited = False

    def __call__(self, policy: Policy, sink: Callable[[Any], None], no_sandbox: bool) -> FakeCage:
        self.policy, self.sink, self.caged = policy, sink, policy.caged and not no_sandbox
        self.runtime = self
        return self

    def prepare(self, policy: Policy, cwd: str) -> SimpleNamespace:
        return SimpleNamespace(policy=policy, plan=SimpleNamespace(mounts=(), landlock=None, cwd=cwd))

    def drain(self) -> None:
        self.drained_after = [] if self.process is None else [*self.process.calls]

    def spawn(self, argv: list[str], **options: Any) -> FakeProcess:
        self.argv, self.options = argv, options
        if self.raises is not None:
            raise self.raises
        self.process = FakeProcess(FakeResult(argv, **self.result_fields), ended=self.ended, obeys=self.obeys)
        if "stdout" in options:
            self.process.stdout, self.process.stderr = map(stream_of, self.output)
        self.on_spawn()
        return self.process


def stream_of(data: bytes) -> Any:
    read, write = os.pipe()
    os.write(write, data)
    os.close(write)
    return os.fdopen(read, "rb")


@pytest.fixture
def cage(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCage]:
    monkeypatch.setattr(pysandbox, "PIPE", -1, raising=False)
    fake = FakeCage()
    yield fake
    if fake.process is not None:
        fake.process.close()
