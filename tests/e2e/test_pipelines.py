"""Pipelines: what flows, how they end, what they leave. Every command here runs in a cage of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox import AsyncCage, Cage, CageTimeout, ExitError, Policy, PolicyError, StartError

HEAD = 1  # second: what ends by itself needs no more on any machine that is not stuck


@pytest.fixture
def cage() -> Cage:
    return Cage(Policy())


@pytest.fixture(autouse=True)
def leaves_no_descriptor(cage: Cage) -> Iterator[None]:
    """What the runtime keeps for the next cages is there after the first one."""
    cage.run(["true"])
    cage.runtime.drain()
    before = len(os.listdir("/proc/self/fd"))
    yield
    cage.runtime.drain()
    for _ in range(200):
        if len(os.listdir("/proc/self/fd")) <= before + 6:  # a waiting cage or two of another plan
            return
        time.sleep(0.02)
    raise AssertionError(f"{before} descriptors became {len(os.listdir('/proc/self/fd'))}")


def test_the_example_of_the_founding_paper(cage: Cage, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n")
    trusted = Cage(Policy(allow=[tmp_path]))
    result = (trusted.cmd(["cat", tmp_path / "secret.csv"]) | cage.cmd(["tr", "a-z", "A-Z"])).run()
    assert result.ok and result.stdout == "A,B\n" and [each.exit_code for each in result] == [0, 0]
    assert cage.run(["cat", tmp_path / "secret.csv"]).exit_code == 1


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 5_000_000])
@pytest.mark.parametrize("way", ["run", "aio"])
def test_every_byte_arrives(cage: Cage, size: int, way: str) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    joined = cage.cmd(["cat"]) | cage.cmd(["cat"]) | cage.cmd(["cat"])
    result = joined.run(input=data, text=False) if way == "run" else asyncio.run(joined.aio(input=data, text=False))
    assert result.stdout == data and result.ok


def test_a_reader_that_has_enough_is_no_failure(cage: Cage) -> None:
    result = (cage.cmd(["yes"]) | cage.cmd(["cat"]) | cage.cmd(["head", "-n", "1"])).run(timeout=60)
    assert result.ok and result.stdout == "y\n" and result[0].signal == 13
    never = (cage.cmd(["sh", "-c", "sleep 0.2; echo x; echo y"]) | cage.cmd(["true"])).run(timeout=60)
    assert never.ok


def test_a_reader_that_never_reads_holds_its_writer_up_and_nobody_else(cage: Cage) -> None:
    with pytest.raises(CageTimeout) as caught:
        (cage.cmd(["sh", "-c", "head -c 10M /dev/zero; echo done >&2"]) | cage.cmd(["sleep", "60"])).run(timeout=HEAD)
    assert [each.reason for each in caught.value.stages] == ["timeout"] * 2
    assert caught.value.stages[0].stderr == ""


@pytest.mark.parametrize("way", ["run", "aio"])
def test_a_stage_that_fails_takes_the_others_with_it(cage: Cage, way: str) -> None:
    joined = cage.cmd(["sh", "-c", "echo part; exit 3"]) | cage.cmd(["sh", "-c", "cat; exec sleep 60"])
    result = joined.run(grace=0.1) if way == "run" else asyncio.run(joined.aio(grace=0.1))
    assert result.exit_code == 3 and result.failed is result[0] and result[1].reason == "cancelled"
    assert result.stdout == "part\n"
    with pytest.raises(ExitError) as caught:
        joined.run(grace=0, check=True)
    assert len(caught.value.stages) == 2


def test_a_stage_that_fails_leaves_the_others_time_to_end(cage: Cage) -> None:
    result = (cage.cmd(["sh", "-c", "echo part; exit 3"]) | cage.cmd(["sh", "-c", "cat; sleep 0.1"])).run(grace=60)
    assert [each.exit_code for each in result] == [3, 0] and result.stdout == "part\n"


@pytest.mark.parametrize("way", ["run", "aio"])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_one_that_does_not_start_ends_all(cage: Cage, way: str, where: int, tmp_path: Path) -> None:
    commands = [cage.cmd(["sleep", "60"]) for _ in range(3)]
    commands[where] = cage.cmd([tmp_path / "missing"])
    joined = commands[0] | commands[1] | commands[2]
    began = time.monotonic()
    with pytest.raises(StartError) as caught:
        joined.run() if way == "run" else asyncio.run(joined.aio())
    assert caught.value.errno == errno.ENOENT and caught.value.argv == (str(tmp_path / "missing"),)
    assert time.monotonic() - began < 30


def test_a_policy_that_cannot_be_is_found_before_anything_runs(cage: Cage, tmp_path: Path) -> None:
    wrong = Cage(Policy(allow=[tmp_path / "missing"]))
    here = Cage(Policy(allow_write=[tmp_path]))
    with pytest.raises(PolicyError):
        (wrong.cmd(["true"]) | here.cmd(["touch", tmp_path / "made"])).run()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("way", ["run", "aio"])
def test_the_time_is_that_of_the_whole(cage: Cage, way: str) -> None:
    joined = cage.cmd(["sh", "-c", "echo early; exec sleep 60"]) | cage.cmd(["cat"])
    with pytest.raises(CageTimeout, match="'sh' did not end") as caught:
        joined.run(timeout=0.5) if way == "run" else asyncio.run(joined.aio(timeout=0.5))
    assert caught.value.result.stdout == "early\n"


def test_inputs_by_name(cage: Cage) -> None:
    left, right = cage.cmd(["seq", "3"]) | cage.cmd(["tac"]), cage.cmd(["cat"])
    merge = cage.cmd(["sh", "-c", "cat; paste /dev/fd/$LEFT /dev/fd/$RIGHT"], inputs={"LEFT": left, "RIGHT": right})
    result = (cage.cmd(["cat"]) | merge | cage.cmd(["tr", "\t", "+"])).run(input="head\n")
    assert result.stdout == "head\n3+\n2+\n1+\n"
    assert [each.argv[0] for each in result] == ["cat", "seq", "tac", "cat", "sh", "tr"]


def test_a_stage_can_be_used_twice_and_run_alone(cage: Cage) -> None:
    twice = cage.cmd(["sed", "s/$/x/"])
    assert (twice | twice | twice).run(input="a\n").stdout == "axxx\n"
    assert twice.run(input="a\n").stdout == "ax\n"


def test_stages_of_open_sessions(cage: Cage) -> None:
    with Cage(Policy()) as session:
        session.run(["sh", "-c", "echo kept > /tmp/kept"])
        assert (session.cmd(["cat", "/tmp/kept"]) | session.cmd(["wc", "-l"])).run().stdout.strip() == "1"
        assert session.run(["true"]).ok


def test_where_the_ends_lead(cage: Cage, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from a file\n")
    with open(tmp_path / "in") as source, open(tmp_path / "out", "w") as target:
        result = (cage.cmd(["cat"]) | cage.cmd(["sh", "-c", "cat; echo oops >&2"])).run(stdin=source, stdout=target)
    assert result.stdout is None and result[1].stderr == "oops\n"
    assert (tmp_path / "out").read_text() == "from a file\n"


def test_what_cannot_be_joined_is_refused(cage: Cage) -> None:
    stage = cage.cmd(["cat"])
    with pytest.raises(TypeError):
        stage | ["cat"]  # type: ignore[operator]
    with pytest.raises(TypeError, match="made by cmd"):
        cage.cmd(["cat"], inputs={"A": ["cat"]})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="not a name of a variable"):
        cage.cmd(["cat"], inputs={"A=B": stage})
    with pytest.raises(ValueError, match="argv is empty"):
        cage.cmd([])
    with pytest.raises(ValueError, match="choose one"):
        stage.run(input="x", stdin=0)
    with pytest.raises(ValueError, match="timeout must not be negative"):
        stage.run(timeout=-1)


async def cancelled(joined: object, after: float) -> None:
    task = asyncio.ensure_future(joined.aio())  # type: ignore[attr-defined]
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_task_leaves_nothing(cage: Cage) -> None:
    joined = AsyncCage(Policy()).cmd(["sleep", "60"]) | cage.cmd(["cat"])

    async def main() -> None:
        await asyncio.gather(*(cancelled(joined, 0.02 * number) for number in range(8)))

    asyncio.run(main())
    assert (cage.cmd(["echo", "still"]) | cage.cmd(["cat"])).run().stdout == "still\n"


def test_a_cancel_scope_of_anyio_that_cancels_again_and_again(cage: Cage) -> None:
    anyio = pytest.importorskip("anyio")

    async def main() -> None:
        for number in range(5):
            with anyio.move_on_after(0.01 + 0.03 * number) as scope:
                await (cage.cmd(["sleep", "60"]) | cage.cmd(["cat"])).aio()
            assert scope.cancelled_caught

    anyio.run(main)


STREAM = int(os.environ.get("PSB_STREAM_MB", "300"))  # 10240, and nothing of it stays either


def kib(pid: int | str, what: str) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(what))


@pytest.mark.parametrize("way", ["run", "aio"])
@pytest.mark.timeout(600)
def test_a_long_stream_passes_and_the_host_keeps_none_of_it(cage: Cage, way: str) -> None:
    count = STREAM << 20
    joined = cage.cmd(["head", "-c", str(count), "/dev/zero"]) | cage.cmd(["cat"]) | cage.cmd(["wc", "-c"])
    warm = (cage.cmd(["head", "-c", "8M", "/dev/zero"]) | cage.cmd(["cat"]) | cage.cmd(["wc", "-c"])).run()
    assert warm.stdout.strip() == str(8 << 20)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from here on
    before = kib("self", "VmHWM")
    result = joined.run(timeout=500) if way == "run" else asyncio.run(joined.aio(timeout=500))
    assert result.stdout.strip() == str(count) and result.ok
    assert kib("self", "VmHWM") - before < 16 << 10


def test_stages_that_change_the_size_of_their_pipes_lose_nothing(cage: Cage) -> None:
    resize = "import contextlib, fcntl, os, sys\ndef resize(fd, size):\n    with contextlib.suppress(OSError):\n"
    resize += "        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)\n"
    writes = "for i in range(400):\n    os.write(1, b'%08d' % i * 2048)\n    resize(1, 4096 << i % 9)\n"
    reads = "seen = b''\nwhile got := os.read(0, 30000):\n    seen += got\n    resize(0, 4096 << len(seen) % 9)\n"
    reads += "print(seen == b''.join(b'%08d' % i * 2048 for i in range(400)))\n"
    result = (cage.cmd(["python3", "-c", resize + writes]) | cage.cmd(["python3", "-c", resize + reads])).run(
        timeout=60
    )
    assert result.ok and result.stdout == "True\n"
