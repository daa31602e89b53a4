"""A host of pysandbox in the internet: a process of its own, asked over its stdin for one run after the other.

`Host.run(argv, **policy)` is one command in a cage of that policy, `Host.uncaged` the same command without one. What
the cage was refused comes back with the Answer: the Result's denials, and every event that the gatekeeper told.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from _support.internet.space import Space
from _support.planted import heard

# Proxies and certificates of whoever runs the tests, which say nothing in this internet.
OF_A_USER = re.compile("_PROXY$|SSL|CERT|_CA_|^PIP_|^npm_", re.IGNORECASE)
TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclass(frozen=True)
class Answer:
    """How one command went. `events` are [name, fields]; `failed` is the exception, where there was no Result."""

    exit_code: int
    stdout: str
    stderr: str
    denials: Sequence[Mapping[str, Any]] = ()
    events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    failed: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def told(self, *names: str) -> list[Mapping[str, Any]]:
        """The fields of the events of these names."""
        return [fields for name, fields in self.events if name in names]

    def refused(self) -> set[str]:
        """Every name or address that the gatekeeper told it refused."""
        fields = self.told("gatekeeper.dns_denied", "gatekeeper.tcp_denied", "gatekeeper.udp_denied", "cage.denied")
        return {str(each.get("hostname", each.get("target"))) for each in fields}


class Host:
    """One at a time: it answers a question before it reads the next."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    @classmethod
    @contextmanager
    def start(cls, space: Space) -> Iterator[Host]:
        process = space.start(
            [sys.executable, "-m", "_support.internet.program"], ordinary=True, env=environment(), stdin=subprocess.PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n", "the host does not start"
            yield cls(process)
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            finally:
                process.kill()
                process.wait()
                process.stdout.close()

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 30, **policy: Any
    ) -> Answer:
        """In a cage. `policy` holds the fields of a Policy; `hosts` may be names. `leak_word` among them is what its
        callback refuses."""
        return self.ask(argv=list(argv), env=dict(env or {}), timeout=timeout, policy=policy)

    def uncaged(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 30) -> Answer:
        """The control: where the host itself is, without a cage."""
        return self.ask(argv=list(argv), env=dict(env or {}), timeout=timeout, policy=None)

    def state(self) -> Mapping[str, Any]:
        """What the host holds: fds, threads, children."""
        return self.ask(state=True).more

    def ask(self, **question: Any) -> Answer:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the host has ended with {self.process.wait()}"
        answer = Answer(**json.loads(line))
        heard(f"a host program: {answer.denials} {answer.events} {answer.failed}")
        return answer


@contextmanager
def host_program(space: Space, body: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A host of a test's own: Python that uses the library, in the internet, as an ordinary user. Killed at the end."""
    command = [sys.executable, "-c", body, *arguments]
    process = space.start(command, ordinary=True, env=environment(), stdin=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def environment() -> dict[str, str]:
    """That of the tests, without what is about the network and the directories of whoever runs them."""
    mine = {name: value for name, value in os.environ.items() if not OF_A_USER.search(name)}
    paths = os.pathsep.join(filter(None, [*sys.path, TESTS]))
    return {**mine, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "XDG_RUNTIME_DIR": ""}
