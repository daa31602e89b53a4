"""A session is one place for many commands: they share processes, /tmp and loopback, and no other cage sees them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from pysandbox import DEVNULL, PIPE, Cage, CageClosedError, Event, Policy, Process, Runtime

pytestmark = pytest.mark.guest

SERVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection = server.accept()[0]
    connection.sendall(b"served\\n")
    connection.close()
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10) as connection:
    print(connection.recv(100).decode(), end="")
"""


def start_server(cage: Cage) -> tuple[Process, str]:
    server = cage.spawn(["/usr/bin/python3", "-c", SERVER], stdin=DEVNULL, stdout=PIPE)
    assert server.stdout is not None
    return server, server.stdout.readline().decode().strip()


def test_a_background_process_is_seen_and_signalled_by_the_next_command() -> None:
    with Cage() as cage, cage.spawn(["/bin/sleep", "600"]) as sleeper:
        seen = cage.run(["/bin/cat", f"/proc/{sleeper.pid}/comm"])
        killed = cage.run(["/bin/kill", "-USR1", str(sleeper.pid)])

        assert (seen.stdout, killed.exit_code) == ("sleep\n", 0)
        assert sleeper.wait(timeout=10) == -signal.SIGUSR1


def test_a_daemon_of_a_shell_outlives_its_command() -> None:
    with Cage() as cage:
        pid = str(cage.run(["/bin/sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"], timeout=20).stdout).strip()

        assert cage.run(["/bin/kill", "-0", pid]).ok
        assert cage.run(["/bin/kill", pid]).ok


def test_tmp_and_shared_memory_are_shared_and_end_with_the_session() -> None:
    files = [f"{place}/kept-{os.getpid()}" for place in ("/tmp", "/dev/shm")]
    with Cage() as cage:
        cage.run(["/bin/sh", "-c", 'for each; do echo kept > "$each"; done', "sh", *files], check=True)
        assert cage.run(["/bin/cat", *files]).stdout == "kept\nkept\n"

    with Cage() as other:
        assert other.run(["/bin/ls", "/tmp", "/dev/shm"]).stdout == "/dev/shm:\n\n/tmp:\n"
    assert not any(map(os.path.exists, files))


def test_a_loopback_server_is_reached_by_the_next_command_and_by_no_other_cage() -> None:
    with Cage() as cage, Cage() as other:
        server, port = start_server(cage)

        assert cage.run(["/usr/bin/python3", "-c", CLIENT, port], timeout=20).stdout == "served\n"
        refused = other.run(["/usr/bin/python3", "-c", CLIENT, port], timeout=20)

        assert "ConnectionRefusedError" in str(refused.stderr)
        server.kill()
        server.wait(timeout=10)
        server.close()


def test_another_cage_does_not_see_the_processes() -> None:
    with Cage() as cage, Cage() as other, cage.spawn(["/bin/sleep", "12345"]):
        mine, theirs = (
            each.run(["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]) for each in (cage, other)
        )

        assert "sleep 12345" in str(mine.stdout) and "sleep 12345" not in str(theirs.stdout)


def test_environment_and_directory_are_each_command_s_own() -> None:
    with Cage() as cage:
        cage.run(["/bin/sh", "-c", "cd /usr; export A=1; ulimit -n 10"])

        result = cage.run(["/bin/sh", "-c", "pwd; echo ${A-unset}; ulimit -n"], cwd="/tmp", env={"B": "2"})

        assert result.stdout == "/tmp\nunset\n4096\n"


def test_a_crash_of_one_command_leaves_the_session() -> None:
    with Cage() as cage:
        assert cage.run(["/bin/sh", "-c", "kill -SEGV $$"]).signal == signal.SIGSEGV
        everyone = cage.run(["/bin/sh", "-c", "sleep 600 & kill -KILL -1; wait $!; echo $?"], timeout=20)
        assert everyone.stdout == "137\n", "it reached the command's own child"
        assert cage.run(["/bin/echo", "on"]).stdout == "on\n"


def test_close_ends_what_still_runs_and_may_be_called_again() -> None:
    with Cage(Policy(grace_sec=0)) as cage:
        running = cage.spawn(["/bin/sleep", "600"])
        cage.close()
        cage.close()

        assert running.wait(timeout=10) < 0
        with pytest.raises(CageClosedError):
            cage.run(["/bin/true"])
    running.close()
    running.close()


def test_an_exception_in_the_body_closes_the_cage() -> None:
    with pytest.raises(KeyError), Cage() as cage:
        running = cage.spawn(["/bin/sleep", "600"])
        raise KeyError

    assert running.wait(timeout=10) < 0
    running.close()


def test_a_spawn_without_a_session_has_a_cage_of_its_own() -> None:
    cage = Cage()

    assert cage.run(["/bin/sh", "-c", "echo x > /tmp/file"]).ok
    assert cage.run(["/bin/cat", "/tmp/file"]).exit_code == 1


def test_scratch_is_shared_by_the_cages_of_one_session(tmp_path: Path) -> None:
    """LIFE-11: state = "scratch" keeps /scratch for later cages of the same session; ephemeral does not."""
    kept = Policy(state="scratch")
    with Cage(kept, session="one") as first:
        first.run(["/bin/sh", "-c", "echo kept > /scratch/file"], check=True)
        with Cage(kept, session="one") as second, Cage(kept, session="two") as stranger:
            assert second.run(["/bin/cat", "/scratch/file"]).stdout == "kept\n"
            assert not stranger.run(["/bin/cat", "/scratch/file"]).ok
    with Cage(Policy(state="ephemeral"), session="one") as fresh:
        assert not fresh.run(["/bin/cat", "/scratch/file"]).ok
        fresh.runtime.end_sessions()
    with Cage(kept, session="one") as later:
        assert not later.run(["/bin/cat", "/scratch/file"]).ok
        later.runtime.end_sessions()


@pytest.mark.parametrize("obeys", [True, False], ids=["obeys", "stubborn"])
def test_what_the_end_of_a_session_ends_is_told_so(obeys: bool) -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append, warm=0)
    script = "echo; exec sleep 600" if obeys else "trap '' TERM; echo; while :; do sleep 1; done"
    with Cage(Policy(grace_sec=30 if obeys else 0.1), runtime=runtime) as cage:
        ended = cage.run(["/bin/true"])
        running = cage.spawn(["/bin/sh", "-c", script], stdout=PIPE)
        assert running.stdout is not None and running.stdout.read(1)
    running.close()

    killed = [event.data for event in events if event.type == "subagent.killed"]
    assert [each["reason"] for each in killed] == ["session_ended"]
    assert ended.ok
    runtime.drain()
