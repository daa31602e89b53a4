"""Programs whose event loop is not that of the standard library: uvloop drives all that is awaited; under gevent, whose
threads are greenlets, all goes on but what would need a thread, and that is refused by name."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap

import pytest

from pysandbox import PIPE, AsyncCage, Cage, CageTimeout, Policy, sandboxed

uvloop = pytest.importorskip("uvloop")
uvloop.run(asyncio.sleep(0))  # libuv keeps a pipe from its first loop on
MOST = 60.0  # seconds: a hang is a failure


@sandboxed(Policy(), timeout=MOST, pool=2)
def square(number: int) -> int:
    return number * number


@sandboxed
def sleeps() -> None:
    import time

    time.sleep(600)


async def runs_and_times_out() -> None:
    async with AsyncCage() as cage:
        assert (await cage.run(["cat"], input="x" * 300_000)).stdout == "x" * 300_000
        with pytest.raises(CageTimeout):
            await cage.run(["sleep", "600"], timeout=0.2)


async def streams_of_a_process() -> None:
    async with AsyncCage() as cage:
        async with await cage.spawn(["cat"], stdin=PIPE, stdout=PIPE) as process:
            assert process.stdin and process.stdout
            process.stdin.write(b"it\n")
            await process.stdin.drain()
            assert await process.stdout.readline() == b"it\n"
            process.stdin.write(b"x" * 4_000_000)
            process.stdin.close()
            assert len(await process.stdout.read()) == 4_000_000 and await process.wait() == 0
        async with await cage.spawn(["sh", "-c", "echo a; echo b; cat"], stdin=PIPE, stdout=PIPE) as process:
            assert process.stdout and await process.stdout.readline() == b"a\n"
            assert (await process.communicate(b"c\n"))[0] == b"b\nc\n"
        async with await cage.spawn(["sleep", "600"]) as process:
            with pytest.raises(TimeoutError):
                await process.wait(timeout=0.1)


async def lines_are_told() -> None:
    told: list[str] = []

    async def tell(line: str) -> None:
        told.append(line.strip())

    async with AsyncCage() as cage:
        await cage.run(["sh", "-c", "echo a; echo b"], on_stdout=tell)
    assert told == ["a", "b"]


async def pipelines() -> None:
    cage, data = Cage(Policy()), os.urandom(3_000_000)
    three = cage.cmd(["cat"]) | cage.cmd(["cat"]) | cage.cmd(["cat"])
    assert (await three.aio(input=data, text=False)).stdout == data
    with pytest.raises(CageTimeout):
        await (cage.cmd(["sleep", "600"]) | cage.cmd(["cat"])).aio(timeout=0.2)


async def cancelled_at_every_moment() -> None:
    import anyio

    cage = Cage(Policy())
    for number in range(6):
        with anyio.move_on_after(0.001 + 0.02 * number) as scope:
            await (cage.cmd(["sleep", "600"]) | cage.cmd(["cat"])).aio()
        assert scope.cancelled_caught
        with anyio.move_on_after(0.001 + 0.02 * number) as scope:
            async with AsyncCage() as inner:
                await inner.run(["sleep", "600"])
        assert scope.cancelled_caught
        with anyio.move_on_after(0.001 + 0.02 * number) as scope:
            await sleeps.aio()
        assert scope.cancelled_caught


async def functions() -> None:
    assert await asyncio.gather(*(square.aio(each) for each in range(6))) == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("use", [
    runs_and_times_out, streams_of_a_process, lines_are_told, pipelines, cancelled_at_every_moment, functions,
])  # fmt: skip
def test_under_uvloop(use: object) -> None:
    try:
        uvloop.run(asyncio.wait_for(use(), MOST))  # type: ignore[operator]
    finally:
        square.close()
        sleeps.close()


# ---- gevent ------------------------------------------------------------------------------------------------------

PATCHED = """
    import faulthandler; faulthandler.dump_traceback_later(90, exit=True)
    from gevent import monkey; monkey.patch_all()
    import gevent, os, time
    from pysandbox import Cage, CageExecutor, CageTimeout, PIPE, Policy, Template, UnsupportedError, sandboxed
    cage = Cage(Policy())

    @sandboxed(timeout=60, pool=2)
    def square(number: int) -> int:
        return number * number
