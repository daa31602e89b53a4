"""`spawn` is like Popen, in bytes: pipes, files, inherited descriptors, a pty, signals, and an fd to wait on."""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
from pathlib import Path

import pytest

import pysandbox
from pysandbox import DEVNULL, PIPE, Cage, CageTimeout

pytestmark = pytest.mark.guest

WAIT = "while :; do sleep 0.05; done"
TREE = f"trap 'echo parent; exit 0' TERM; (trap 'echo child; exit 0' TERM; echo ready; {WAIT}) & {WAIT}"


def test_a_conversation_over_pipes() -> None:
    with Cage().spawn(["/bin/cat"], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is None
        for word in (b"one\n", b"two\n", b"\xff\x00\n"):
            process.stdin.write(word)
            process.stdin.flush()
            assert process.stdout.readline() == word
        process.stdin.close()

        assert (process.wait(timeout=10), process.poll(), process.caged) == (0, 0, True)


def test_communicate_moves_more_than_a_pipe_holds() -> None:
    sent = os.urandom(3_000_000)
    with Cage().spawn(
        ["/bin/sh", "-c", "cat; cat /dev/zero | head -c 2000000 >&2"], stdin=PIPE, stdout=PIPE, stderr=PIPE
    ) as process:
        out, error = process.communicate(sent, timeout=30)

    assert (out, error) == (sent, bytes(2_000_000))


def test_files_of_the_host_serve_as_stdio(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"from the host\n")
    command = ["/bin/sh", "-c", "cat; echo error >&2"]
    with (
        (tmp_path / "in").open("rb") as source,
        (tmp_path / "out").open("wb") as sink,
        Cage().spawn(command, stdin=source, stdout=sink, stderr=sink) as process,
    ):
        assert process.wait(timeout=10) == 0

    assert (tmp_path / "out").read_bytes() == b"from the host\nerror\n"


def test_stderr_can_join_stdout() -> None:
    result = pysandbox.run(["/bin/sh", "-c", "echo out; echo error >&2"], stderr=subprocess.STDOUT)

    assert (result.stdout, result.stderr) == ("out\nerror\n", None)


def test_devnull_is_empty_and_swallows() -> None:
    with Cage().spawn(["/bin/sh", "-c", "cat | wc -c; echo x"], stdin=DEVNULL, stdout=DEVNULL) as process:
        assert process.stdout is None and process.wait(timeout=10) == 0


def test_an_inherited_descriptor_has_its_number() -> None:
    read_end, write_end = os.pipe()
    try:
        with Cage().spawn(["/bin/bash", "-c", f"echo over the pipe >&{write_end}"], pass_fds=(write_end,)) as process:
            os.close(write_end)
            write_end = -1
            assert process.wait(timeout=10) == 0
        assert os.read(read_end, 100) == b"over the pipe\n"
        assert os.read(read_end, 100) == b"", "no copy of the write end is left anywhere"
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def test_a_pty_is_a_terminal() -> None:
    with Cage().spawn(["/bin/sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo terminal"], pty=True) as process:
        assert process.pty_fd is not None and process.stdin is process.stdout is process.stderr is None
        seen = b""
        while b"terminal\r\n" not in seen:
            assert select.select([process.pty_fd], [], [], 10)[0], seen
            seen += os.read(process.pty_fd, 100)
        assert process.wait(timeout=10) == 0


def test_the_descriptor_of_a_process_serves_a_selector() -> None:
    with Cage() as cage, selectors.DefaultSelector() as selector:
        waits = [cage.spawn(["/bin/cat"], stdin=PIPE) for _ in range(3)]
        for process in waits:
            selector.register(process, selectors.EVENT_READ, process)
        assert selector.select(0) == []

        second = waits[1].stdin
        assert second is not None
        second.close()

        assert [key.data for key, _ in selector.select(10)] == [waits[1]]
        assert waits[1].poll() == 0 and waits[0].poll() is None
        for process in waits:
            selector.unregister(process)
            process.kill()
            process.wait(timeout=10)
            process.close()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1, signal.SIGINT], ids=lambda each: each.name
)
def test_a_signal_arrives(number: signal.Signals) -> None:
    with Cage().spawn(["/bin/sleep", "600"]) as process:
        process.signal(number)

        assert process.wait(timeout=10) == -number
        assert (process.result().signal, process.result().exit_code) == (number, 128 + number)


def test_a_signal_goes_to_the_process_or_to_its_tree() -> None:
    for tree, heard in ((False, {b"parent\n"}), (True, {b"parent\n", b"child\n"})):
        with Cage() as cage, cage.spawn(["/bin/sh", "-c", TREE], stdout=PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"

            process.signal(signal.SIGTERM, tree=tree)

            assert process.wait(timeout=10) == 0
            assert {process.stdout.readline() for _ in heard} == heard
            if not tree:
                assert not select.select([process.stdout], [], [], 0.2)[0], "the child did not hear it"


def test_terminate_and_kill_after_the_end_do_nothing() -> None:
    with Cage().spawn(["/bin/true"]) as process:
        assert process.wait(timeout=10) == 0
        process.terminate()
        process.kill()

        assert process.poll() == 0


def test_waiting_too_long_leaves_the_process() -> None:
    with Cage().spawn(["/bin/sleep", "600"]) as process:
        with pytest.raises((CageTimeout, TimeoutError)):
            process.wait(timeout=0.1)

        assert process.poll() is None
        process.kill()
        assert process.wait(timeout=10) == -9


def test_leaving_the_with_block_ends_the_process() -> None:
    with Cage().spawn(["/bin/sleep", "600"]) as process:
        pass

    assert process.poll() is not None
    process.close()


def test_the_pid_is_the_one_that_the_cage_sees() -> None:
    with Cage() as cage, cage.spawn(["/bin/sh", "-c", "echo $$"], stdout=PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        assert process.argv == ("/bin/sh", "-c", "echo $$")
