"""What people type first, as they know it from subprocess, works in a cage; sync, and under asyncio."""

from __future__ import annotations

import asyncio
import io
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import PIPE, AsyncCage, Cage, Policy, PolicyError

pytestmark = pytest.mark.guest


def test_a_shell_reads_a_line_where_it_is_asked_to() -> None:
    assert pysandbox.run("echo hi | wc -c", shell=True).stdout.strip() == "3"
    assert pysandbox.run(["echo $0 $1", "a", "b"], shell=True).stdout == "a b\n", "as subprocess has it"
    for line in ("echo hi", b"echo hi"):
        with pytest.raises(TypeError, match="shell=True"):
            pysandbox.run(line)  # type: ignore[arg-type]
    for thing in (None, 5, Path("/bin/ls")):
        with pytest.raises(TypeError, match=f"argv must be a list .* not {type(thing).__name__}"):
            pysandbox.run(thing)  # type: ignore[arg-type]


def test_text_is_in_the_coding_that_was_asked_for() -> None:
    assert pysandbox.run(["printf", r"\344"], encoding="latin-1").stdout == "ä"
    assert pysandbox.run(["cat"], input="ä", encoding="utf-16").stdout == "ä"
    assert pysandbox.run(["printf", r"\344"], errors="backslashreplace").stdout == r"\xe4"
    assert pysandbox.run(["printf", r"\344"], text=False, capture_output=True).stdout == b"\xe4"
    with pytest.raises(UnicodeDecodeError):
        pysandbox.run(["printf", r"\344"], errors="strict")


@pytest.mark.parametrize(("options", "kind", "told"), [
    ({"text": False, "encoding": "utf-8"}, ValueError, "text=False"), ({"encoding": "nope"}, ValueError, "nope"),
    ({"errors": "nope"}, ValueError, "nope"), ({"encoding": "rot13"}, ValueError, "rot13"),
    ({"text": 1}, TypeError, "text must be"), ({"encoding": 8}, TypeError, "encoding must be"),
    ({"input": "x", "stdin": subprocess.DEVNULL}, ValueError, "choose one"), ({"timout": 1}, TypeError, "timout"),
])  # fmt: skip
def test_what_contradicts_itself_starts_nothing(options: dict[str, Any], kind: type[Exception], told: str) -> None:
    with pytest.raises(kind, match=told):
        pysandbox.run(["true"], **options)

    async def awaited() -> None:
        await AsyncCage().run(["true"], **options)

    with pytest.raises(kind, match=told):
        asyncio.run(awaited())


