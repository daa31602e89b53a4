"""Detached cages: they outlive their host, answer to whoever may read their record, and leave nothing when closed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import pytest

from _support.hosts import comes_true, host, said
from pysandbox import PIPE, Cage, CageClosedError, Policy, PolicyError, StartError, detached
from pysandbox.detached import DONE, Detached
from pysandbox.records import registry
from pysandbox.records.orphans import find_orphans, remove

LOOP = "echo on; while :; do sleep 0.01; done"


def kinds() -> list[tuple[str, str]]:
    return [(each.kind, each.id) for each in find_orphans()]


def test_it_tells_its_output_and_its_end(registry_home: Path) -> None:
    command = Cage().detach(
        ["/bin/sh", "-c", "echo out; echo err >&2; echo $A; pwd; exit 3"], env={"A": "B"}, cwd="/tmp"
    )
    result = command.result()
    assert (result.exit_code, result.reason, result.caged) == (3, "exited", True)
    assert (result.stdout, result.stderr) == (b"out\nB\n/tmp\n", b"err\n")
    assert command.poll() == 3
    command.close()
    assert (kinds(), os.listdir(registry_home / "pysandbox")) == ([], [])
    command.close()


def test_it_outlives_its_host_and_is_found_again(registry_home: Path) -> None:
    body = f"from pysandbox import Cage; print(Cage().detach(['/bin/sh', '-c', {LOOP!r}]).id, flush=True); input()"
    with host(body) as gone:
        cage_id = said(gone)
        gone.kill()
        gone.wait()

    assert kinds() == [("detached", cage_id)]
    again = Cage.attach(cage_id)
    assert again.argv == ("/bin/sh", "-c", LOOP)
    assert again.poll() is None
    assert comes_true(lambda: again.output() == b"on\n")
    again.terminate()
    assert again.wait(10) == -signal.SIGTERM
    assert again.result().reason == "signaled"
    assert kinds() == [("spool", cage_id)]
    again.close()


def test_its_shim_is_nobody_s_child_and_holds_no_terminal(registry_home: Path) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    (record,) = registry.live()
    fields = Path(f"/proc/{record.host.pid}/stat").read_text().rpartition(")")[2].split()
    parent, session, terminal = int(fields[1]), int(fields[3]), int(fields[4])
    assert parent != os.getpid()
    assert (session != os.getsid(0), terminal) == (True, 0)
    command.close()


def test_waiting_ends_when_the_patience_does(registry_home: Path) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    with pytest.raises(TimeoutError, match="still runs"):
        command.wait(0.05)
    command.kill()
    assert command.wait(10) == -signal.SIGKILL
    command.close()


def test_close_ends_what_does_not_want_to(registry_home: Path) -> None:
    command = Cage(Policy(grace_sec=0.1)).detach(["/bin/sh", "-c", f"trap '' TERM; {LOOP}"])
    assert comes_true(lambda: command.output() == b"on\n")
    command.close()
    assert (kinds(), os.listdir(registry_home / "pysandbox")) == ([], [])
    with pytest.raises(CageClosedError, match="no detached cage"):
        Cage.attach(command.id)


def test_its_output_is_kept_up_to_the_cap(registry_home: Path) -> None:
    command = Cage(Policy(output_mb=1)).detach(["/bin/sh", "-c", "head -c 3000000 /dev/zero; echo end >&2"])
    result = command.result()
    assert (len(result.stdout), result.truncated, result.stderr) == (1 << 20, True, b"end\n")
    command.close()


def test_a_shim_that_is_killed_takes_its_cage_along(registry_home: Path) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    (record,) = registry.live()
    os.kill(record.host.pid, signal.SIGKILL)
    assert command.wait(10) == -signal.SIGKILL
    assert comes_true(lambda: not registry.live())
    assert command.result().reason == "cancelled"
    command.close()
    assert kinds() == []


def test_a_shim_that_is_told_to_end_ends_its_command_first(registry_home: Path) -> None:
    polite = f"trap 'echo told; exit 4' TERM; {LOOP}"
    command = Cage(Policy(grace_sec=30)).detach(["/bin/sh", "-c", polite])
    assert comes_true(lambda: command.output() == b"on\n")
    (record,) = registry.live()
    os.kill(record.host.pid, signal.SIGTERM)
    assert command.wait(20) == 4
    assert command.output() == b"on\ntold\n"
    command.close()


def test_removing_it_as_an_orphan_leaves_nothing(registry_home: Path) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    (orphan,) = find_orphans()
    remove(orphan)
    assert (kinds(), os.listdir(registry_home / "pysandbox")) == ([], [])
    command.close()


@pytest.mark.parametrize(
    ("argv", "policy", "error"),
    [
        (["nope"], Policy(), StartError),
        (["/bin/true"], Policy(allow=["/not/there"]), PolicyError),
        (["/bin/true"], Policy(caged=False), PolicyError),
        ([], Policy(), ValueError),
        (["a\0b"], Policy(), ValueError),
    ],
    ids=["program", "path", "uncaged", "empty", "NUL"],
)
def test_what_cannot_start_says_so_and_leaves_nothing(
    registry_home: Path, argv: list[str], policy: Policy, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        Cage(policy).detach(argv)
    if isinstance(raised.value, StartError):
        assert (raised.value.step, raised.value.filename) == ("exec", "nope")
    assert kinds() == []
    assert not (registry_home / "pysandbox").exists() or os.listdir(registry_home / "pysandbox") == []


def test_a_directory_with_modules_of_our_names_changes_nothing(
    registry_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "trap"
    (trap / "pysandbox").mkdir(parents=True)
    for name in ("json.py", "pysandbox/__init__.py", "pysandbox/shim.py", "sitecustomize.py"):
        (trap / name).write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')")
    monkeypatch.chdir(trap)
    command = Cage().detach(["/bin/true"])
    assert command.wait(20) == 0
    assert not (tmp_path / "sprung").exists()
    command.close()


# ---- the shim's door ---------------------------------------------------------------------------------------


def connected(command: Detached) -> socket.socket:
    """By a descriptor of the directory: a path may be longer than an address can be (unix(7))."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with registry.opened() as directory:
        sock.connect(f"/proc/self/fd/{directory}/{command.id}.spool/socket")
    return sock