"""


def under_gevent(tmp_path: object, body: str) -> str:
    script = f"{tmp_path}/patched.py"  # a function that is sandboxed has to be in a file
    with open(script, "w") as file:
        file.write(textwrap.dedent(PATCHED) + textwrap.dedent(body))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def gevent(request: pytest.FixtureRequest) -> None:
    if "gevent" in request.node.name:
        pytest.importorskip("gevent")


def test_under_gevent_commands_of_many_greenlets_run_at_once(tmp_path: object) -> None:
    said = under_gevent(tmp_path, """
    # each waits for the others: one that held the rest up would never see them
    fds = [os.pipe() for _ in range(4)]
    def one(number):
        with cage.spawn(["head", "-c", "1"], stdin=PIPE, stdout=PIPE) as process:
            started.append(number)
            while len(started) < 4:
                gevent.sleep(0.01)
            return process.communicate(b"%d" % number)[0]
    started = []
    jobs = [gevent.spawn(one, number) for number in range(4)]
    print([job.get() for job in jobs])
    job = gevent.spawn(cage.run, ["sleep", "600"])
    gevent.sleep(0.3)
    job.kill()
    print(job.dead, cage.run(["echo", "still"]).stdout.strip())
    """)  # fmt: skip
    assert said.splitlines() == ["[b'0', b'1', b'2', b'3']", "True still"]


def test_under_gevent_pipelines_functions_templates_and_executors_answer(tmp_path: object) -> None:
    said = under_gevent(tmp_path, """
    data = os.urandom(2_000_000)
    print((cage.cmd(["cat"]) | cage.cmd(["cat"])).run(input=data, text=False).stdout == data)
    try:
        (cage.cmd(["sleep", "600"]) | cage.cmd(["cat"])).run(timeout=0.2)
    except CageTimeout:
        print("late")
    print(square(3), list(square.map(range(4))), [each.get() for each in
          [gevent.spawn(lambda number=number: square.submit(number).result(60)) for number in range(4)]])
    square.close()
    with Template(Policy(), init="json") as template:
        print([each.value for each in template.map(square.__wrapped__, range(4))])
    with CageExecutor(Policy(), max_workers=2) as executor:
        print(list(executor.map(square.__wrapped__, range(4))))
    """)  # fmt: skip
    assert said.splitlines() == ["True", "late", "9 [0, 1, 4, 9] [0, 1, 4, 9]", "[0, 1, 4, 9]", "[0, 1, 4, 9]"]


def test_under_gevent_no_worker_is_handed_out_that_has_ended_while_it_waited(tmp_path: object) -> None:
    """Its poll(2) tells nothing of a descriptor that nobody asked anything of."""
    said = under_gevent(tmp_path, """
    from pysandbox.descriptors.polling import is_readable
    with Template(Policy(), init="json", parked=2) as template:
        waiting = [each.number for each in template._idle]
        for number in waiting:
            template.kill(number)
        while not all(is_readable(each.sock, 1) for each in template._idle):
            pass
        print(len(waiting), template.map(square.__wrapped__, [3])[0].value)
    """)  # fmt: skip
    assert said == "2 9\n"


def test_under_gevent_what_needs_a_thread_is_refused_by_name(tmp_path: object) -> None:
    said = under_gevent(tmp_path, """
    for what, make in (
        ("doors", lambda: Cage(Policy(hosts=["example.org"]))),
        ("ports", lambda: Cage(Policy(host_loopback_ports=[80]))),
        ("callback", lambda: Cage(Policy(), policy_fn=lambda event: True, watch=["exec"])),
    ):
        try:
            print(what, make().run(["true"]).ok)
        except UnsupportedError as error:
            print(what, error.feature, "gevent has put greenlets" in str(error))
    print(cage.run(["echo", "still"]).stdout.strip())
    """)  # fmt: skip
    assert said.splitlines() == ["doors threads True", "ports threads True", "callback threads True", "still"]


def test_under_gevent_what_was_replaced_on_the_host_is_not_shown(tmp_path: object) -> None:
    """Its poll(2) tells of no change in a table of mounts."""
    said = under_gevent(tmp_path, """
        from pysandbox import CageClosedError
        here = os.path.realpath(os.path.dirname(__file__))
        secret = os.path.join(here, "secret")
        open(secret, "w").write("old secret")
        with Cage(Policy(allow_write=[here], deny=[secret])) as cage:
            print(cage.run(["cat", secret]).exit_code)
            open(secret + ".new", "w").write("new secret")
            os.replace(secret + ".new", secret)
            try:
                print(cage.run(["cat", secret]).stdout)
            except CageClosedError as error:
                print(repr(secret) in str(error))
    """)  # fmt: skip
    assert said == "1\nTrue\n"
