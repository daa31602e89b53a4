"""Claim: a cage that root starts is nobody outside: no process of it has root's id, nor a group of root's, so that what
is handed in, a hole in another wall, or a server that asks who is there, meets nobody. Nor does what is done on behalf.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pysandbox._native import lib

from pysandbox import PIPE, Cage, CageError, Grant, Policy, Runtime, StartError, UnsupportedError
from pysandbox.errors import WeakerWarning
from pysandbox.live.processes import descendants, status_of
from pysandbox.probe.kernel import unmapped

from .harness import PYTHON, caged, policy, program, uncaged, wait_until

pytestmark = [pytest.mark.root, pytest.mark.guest]
NOBODY = lib.PSB_OUTSIDE
OTHER = 12345
IDS = (b"Uid", b"Gid")
EVERY_WAY = [
    pytest.param({}, {}, id="plain"),
    pytest.param({"strict": True}, {}, id="strict"),
    pytest.param({"allow_ips": ["192.0.2.7:443"]}, {}, id="supervised"),
    pytest.param({}, {"watch": ["file", "network"]}, id="watched"),
    pytest.param({"state": "scratch"}, {}, id="scratch"),
    pytest.param({"memory_mb": 256, "max_pids": 32}, {}, id="limits"),
]


def allow(event: object, context: object) -> None:
    """Everything."""


def options_of(options: dict[str, object]) -> dict[str, object]:
    return {**options, "policy_fn": allow} if options else {}


@pytest.mark.parametrize("run_as", ["nobody", "self", "root"])
@pytest.mark.parametrize(("rules", "options"), EVERY_WAY)
def test_no_process_of_it_has_an_id_of_root(
    run_as: str, rules: dict[str, object], options: dict[str, object], tmp_path: Path
) -> None:
    assert status_of(os.getpid())[b"Uid"].split() == [b"0"] * 4, "the control: this is root"
    wanted = Policy(run_as=run_as, allow_write=[Grant(str(tmp_path))], **rules)  # type: ignore[arg-type]
    argv = [PYTHON, "-c", "print('up', flush=True); input()"]
    with (
        Cage(wanted, **options_of(options)) as cage,  # type: ignore[arg-type]
        cage.spawn(argv, stdin=PIPE, stdout=PIPE) as process,
    ):
        assert process.stdout is not None and process.stdin is not None and cage.init_pid is not None
        process.stdout.readline()
        told = [status_of(pid) for pid in (cage.init_pid, *descendants(cage.init_pid))]
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.wait()
    assert len(told) == 2
    for status in told:
        assert {name: status[name].split() for name in IDS} == dict.fromkeys(IDS, [b"%d" % NOBODY] * 4)
        assert status[b"Groups"].split() == []


# ---- a wall with a hole --------------------------------------------------------------------------------------------

REACH = """
    import signal, socket
    links = socket.socket(fileno=FD)
    _, fds, _, _ = socket.recv_fds(links, 1, 3)
    tree, secret, process = fds
    attempt("a file below", lambda: open(os.open("inner", os.O_RDONLY, dir_fd=tree)).read())
    attempt("a new file", lambda: os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=tree))
    attempt("the file again", lambda: open(f"/proc/self/fd/{secret}").read())
    attempt("its mode", os.fchmod, secret, 0o644)
    attempt("its owner", os.fchown, secret, os.getuid(), os.getgid())
    attempt("a signal", call, "pidfd_send_signal", process, 0, 0, 0)
    attempt("its descriptors", call, "pidfd_getfd", process, 0, 0)
