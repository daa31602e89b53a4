"""What the commands of a pipeline are given, and what becomes of the cages that wait for them when one cannot be."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.command import Command
from pysandbox.launch.stdio import PIPE
from pysandbox.stages import joined
from pysandbox.stages.joined import Joined
from pysandbox.stages.order import Placed, Streams

STREAMS: Any = Streams("in", "out", "err", None)


class Waiting:
    """A cage of one command's own."""

    def __init__(self, command: Command, user: int) -> None:
        self.command, self.live, self.given_back = command, SimpleNamespace(user=user), 0

    def give_back(self) -> None:
        self.given_back += 1


class PretendCage:
    """Starts nothing; as a cage it gives back what it was to start and could not."""

    def __init__(self, *, fails: bool = False, user: int = 0) -> None:
        self.fails, self.user = fails, user
        self.reserved: list[Waiting] = []
        self.asked: list[Any] = []

    def reserve(self, command: Command) -> Waiting:
        self.reserved.append(Waiting(command, self.user))
        return self.reserved[-1]

    def start(self, command: Command, files: Any, *, pass_fds: Any, reserved: Waiting, **_: Any) -> Any:
        self.asked.append((files, {name: command.env[name] for name in command.env}, list(pass_fds)))
        if self.fails:
            reserved.give_back()
            raise OSError(errno.EAGAIN, "no process")
        return SimpleNamespace(condemn=lambda cause: None, close=lambda: None, state=SimpleNamespace(ended=1))


def placed(cage: PretendCage, feeds: int | None, name: str | None = None) -> Placed:
    return Placed(cage, Command(("true",), {}, None), feeds, name)  # type: ignore[arg-type]


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def leaves_no_descriptor() -> Any:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@pytest.mark.parametrize("lost", ["pipe", "owner"])
def test_where_no_pipe_can_be_made_every_cage_that_waits_is_given_back(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """The pipe of a named input is made before its reader starts, while the others wait."""

    def fail(*_: object) -> Any:
        raise OSError(errno.EMFILE, "no descriptors")

    failing: dict[str, Any] = {"pipe2" if lost == "pipe" else "fchown": fail}
    of_root: Any = {"pipe2": os.pipe2, "fstat": lambda fd: SimpleNamespace(st_uid=0), "close": os.close, **failing}
    monkeypatch.setattr(joined, "os", SimpleNamespace(O_CLOEXEC=os.O_CLOEXEC, **of_root))
    cages = [PretendCage(user=1000) for _ in range(3)]
    table = [placed(cages[0], 2, "DATA"), placed(cages[1], 2), placed(cages[2], None)]
    with Joined(table, 1, STREAMS) as pipeline, pytest.raises(OSError, match="no descriptors"):
        pipeline.start()
    assert [each.given_back for cage in cages for each in cage.reserved] == [1, 1, 1]
    assert [cage.asked for cage in cages] == [[], [], []]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_each_cage_is_given_back_once_where_one_cannot_start(failing: int) -> None:
    cages = [PretendCage(fails=index == failing) for index in range(3)]
    table = [placed(cages[0], 1), placed(cages[1], 2), placed(cages[2], None)]
    with Joined(table, 0, STREAMS) as pipeline, pytest.raises(OSError, match="no process"):
        pipeline.start()
    assert [cages[index].reserved[0].given_back for index in range(3)] == [int(each <= failing) for each in range(3)]


def test_each_command_has_the_ends_that_are_its_own() -> None:
    """The caller's input is the first one's alone, its output the last one's; a named input is told by its number."""
    cages = [PretendCage() for _ in range(4)]
    table = [placed(cages[0], 2, "DATA"), placed(cages[1], 2), placed(cages[2], 3), placed(cages[3], None)]
    pipeline = Joined(table, 1, STREAMS)
    waiting = {index: cage.reserve(Command(("true",), {}, None)) for index, cage in enumerate(cages)}
    for index in reversed(range(4)):
        pipeline._start(index, waiting)  # type: ignore[arg-type]
    asked = [cage.asked[0] for cage in cages]
    assert [files for files, _, _ in asked] == [
        (None, PIPE, "err"), ("in", PIPE, "err"), (PIPE, PIPE, "err"), (PIPE, "out", "err"),
    ]  # fmt: skip
    assert [env for _, env, _ in asked] == [{}, {}, {"DATA": str(asked[2][2][0])}, {}]
    assert waiting == {} and [len(passed) for _, _, passed in asked] == [0, 0, 1, 0]
    pipeline.close()
