"""The callback as its page shows it: phases, async callbacks in the host's loop, ordinary clients under a callback."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from pathlib import Path

import pytest

from pysandbox import AsyncCage, Cage, CallEvent, Context, Policy, Runtime
from pysandbox.errors import PolicyError, UnsupportedError
from pysandbox.policy.model import Grant

DIAL = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1]))); print('open')"


def allow(event: object, context: object) -> None:
    """Everything."""


def test_an_async_callback_runs_in_the_loop_that_uses_the_cage() -> None:
    loops: list[object] = []

    async def policy(event: object, context: object) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    cage = AsyncCage(Policy(), policy_fn=policy)  # made before the loop runs

    async def main() -> object:
        result = await cage.run(["sh", "-c", "true; /bin/true"], check=True)
        assert result.ok
        return asyncio.get_running_loop()

    used = asyncio.run(main())
    assert loops and all(loop is used for loop in loops)


def test_an_async_session_is_refused_by_its_callback_and_tightened() -> None:
    async def policy(event: object, context: object) -> object:
        return getattr(event, "argv", ())[-1:] == ("refused",)

    async def main() -> None:
        async with AsyncCage(Policy(), policy_fn=policy, watch=["exec", "network"]) as cage:
            script = "/bin/echo refused || echo EPERM"
            assert (await cage.run(["sh", "-c", script])).stdout == "EPERM\n"
            assert cage.cage.context.restrict_network([]) == 0

    asyncio.run(main())


def test_the_callback_of_document_002_runs_as_it_is_printed() -> None:
    """Fig. 2, but for its comments: it was refused every exec, for what it calls was not there, or raised."""

    def on_event(event: CallEvent, ctx: Context) -> object:
        if event.syscall == "execve":
            if event.argv_contains("curl"):
                return "audit"
            ctx.restrict_network([])
            ctx.deny_path("/etc/shadow")
        if event.category == "file":
            return "audit"
        return 0

    flagged: list[str] = []
    runtime = Runtime(sink=lambda event: flagged.append(event.type), warm=0)
    with Cage(Policy(), policy_fn=on_event, runtime=runtime) as cage:  # type: ignore[arg-type]
        result = cage.run(["sh", "-c", "curl --version | head -c 4; cat /etc/shadow"])
    assert (result.stdout, result.exit_code, result.denials) == ("curl", 1, ())
    assert "cage.flagged" in flagged and "cage.callback_failed" not in flagged


def test_two_that_tighten_at_once_leave_nothing_stopped() -> None:
    """Each took what the other had stopped for stopped before, and left it so."""
    with Cage(Policy(), watch=["network"]) as cage:
        crowd = [cage.spawn(["sleep", "600"]) for _ in range(6)]

        def tighten() -> None:
            for _ in range(15):
                cage.context.restrict_network([])

        both = [threading.Thread(target=tighten) for _ in range(3)]
        for each in both:
            each.start()
        for each in both:
            each.join()
        states = cage.run(["sh", "-c", 'for each; do cut -d " " -f 3 /proc/$each/stat; done', "sh",
                           *(str(each.pid) for each in crowd)]).stdout  # fmt: skip
        assert states == "S\n" * len(crowd)


@pytest.mark.parametrize("path", ["/etc/shadow", "/nowhere", "/nowhere/below"])
def test_what_the_policy_denies_and_the_cage_has_not_got_is_closed_as_it_is(path: str) -> None:
    with Cage(Policy(deny=[Grant("/nowhere", optional=True)]), watch=["network"]) as cage:
        cage.context.deny_path(path)
        assert cage.run(["sh", "-c", f"mkdir -p {path}"]).exit_code == 1


@pytest.mark.parametrize("path", ["{}/w/x", "{}/r/x", "/tmp/x", "/etc/../etc/shadow", "/etc/nothing", "/bin/nothing"])
def test_what_may_appear_later_is_no_closed_path(tmp_path: Path, path: str) -> None:
    """Denied where it is not there, as an optional path: the host, or the cage, may make it."""
    for name in "wr":
        (tmp_path / name).mkdir()
    path = path.format(tmp_path)
    denied = [Grant(each, optional=True) for each in (f"{tmp_path}/w/x", f"{tmp_path}/r/x", "/tmp/x", "/bin/nothing")]
    policy = Policy(allow=[tmp_path / "r"], allow_write=[tmp_path / "w"], deny=denied)
    with Cage(policy, watch=["network"]) as cage, pytest.raises(FileNotFoundError):
        cage.context.deny_path(path)


@pytest.mark.parametrize("times", range(20))
def test_the_network_is_gone_before_the_test_runner_s_first_instruction(times: int) -> None:
    def phases(event: object, context: object) -> None:
        if "pytest" in getattr(event, "argv", ()):
            context.restrict_network([])  # type: ignore[attr-defined]

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        rules = Policy(isolation="landlock", run_as="self", allow_ips=(f"127.0.0.1:{port}",))
        script = 'python3 -c "$1" $2 && exec python3 -c "$1" $2 pytest'
        result = Cage(rules, policy_fn=phases).run(["sh", "-c", script, "sh", DIAL, port], timeout=60)
        assert result.stdout == "open\n" and "Operation not permitted" in result.stderr
        assert [denial.rule for denial in result.denials] == ["policy_fn"]


def test_a_path_is_closed_for_every_process_and_an_absent_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "directory").mkdir()
    with Cage(Policy(allow=(Grant(str(tmp_path)),)), watch=["network"]) as cage:
        for name in ("link", "directory"):
            cage.context.deny_path(str(tmp_path / name))
        assert cage.run(["cat", str(tmp_path / "secret")]).exit_code == 1
        assert cage.run(["ls", str(tmp_path / "directory")]).exit_code == 2
        assert cage.run(["chmod", "700", str(tmp_path / "secret")]).exit_code == 1
        with pytest.raises(FileNotFoundError):
            cage.context.deny_path("/nowhere")
    assert (tmp_path / "secret").read_text() == "s"


def test_landlock_isolation_says_why_it_cannot() -> None:
    rules = Policy(isolation="landlock", run_as="self", allow_ips=("127.0.0.1",))
    with Cage(rules) as cage:
        with pytest.raises(UnsupportedError, match="landlock"):
            cage.context.deny_path("/etc/passwd")
        with pytest.raises(UnsupportedError, match="landlock"):
            cage.context.restrict_max_processes(5)
        with pytest.raises(PolicyError, match="not of this cage"):
            cage.context.restrict_pid_network(1, [])


CLIENTS = {
    "curl": "curl -sS --max-time 20 http://127.0.0.1:$1/",
    "wget": "wget -q -T 20 -O - http://127.0.0.1:$1/",
    "python3": 'python3 -c "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())" '
    "http://127.0.0.1:$1/",
    "asyncio": 'python3 -c "import asyncio, sys\n'
    "async def main():\n"
    "    r, w = await asyncio.open_connection('127.0.0.1', int(sys.argv[1]))\n"
    "    w.write(b'GET / HTTP/1.0\\r\\n\\r\\n'); print((await r.read()).decode())\n"
    'asyncio.run(main())" $1',
}


@pytest.mark.parametrize("client", CLIENTS)
def test_ordinary_clients_work_under_a_callback(client: str) -> None:
    if client in ("curl", "wget") and shutil.which(client) is None:
        pytest.skip(f"{client} is missing: apt-get install {client}")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection = server.accept()[0]
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello")

        thread = threading.Thread(target=serve)
        thread.start()
        port = str(server.getsockname()[1])
        rules = Policy(isolation="landlock", run_as="self", allow_ips=(f"127.0.0.1:{port}",))
        result = Cage(rules, policy_fn=allow).run(["sh", "-c", CLIENTS[client], "sh", port], timeout=60)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        assert "hello" in result.stdout, result.stderr