"""


@contextmanager
def handed_in(private: Path) -> Iterator[int]:
    """A socket in which a directory and a file of root's lie, and a process of root's."""
    private.mkdir(mode=0o700)
    (private / "inner").write_text("inner")
    (private / "inner").chmod(0o600)
    ours, theirs = socket.socketpair()
    tree = os.open(private, os.O_PATH | os.O_DIRECTORY)
    secret = os.open(private / "inner", os.O_RDONLY)
    process = os.pidfd_open(os.getpid())
    with ours, theirs:
        socket.send_fds(ours, [b"x"], [tree, secret, process])
        for fd in (tree, secret, process):
            os.close(fd)
        os.set_inheritable(theirs.fileno(), True)
        yield theirs.fileno()


def test_descriptors_of_root_s_lead_to_nothing_more(tmp_path: Path) -> None:
    private = tmp_path / "private"
    with handed_in(tmp_path / "control") as fd:
        control = uncaged(program(REACH, FD=fd), pass_fds=[fd])
    assert [name for name, each in control.attempts.items() if each.errno] == [], "the control: root may"
    with handed_in(private) as fd:
        attack = caged(program(REACH, FD=fd), policy(), pass_fds=[fd])
    assert [name for name, each in attack.attempts.items() if not each.errno] == []
    assert sorted(os.listdir(private)) == ["inner"] and os.stat(private / "inner").st_mode & 0o777 == 0o600


LOST = """
    import signal
    attempt("environ", lambda: open(f"/proc/{VICTIM}/environ", "rb").read())
    attempt("memory", lambda: open(f"/proc/{VICTIM}/mem", "r+b"))
    attempt("descriptors", os.listdir, f"/proc/{VICTIM}/fd")
    attempt("a signal", os.kill, VICTIM, 0)
    attempt("trace", call, "ptrace", 16, VICTIM, 0, 0)
    attempt("limits", call, "prlimit64", VICTIM, 7, ctypes.create_string_buffer(struct.pack("QQ", 64, 64)), 0)
    attempt("a private file", open, PRIVATE)
    attempt("a node", os.chmod, NODE, 0o600)
    attempt("a setting", open, "/proc/sys/kernel/core_pattern", "w")
"""


def test_without_any_other_wall_it_would_reach_nothing_of_root_s(tmp_path: Path) -> None:
    """The ids alone, in the host's own namespaces."""
    private, node = tmp_path / "private", tmp_path / "null"
    private.write_text("secret")
    private.chmod(0o600)
    subprocess.run(["mknod", "-m", "666", str(node), "c", "1", "3"], check=True)
    ids = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            argv = program("import ctypes, struct", LOST, VICTIM=victim.pid, PRIVATE=str(private), NODE=str(node))
            attack = uncaged([*ids, *argv])
            control = uncaged(argv)
        finally:
            victim.kill()
    refused = [name for name, each in control.attempts.items() if each.errno]
    assert refused == [], "the control: root may"
    assert [name for name, each in attack.attempts.items() if not each.errno] == []


