"""A cage's scope, from a systemd that this test plays: what it is asked for, and what its answers become."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pysandbox.compile.plan import Setting
from pysandbox.errors import StartError
from pysandbox.live.systemd import enter_scope, properties

jeepney = pytest.importorskip("jeepney", reason="pip install 'pysandbox[systemd]'")

JOB, OTHER_JOB = "/org/freedesktop/systemd1/job/7", "/org/freedesktop/systemd1/job/6"
SETTINGS = (
    Setting("memory.max", "67108864"), Setting("memory.swap.max", "0", optional=True),
    Setting("memory.oom.group", "1", optional=True), Setting("pids.max", "33"), Setting("cpu.weight", "50"),
    Setting("cpu.max", "50000 100000"),
)  # fmt: skip


class Bus(threading.Thread):
    """One connection: says yes to everything, notes what is asked, and ends the job as it is told."""

    def __init__(self, path: Path, *, result: str = "done", refusal: str = "") -> None:
        super().__init__(name="pysandbox-test-bus")
        self.asked: dict[str, Any] = {}
        self._result, self._refusal = result, refusal
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)

    def run(self) -> None:
        with self._listener, self._listener.accept()[0] as self._peer:
            self._authenticate()
            parser, serial = jeepney.Parser(), 100
            while data := self._peer.recv(4096):
                for message in parser.feed(data):
                    serial += 10
                    self._answer(message, serial)

    def _authenticate(self) -> None:
        said = b""
        while b"\r\n" not in said:
            said += self._peer.recv(100)
        self._peer.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
        rest = b""
        while rest != b"BEGIN\r\n":
            rest += self._peer.recv(len(b"BEGIN\r\n") - len(rest))

    def _answer(self, message: Any, serial: int) -> None:
        member = message.header.fields[jeepney.HeaderFields.member]
        self.asked[member] = message.body
        if member == "StartTransientUnit" and self._refusal:
            answer = jeepney.new_error(message, self._refusal, "s", ("no",))
        elif member == "StartTransientUnit":
            answer = jeepney.new_method_return(message, "o", (JOB,))
        else:
            answer = jeepney.new_method_return(message, "s", (":1.1",)) if member == "Hello" else None
            answer = answer or jeepney.new_method_return(message)
        self._peer.sendall(answer.serialise(serial))
        if member == "StartTransientUnit" and not self._refusal:
            self._job_removed(OTHER_JOB, "other.scope", "failed", serial + 1)
            self._job_removed(JOB, "x.scope", self._result, serial + 2)

    def _job_removed(self, job: str, unit: str, result: str, serial: int) -> None:
        manager = jeepney.DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
        signal = jeepney.new_signal(manager, "JobRemoved", "uoss", (7, job, unit, result))
        self._peer.sendall(signal.serialise(serial))


@pytest.fixture
def bus(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Bus, str]]:
    path = tmp_path / "bus"
    bus = Bus(path, **getattr(request, "param", {}))
    bus.start()
    yield bus, str(path)
    bus.join()


def test_the_settings_become_properties_of_the_scope() -> None:
    asked = dict(properties(SETTINGS, 4711))
    assert asked["PIDs"] == ("au", [4711]) and asked["Slice"] == ("s", "pysandbox.slice")
    assert {name: value for name, (kind, value) in asked.items() if kind == "t"} == {
        "MemoryMax": 67108864, "MemorySwapMax": 0, "TasksMax": 33, "CPUWeight": 50, "CPUQuotaPerSecUSec": 500_000,
    }  # fmt: skip


def test_the_scope_is_asked_for_and_its_own_job_is_waited_for(bus: tuple[Bus, str]) -> None:
    enter_scope(bus[1], "pysandbox-1.scope", SETTINGS, os.getpid())
    name, mode, wanted, aux = bus[0].asked["StartTransientUnit"]
    assert (name, mode, aux) == ("pysandbox-1.scope", "fail", [])
    assert dict(wanted)["PIDs"] == ("au", [os.getpid()])
    assert "Subscribe" in bus[0].asked


@pytest.mark.parametrize("bus", [{"result": "failed"}, {"refusal": "org.freedesktop.systemd1.UnitExists"}],
                         indirect=True)  # fmt: skip
def test_a_scope_that_does_not_come_about_is_an_error(bus: tuple[Bus, str]) -> None:
    with pytest.raises(StartError) as failure:
        enter_scope(bus[1], "pysandbox-1.scope", SETTINGS, os.getpid())
    assert (failure.value.step, failure.value.errno) == ("cgroup", errno.EIO)


def test_a_bus_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartError) as failure:
        enter_scope(str(tmp_path / "none"), "x.scope", SETTINGS, 1)
    assert (failure.value.step, failure.value.errno) == ("cgroup", errno.ENOENT)