@pytest.mark.parametrize(("options", "told"), [
    ({"memory_mb": 100}, r"run([...], Policy(memory_mb=...))"), ({"hosts": ["x.org"]}, r"Policy(hosts=...)"),
    ({"memory": "1g"}, r"Policy(memory_mb=...)"), ({"labels": {}}, r"Cage(policy, labels=...)"),
    ({"pty": True}, "spawn([...], pty=...)"), ({"timout": 1}, "did you mean 'timeout'?"),
    ({"zzz": 1}, "it takes capture_output"),
])  # fmt: skip
def test_an_option_in_the_wrong_call_is_told_where_it_belongs(options: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        pysandbox.run(["true"], **options)

    async def awaited() -> None:
        await AsyncCage().run(["true"], **options)

    with pytest.raises(TypeError, match=re.escape(told)):
        asyncio.run(awaited())


def test_the_policy_s_options_and_a_command_s_are_none_of_a_cage() -> None:
    makers: list[Any] = [Cage, AsyncCage]
    for make in makers:
        with pytest.raises(TypeError, match=re.escape("Cage(Policy(memory_mb=...))")):
            make(memory_mb=100)
        with pytest.raises(TypeError, match=re.escape("it belongs to run([...], timeout=...)")):
            make(timeout=3)
        with pytest.raises(TypeError, match="did you mean 'policy_fn'"):
            make(policy_fnn=print)
    spawn: Any = pysandbox.spawn
    with pytest.raises(TypeError, match=re.escape("it belongs to run([...], timeout=...)")):
        spawn(["true"], timeout=3)


def test_a_process_of_text_is_spoken_to_line_by_line() -> None:
    with Cage().spawn(["cat"], text=True, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("eins\nzwéi\ndr")
        assert (process.stdout.readline(), process.returncode, process.args) == ("eins\n", None, ["cat"])
        assert process.communicate("ei") == ("zwéi\ndrei", ""), "what was read ahead is not lost"
        assert (process.returncode, process.poll(), process.wait(1), process.result().stdout) == (0, 0, 0, "zwéi\ndrei")


def test_a_letter_that_comes_in_two_pieces_is_one() -> None:
    script = r"printf '\303'; sleep 0.2; printf '\244\nend'"
    with pysandbox.spawn(script, shell=True, text=True, stdout=PIPE) as process:
        assert process.stdout is not None
        assert list(process.stdout) == ["ä\n", "end"]


def test_signals_are_sent_as_popen_sends_them() -> None:
    with Cage() as cage:
        for send, number in (("terminate", signal.SIGTERM), ("kill", signal.SIGKILL)):
            process = cage.spawn(["sleep", "60"])
            assert process.pid > 1
            with pytest.raises(TimeoutError):
                process.wait(timeout=0.05)
            getattr(process, send)()
            assert process.wait() == process.returncode == -number
        process = cage.spawn(["sleep", "60"])
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT


def test_a_recipe_is_a_policy_by_its_name() -> None:
    with Cage("python") as cage:
        assert cage.run(["python3", "-c", "print(1)"]).stdout == "1\n"
    assert pysandbox.run(["true"], policy="python").ok
    with pytest.raises(PolicyError, match='did you mean "python"'):
        Cage("pyton")
    with pytest.raises(TypeError, match="name of a recipe"):
        Cage(3)  # type: ignore[arg-type]


def test_a_cage_that_another_thread_closes_has_cancelled_its_command() -> None:
    with Cage() as cage:
        closing = threading.Timer(0.3, cage.close)
        closing.start()
        result = cage.run(["sleep", "60"])
        closing.join()
    assert (result.reason, result.exit_code) == ("cancelled", 143)


IN_A_POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pysandbox import CageTimeout, ExitError, run

def late():
    return run("echo first; sleep 60", shell=True, timeout=0.5)

def failing():
    return run(["false"], check=True)

with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    for call, kind in ((late, CageTimeout), (failing, ExitError)):
        try:
            pool.submit(call).result(30)
        except kind as error:
            print(error.result.stdout.strip(), error.result.exit_code)
"""


def test_errors_come_out_of_a_pool_of_processes() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_POOL], capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.splitlines() == ["first 124", " 1"], done.stderr


def test_an_async_callback_that_could_never_answer_is_told_at_once() -> None:
    async def allow(event: object, context: object) -> None:
        return None

    async def main() -> None:
        cage = Cage(policy_fn=allow)
        for call in (cage.run, cage.spawn):
            with pytest.raises(RuntimeError, match="AsyncCage"):
                call(["true"])
        assert (await asyncio.to_thread(cage.run, ["true"])).ok
        assert (await AsyncCage(policy_fn=allow).run(["true"])).ok

    asyncio.run(main())
    assert Cage(policy_fn=allow).run(["true"]).ok, "without a loop it has one of its own"


def test_the_same_is_awaited() -> None:
    async def main() -> None:
        async with AsyncCage("python") as cage:
            assert (await cage.run("echo hi | wc -c", shell=True)).stdout.strip() == "3"
            process = await cage.spawn(["cat"], text=True, stdin=PIPE, stdout=PIPE)
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("éin\nzwei\n")
            await process.stdin.drain()
            assert (await process.stdout.readline(), process.returncode) == ("éin\n", None)
            with pytest.raises(TypeError, match="of text"):
                process.stdin.write(b"x")  # type: ignore[arg-type]
            assert await process.communicate("drei") == ("zwei\ndrei", "")
            assert (process.returncode, process.poll(), process.args) == (0, 0, ["cat"])
            lines = await cage.spawn("echo 1; echo 2", shell=True, stdout=PIPE)
            assert lines.stdout is not None
            assert [line async for line in lines.stdout] == [b"1\n", b"2\n"]
            ended = await cage.spawn(["sleep", "60"])
            ended.send_signal(signal.SIGTERM)
            assert await ended.wait() == -signal.SIGTERM

    asyncio.run(main())


def test_output_that_is_not_captured_goes_where_the_host_s_goes() -> None:
    script = "from pysandbox import run; print(run(['echo', 'out'], capture_output=False).stdout)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert sorted(done.stdout.split()) == ["None", "out"], done.stderr


def test_a_stream_of_text_is_a_file() -> None:
    with pysandbox.spawn(["printf", "abc\ndef"], encoding="utf-8", stdout=PIPE) as process:
        assert isinstance(process.stdout, io.TextIOBase)
        assert (process.stdout.read(2), process.stdout.readline(), process.stdout.read()) == ("ab", "c\n", "def")
        assert (process.stdout.read(), process.stdout.readline()) == ("", "")


def test_files_do_not_hold_the_loop_up(project: Path) -> None:
    async def main() -> None:
        async with AsyncCage(Policy(workdir="write"), cwd=str(project)) as cage:
            files = cage.files
            await files.mkdir("a/b", parents=True, exist_ok=True)
            await files.write_text("a/b/x", "é")
            await files.rename("a/b/x", "x")
            assert (await files.read_text("x"), (await files.stat("x")).st_size) == ("é", 2)
            await files.remove("x")
            await files.rmdir("a/b")
            assert await files.list(project) == ["a"]

    asyncio.run(main())