def talk(command: Detached, message: bytes) -> bytes:
    """What the shim answers: nothing, and the end of the connection."""
    with connected(command) as sock:
        sock.settimeout(10)
        sock.send(message)
        return sock.recv(100)


@pytest.mark.parametrize(
    "message",
    [
        b"{}", b"[]", b"null", b"\xff", b"{" * 3000, b"x" * 5000, b'{"key": 1, "do": "end"}',
        b'{"key": "wrong", "do": "signal", "number": 9}', b'{"do": "end"}', b'{"key": "\\ud800", "do": "end"}',
    ],
    ids=lambda message: repr(message[:12]),
)  # fmt: skip
def test_a_message_without_the_key_does_nothing(registry_home: Path, message: bytes) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    assert talk(command, message) == b""
    assert command.poll() is None
    key = registry.live()[0].key
    assert talk(command, json.dumps({"key": key, "do": "signal", "number": 9}).encode()) == DONE, "the control"
    assert command.wait(10) == -signal.SIGKILL
    command.close()


@pytest.mark.parametrize("extra", [{"number": 0}, {"number": 65}, {"number": "9"}, {"number": 1e99}, {}], ids=str)
def test_a_number_that_is_no_signal_does_nothing(registry_home: Path, extra: dict[str, object]) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    key = registry.live()[0].key
    assert talk(command, json.dumps({"key": key, "do": "signal", **extra}).encode()) == DONE
    assert command.poll() is None
    command.close()


def test_peers_that_say_nothing_do_not_keep_others_out(registry_home: Path) -> None:
    command = Cage().detach(["/bin/sleep", "600"])
    with ExitStack() as silent:
        for _ in range(100):
            silent.enter_context(connected(command))
        command.kill()
    assert command.wait(10) == -signal.SIGKILL
    command.close()


# ---- the command line ----------------------------------------------------------------------------------------