# ---- what is done on behalf ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rules", "options"), EVERY_WAY)
def test_a_server_sees_nobody(rules: dict[str, object], options: dict[str, object], tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = tmp_path / "s"
    code = f"import socket; s = socket.socket(1); s.connect({str(path)!r}); s.recv(1)"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        listener.settimeout(60)

        def serve() -> None:
            for _ in range(2):
                with listener.accept()[0] as met:
                    _, uid, gid = struct.unpack("iII", met.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                    seen.append((uid, gid))

        thread = threading.Thread(target=serve)
        thread.start()
        subprocess.run([PYTHON, "-c", code], check=True)
        wanted = Policy(unix_sockets=[Grant(str(path))], **rules)  # type: ignore[arg-type]
        with Cage(wanted, **options_of(options)) as cage:  # type: ignore[arg-type]
            done = cage.run([PYTHON, "-c", code], timeout=60)
        if done.exit_code:
            subprocess.run([PYTHON, "-c", code], check=False)  # or the server waits on
        thread.join(60)
    assert done.exit_code == 0, done.stderr
    assert seen == [(0, 0), (NOBODY, NOBODY)], "the control is root"


@pytest.mark.parametrize(("rules", "options"), EVERY_WAY)
def test_the_host_stays_who_and_what_it_was(
    rules: dict[str, object], options: dict[str, object], tmp_path: Path
) -> None:
    """Its threads are root again after each call, and its memory can be looked into as before (PR_GET_DUMPABLE)."""

    def picture() -> list[object]:
        tasks = [status_of(int(task)) for task in os.listdir("/proc/self/task")]
        told = {tuple(status.get(name) for name in (*IDS, b"Groups", b"CapEff")) for status in tasks}
        return [told, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)]

    before = picture()
    code = "import os, socket; a, b = socket.socketpair(1, 2); open('made', 'w').close(); os.listdir('.')"
    wanted = Policy(allow_write=[Grant(str(tmp_path))], **rules)  # type: ignore[arg-type]
    with Cage(wanted, **options_of(options)) as cage:  # type: ignore[arg-type]
        assert cage.run([PYTHON, "-c", code], cwd=str(tmp_path), timeout=60).exit_code == 0
        cage.files.write(f"{tmp_path}/by the host", "x")
    assert wait_until(lambda: picture() == before, 30), "another cage is made ready meanwhile, and then no more"


# ---- its limits count ----------------------------------------------------------------------------------------------


def test_max_pids_holds_for_it_without_a_controller() -> None:
    code = """
        import os, signal
        made = []
        try:
            for _ in range(64):
                pid = os.fork()
                if not pid: signal.pause()
                made.append(pid)
        except OSError as error: print(len(made), error.errno)
        for pid in made: os.kill(pid, signal.SIGKILL)
    """
    with Cage(Policy(max_pids=16)) as cage:
        done = cage.run([PYTHON, "-c", textwrap.dedent(code)], timeout=60)
    count, number = map(int, str(done.stdout).split())
    assert (count, number) == (15, 11), done


# ---- where it cannot be --------------------------------------------------------------------------------------------


@pytest.mark.landlock(6)
def test_landlock_isolation_is_root_and_says_so() -> None:
    with pytest.warns(WeakerWarning, match="keeps root's id"):
        notes = caged(program("say('uid', os.getuid())"), policy("landlock"))
    assert notes["uid"].value == 0
    assert notes.result is not None
    assert any("keeps root's id" in note.message for note in notes.result.notes)
    with pytest.raises(UnsupportedError):
        caged(program("say('uid', os.getuid())"), policy("landlock", strict=True))


def test_a_root_without_the_powers_says_so() -> None:
    host = """
        from pysandbox import Policy, UnsupportedError, run
        done = run(["cat", "/proc/self/uid_map"], Policy())
        print(done.stdout.split()[1], any("keeps root's id" in note.message for note in done.notes))
        try: run(["true"], Policy(strict=True))
        except UnsupportedError as error: print(error.feature)
    """
    argv = ["setpriv", "--bounding-set", "-setpcap", "--", *own_python(host)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "True", "idmapped_mounts"], done.stderr
    control = subprocess.run(own_python(host), capture_output=True, text=True, timeout=60)
    assert control.stdout.split() == [str(NOBODY), "False"], control.stderr


def own_python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_root_of_a_user_namespace_of_its_own_is_nobody_already() -> None:
    host = """
        from pysandbox import Policy, run
        done = run(["cat", "/proc/self/uid_map"], Policy(strict=True))
        print(done.stdout.split()[1], any("keeps root's id" in note.message for note in done.notes))
    """
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "unshare", "-Ur"]
    done = subprocess.run([*user, *own_python(host)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "False"], done.stderr


# ---- nobody else decides that it keeps root's id --------------------------------------------------------------------

RACER = """
    import os, random, sys, time
    os.chdir(sys.argv[1])
    print(flush=True)
    while True:
        os.rename("below", "away")
        os.symlink(sys.argv[2], "below")
        os.unlink("below")
        os.rename("away", "below")
        time.sleep(random.random() / 200)  # some starts are to come through
"""


def test_a_path_that_cannot_be_looked_at_is_an_error_and_no_reason_to_keep_root_s_id(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    assert unmapped([str(tmp_path / "there")]) == (), "the control: it can be mapped"
    for name, number in (("missing", errno.ENOENT), ("link", errno.ELOOP), ("there/below", errno.ENOENT)):
        with pytest.raises(StartError) as raised:
            unmapped([str(tmp_path / name)])
        assert (raised.value.step, raised.value.errno) == ("idmap", number)


def test_the_owner_of_a_granted_tree_who_moves_it_about_never_gets_a_cage_with_root_s_id(tmp_path: Path) -> None:
    for each in (tmp_path, *tmp_path.parents[:2]):
        each.chmod(0o755)
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    (tree / "below").mkdir(parents=True)
    elsewhere.mkdir()
    for each in (tree, tree / "below"):
        os.chown(each, OTHER, OTHER)
    rules = Policy(allow_write=[Grant(str(tree)), Grant(str(tree / "below"), optional=True)])
    argv = [PYTHON, "-c", textwrap.dedent(RACER), str(tree), str(elsewhere)]
    user = {"user": OTHER, "group": OTHER, "extra_groups": ()}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, **user) as racer:  # type: ignore[call-overload]
        assert racer.stdout is not None
        racer.stdout.readline()
        outside = [outside_of(rules) for _ in range(60)]
        racer.kill()
    assert str(NOBODY) in outside, "the control: some were started"
    assert "0" not in outside


def outside_of(rules: Policy) -> str:
    """The id outside of one cage; why there was none."""
    try:
        with Cage(rules, runtime=Runtime(warm=0)) as cage:
            return str(cage.run(["cat", "/proc/self/uid_map"]).stdout).split()[1]
    except CageError as error:
        return str(error)