def pysandbox(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pysandbox", *arguments], capture_output=True, text=True, timeout=60)


def test_the_command_line_detaches_shows_and_attaches(registry_home: Path) -> None:
    script = f"trap 'exit 5' TERM; echo out; echo err >&2; {LOOP.replace('echo on', ':')}"
    started = pysandbox("run", "--detach", "--", "sh", "-c", script)
    assert (started.returncode, started.stderr) == (0, "")
    cage_id = started.stdout.strip()
    assert comes_true(lambda: pysandbox("logs", cage_id).stdout == "out\n")
    assert [each["state"] for each in json.loads(pysandbox("ps", "--json").stdout)] == ["detached"]
    assert pysandbox("kill", cage_id[:-2]).returncode == 0
    ended = pysandbox("attach", cage_id[-8:])
    assert (ended.returncode, ended.stdout, ended.stderr[:4]) == (5, "out\n", "err\n")
    assert pysandbox("attach", cage_id, "--close").returncode == 5
    assert kinds() == []


@pytest.mark.parametrize("is_first", [False, True])
def test_pid_1_keeps_nothing_and_says_so(registry_home: Path, is_first: bool) -> None:
    """The control: a PID 1 that stays until its command has ended."""
    line = shlex.join([sys.executable, "-m", "pysandbox", "run", "--detach", "--", "sh", "-c", "sleep 0.2; echo kept"])
    wait = shlex.join([sys.executable, "-m", "pysandbox", "attach", "--close"])
    script = f"exec {line}" if is_first else f"{line} && {wait}"
    space = ["unshare", "--user", "--map-current-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run([*space, "sh", "-c", script], capture_output=True, text=True, timeout=60)
    if "unshare failed" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no PID namespace here: {done.stderr}")
    if is_first:
        assert (done.returncode, done.stdout) == (125, "") and "PID 1" in done.stderr and "Leave out" in done.stderr
    else:
        assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["kept"])


def test_without_an_id_it_is_the_newest(registry_home: Path) -> None:
    assert "there is no detached cage" in pysandbox("logs").stderr
    for code in ("3", "4"):
        assert pysandbox("run", "--detach", "--", "sh", "-c", f"echo {code}; exit {code}").returncode == 0
    assert comes_true(lambda: pysandbox("logs").stdout == "4\n")
    assert [pysandbox("attach", "--close").returncode for _ in range(2)] == [4, 3]


def test_attach_leaves_it_running_on_ctrl_c(registry_home: Path) -> None:
    cage_id = pysandbox("run", "--detach", "--", "sh", "-c", LOOP).stdout.strip()
    line = [sys.executable, "-m", "pysandbox", "attach", cage_id]
    attached = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert said(attached) == "on"
    attached.send_signal(signal.SIGINT)
    _, told = attached.communicate(timeout=20)
    assert (attached.returncode, "runs on" in told) == (130, True)
    command = Cage.attach(cage_id)
    assert command.poll() is None
    command.close()


# ---- what a Result tells, and what is read ------------------------------------------------------------------------


def test_what_it_has_planted_was_refused_and_lacks_is_in_its_result(registry_home: Path, tmp_path: Path) -> None:
    policy = Policy(allow_write=[str(tmp_path)], allow_execve=["/bin/sh", "/bin/mkdir"], run_as="self")
    command = Cage(policy).detach(["/bin/sh", "-c", f"mkdir {tmp_path}/.vscode; id; true"])
    result = command.result()
    assert [(each.target, each.rule) for each in result.denials] == [("/usr/bin/id", "process.allow_execve")]
    assert [each.message for each in result.notes if each.event == "sandbox.planted"], result.notes
    assert {each.event for each in command.notes} <= {each.event for each in result.notes}
    command.close()


def test_the_command_line_says_of_it_what_it_says_of_any_run(registry_home: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "pysandbox", *arguments], cwd=tmp_path, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=60)  # fmt: skip

    started = call("run", "--detach", "-r", "pytest", "--host", "a.example", "--", "mkdir", ".vscode")
    assert "weaker: network.egress" in started.stderr
    ended = call("attach", started.stdout.strip(), "--close")
    assert ended.returncode == 0 and f"the command made '{tmp_path}/.vscode'" in ended.stderr


def test_it_reads_its_file_on_when_its_host_is_gone(registry_home: Path, tmp_path: Path) -> None:
    """More than a pipe holds, and late, so that whoever feeds it has to outlive the host."""
    (tmp_path / "input").write_bytes(b"x" * 300_000)
    body = f"""
        from pysandbox import Cage
        print(Cage().detach(["/bin/sh", "-c", "sleep 0.3; cat | wc -c"], stdin=open({str(tmp_path / "input")!r})).id,
              flush=True)
        input()
    """
    with host(textwrap.dedent(body)) as gone:
        cage_id = said(gone)
        gone.kill()
        gone.wait()
    again = Cage.attach(cage_id)
    assert (again.wait(30), again.output()) == (0, b"300000\n")
    again.close()


def test_the_shim_takes_nothing_but_our_package_from_the_directory_that_holds_it(
    registry_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module there that is named like one of Python's own comes after it, as in every other program."""
    package = Path(detached.__file__).parent
    (tmp_path / "pysandbox").symlink_to(package)
    for name in ("selectors", "hmac", "secrets", "struct"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.setattr(detached, "__file__", str(tmp_path / "pysandbox" / "detached.py"))
    command = Cage().detach(["/bin/echo", "on"])
    assert (command.wait(30), command.output()) == (0, b"on\n")
    command.close()


def test_what_nobody_would_write_to_is_refused_by_name(registry_home: Path) -> None:
    with pytest.raises(ValueError, match="stdin: a detached command outlives"):
        Cage().detach(["/bin/cat"], stdin=PIPE)
    for ends in (os.openpty(), [each.detach() for each in socket.socketpair()]):
        with pytest.raises(ValueError, match="stdin: a detached command outlives"):
            Cage().detach(["/bin/cat"], stdin=ends[0])
        os.close(ends[0])
        os.close(ends[1])


def test_it_reads_a_pipe_to_its_end_when_its_host_is_gone(registry_home: Path) -> None:
    """More than pipes hold, so that whoever passes it on has to outlive the host; what it does not read stays."""
    ours, theirs = os.pipe()
    body = f"""
        from pysandbox import Cage
        pipe = open("/proc/{os.getpid()}/fd/{ours}", "rb", buffering=0)
        print(Cage().detach(["/bin/sh", "-c", "head -c 300000 | wc -c"], stdin=pipe).id, flush=True)
        input()
    """
    with host(body) as gone:
        cage_id = said(gone)
        gone.kill()
        gone.wait()
    again = Cage.attach(cage_id)
    os.set_blocking(ours, False)
    with open(theirs, "wb", buffering=0) as pipe:
        pipe.write(b"x" * 300_000)
        assert (again.wait(30), again.output()) == (0, b"300000\n")
        pipe.write(b"for the next")
    assert os.read(ours, 100) == b"for the next"
    os.close(ours)
    again.close()


def test_its_pipe_ends_with_the_last_writer(registry_home: Path) -> None:
    ours, theirs = os.pipe()
    command = Cage().detach(["/bin/cat"], stdin=ours)
    os.close(ours)
    os.write(theirs, b"all there is")
    assert comes_true(lambda: command.output() == b"all there is")
    assert command.poll() is None
    os.close(theirs)
    assert (command.wait(30), command.output()) == (0, b"all there is")
    command.close()


def test_the_command_line_has_it_read_a_file_or_a_pipe_and_says_that_it_reads_no_socket(
    registry_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "input").write_text("from the file\n")
    command = [sys.executable, "-m", "pysandbox", "run", "--workdir", "none", "--detach", "--", "cat"]
    piped = subprocess.run(command, cwd=tmp_path, input="piped", capture_output=True, text=True, timeout=60)
    with open(tmp_path / "input") as file:
        filed = subprocess.run(command, cwd=tmp_path, stdin=file, capture_output=True, text=True, timeout=60)
    assert filed.stderr == piped.stderr == ""
    near, far = socket.socketpair()
    with near, far:
        near.sendall(b"lost")
        talked = subprocess.run(command, cwd=tmp_path, stdin=far.fileno(), capture_output=True, text=True, timeout=60)
    assert "reads nothing from this socket" in talked.stderr
    for started, output in ((piped, b"piped"), (filed, b"from the file\n"), (talked, b"")):
        again = Cage.attach(started.stdout.strip())
        assert (again.wait(30), again.output()) == (0, output)
        again.close()
