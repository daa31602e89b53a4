"""Claim: a process that has confined itself reads, writes, connects and signals no more than its policy says, whatever
it holds open, starts or asks for, and only when no thread of it is left out."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Report, read_report, victim

pytestmark = [pytest.mark.guest, pytest.mark.landlock(6)]

# The modules that an attack uses later are imported first: afterwards the directory may be closed.
START = """
    import ctypes, json, os, signal, socket, subprocess, sys, threading
    from pysandbox import Cage, Policy, confine
    from pysandbox.errors import CageError, ConfineError
    import errno as names

    def attempt(name, act):
        try:
            value, error = act(), None
        except OSError as raised:
            value, error = str(raised), names.errorcode.get(raised.errno, type(raised).__name__)
        except (CageError, RuntimeError) as raised:
            value, error = str(raised), type(raised).__name__
        print(json.dumps({"try": name, "errno": error, "value": repr(value)}), flush=True)

    def executed(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise PermissionError(names.EACCES if "Permission denied" in done.stderr else names.EIO, done.stderr)

    libc = ctypes.CDLL(None, use_errno=True)
    def call(number, *arguments):
        if libc.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), "")
    secret, public, own, pid = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    here = Policy(allow=[public, sys.prefix, sys.base_prefix], allow_write=[own])
"""


@pytest.fixture
def places(tmp_path: Path) -> Iterator[list[str]]:
    for name in ("secret", "public", "own"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret" / "key").write_text("the key")
    (tmp_path / "public" / "text").write_text("for all")
    with victim() as process:
        yield [*(str(tmp_path / name) for name in ("secret", "public", "own")), str(process.pid)]
        assert process.untouched
    assert [each.name for each in (tmp_path / "secret").iterdir()] == ["key"]


def program(places: list[str], body: str) -> Report:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", textwrap.dedent(START) + textwrap.dedent(body), *places]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=places[2])
    return read_report(done.returncode, done.stdout, done.stderr)


ATTACKS = """
    directory = os.open(secret, os.O_RDONLY)
    place = os.open(secret, os.O_PATH)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def attack(when):
        attempt(when + "read what is granted", lambda: open(public + "/text").read())
        attempt(when + "write what is granted", lambda: open(own + "/file", "w").close())
        attempt(when + "read", lambda: open(secret + "/key").read())
        attempt(when + "write", lambda: open(public + "/more", "w"))
        attempt(when + "by an open directory", lambda: os.open("key", os.O_RDONLY, dir_fd=directory))
        attempt(when + "by a place", lambda: os.open("key", os.O_RDONLY, dir_fd=place))
        attempt(when + "after fchdir", lambda: (os.fchdir(directory), open("key"))[1])
        attempt(when + "link out", lambda: os.link(secret + "/key", own + "/link", follow_symlinks=False))
        attempt(when + "a child", lambda: executed("cat", secret + "/key"))
        attempt(when + "rename out", lambda: os.rename(secret + "/key", own + "/key"))
        attempt(when + "connect", lambda: socket.create_connection(("127.0.0.1", port), 5).close())
        attempt(when + "datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close())
        attempt(when + "unix socket", lambda: socket.socket(socket.AF_UNIX).close())
        attempt(when + "signal", lambda: os.kill(pid, 0))
        attempt(when + "trace", lambda: call(NR_ptrace, 16, pid, 0, 0))
        attempt(when + "memory", lambda: open(f"/proc/{pid}/mem", "rb").close())
"""


def numbered(body: str) -> str:
    return f"    NR_ptrace = {117 if os.uname().machine == 'aarch64' else 101}\n{body}"


def test_what_is_not_granted_is_closed_by_every_way(places: list[str]) -> None:
    report = program(places, numbered(ATTACKS) + """
    attack("before: ")
    os.replace(own + "/key", secret + "/key"); os.unlink(own + "/link"); os.chdir(own); os.unlink(public + "/more")
    confine(here)
    attack("")
    """)  # fmt: skip
    before = {name: each.errno for name, each in report.attempts.items() if name.startswith("before: ")}
    assert {name for name, errno in before.items() if errno} <= {"before: trace", "before: memory"}  # Yama
    after = {name: each.errno for name, each in report.attempts.items() if not name.startswith("before: ")}
    assert {name for name, errno in after.items() if errno is None} == {"read what is granted", "write what is granted"}
    assert {after[name] for name in ("read", "by an open directory", "by a place", "after fchdir")} == {"EACCES"}
    assert after["signal"] == "EPERM" and after["connect"] == "EACCES"


def test_all_that_it_starts_is_confined_with_it(places: list[str]) -> None:
    report = program(places, """
    confine(here)
    again = "import sys; open(sys.argv[1] + '/key')"
    attempt("after an exec", lambda: executed(sys.executable, "-c", again, secret))
    child = os.fork()
    if not child:
        attempt("in a copy", lambda: open(secret + "/key"))
        os._exit(0)
    os.waitpid(child, 0)
    thread = threading.Thread(target=lambda: attempt("in a thread", lambda: open(secret + "/key")))
    thread.start(), thread.join()
    """)  # fmt: skip
    assert report.differs(dict.fromkeys(("after an exec", "in a copy", "in a thread"), "EACCES")) == {}


def test_with_another_thread_it_is_refused_by_its_name_and_nothing_has_changed(places: list[str]) -> None:
    report = program(places, """
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait, name="the other one")
    thread.start()
    attempt("confine", lambda: confine(here))
    attempt("still free", lambda: open(secret + "/key").read())
    wait.set(), thread.join()
    attempt("alone", lambda: confine(here).landlock_abi)
    attempt("read", lambda: open(secret + "/key"))
    """)  # fmt: skip
    assert report.differs({"confine": "EINVAL", "still free": None, "alone": None, "read": "EACCES"}) == {}
    assert "the other one" in report["confine"].value


def test_who_shares_its_memory_without_being_a_thread_is_found(places: list[str]) -> None:
    report = program(places, """
    CLONE_VM, stack = 0x100, ctypes.create_string_buffer(65536)
    top = ctypes.addressof(stack) + 65536 & ~15
    libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    pause = ctypes.cast(libc.pause, ctypes.c_void_p)
    child = libc.clone(pause, top, CLONE_VM | signal.SIGCHLD, None)
    attempt("confine", lambda: confine(here))
    os.kill(child, signal.SIGKILL), os.waitpid(child, 0)
    attempt("alone", lambda: confine(here).landlock_abi)
    """)  # fmt: skip
    assert report.differs({"confine": "EINVAL", "alone": None}) == {}
    assert "shares its memory" in report["confine"].value


def test_a_second_call_narrows_and_never_widens(places: list[str]) -> None:
    report = program(places, """
    confine(here)
    attempt("wider", lambda: confine(Policy(allow=[secret, public], allow_write=[own])))
    attempt("as before", lambda: open(own + "/a", "w").close())
    attempt("narrower", lambda: confine(Policy(allow=[public])).write)
    attempt("read", lambda: open(public + "/text").read())
    attempt("write", lambda: open(own + "/b", "w"))
    attempt("null", lambda: open("/dev/null", "w").close())
    attempt("wider than the second", lambda: confine(here))
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait, name="late")
    thread.start()
    attempt("with a thread", lambda: confine(Policy()))
    wait.set()
    """)  # fmt: skip
    assert report["wider"].errno == report["wider than the second"].errno == "PolicyError"
    assert "filesystem.allow" in report["wider"].value
    assert {name: report[name].errno for name in ("as before", "narrower", "read", "null")} == dict.fromkeys(
        ("as before", "narrower", "read", "null")
    )
    assert report["write"].errno == "EACCES"
    assert report["with a thread"].errno == "EINVAL" and "late" in report["with a thread"].value


def test_no_cage_can_be_opened_from_inside_and_the_error_says_so(places: list[str]) -> None:
    report = program(places, """
    attempt("before", lambda: __import__("subprocess").run([sys.executable, "-c", "import pysandbox; "
            "assert pysandbox.run(['/bin/true']).ok"], check=True) and None)
    confine(here)
    attempt("a cage", lambda: Cage(Policy()).run(["/bin/true"]))
    attempt("a smaller one", lambda: Cage(Policy(isolation="landlock")).run(["/bin/true"]))
    """)  # fmt: skip
    assert report["before"].errno is None
    assert report["a cage"].errno and report["a smaller one"].errno
    assert all("has confined itself" in str(report[name].value) for name in ("a cage", "a smaller one"))


def test_a_cage_s_program_can_confine_itself_further(tmp_path: Path) -> None:
    import pysandbox

    (tmp_path / "file").write_text("x")
    code = """
import os, sys
from pysandbox import Policy, confine
print(open(sys.argv[1]).read())
confine(Policy(base=False))
try:
    open(sys.argv[1])
except OSError as error:
    print(error.errno)
"""
    result = pysandbox.run(
        [sys.executable, "-c", code, str(tmp_path / "file")],
        policy=pysandbox.Policy(allow=[str(tmp_path), *filter(os.path.isdir, sys.path)]),
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert str(result.stdout).split() == ["x", "13"], result


def test_capabilities_go_and_limits_are_lowered_and_not_raised(places: list[str]) -> None:
    report = program(places, """
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
    confine(here.narrow(open_files=250))
    attempt("limit", lambda: resource.getrlimit(resource.RLIMIT_NOFILE))
    def raised():
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
        except ValueError as error:
            raise OSError(1, str(error))
    attempt("raised", raised)
    attempt("no_new_privs", lambda: libc.prctl(39, 0, 0, 0, 0))
    attempt("bounding or permitted", lambda: [cap for cap in range(41) if libc.prctl(23, cap, 0, 0, 0) == 1]
            if os.getuid() == 0 else [])
    """)  # fmt: skip
    assert (report["limit"].value, report["raised"].errno) == ("(200, 250)", "EPERM")
    assert (report["no_new_privs"].value, report["bounding or permitted"].value) == ("1", "[]")


# Landlock's own part of it (ABI 8) is answered as if it had been done, where it is asked for; the rest is the filter's.
TOGETHER = """
    from pysandbox.launch import confine as laid
    sys.path.append(sys.argv[5])
    from kernel.inject import ALLOW_ALL, ERRNO, answering, install
    do, laid.confine = laid.confine, lambda plan: do(plan._replace(all_threads=True))
    LANDLOCK_TSYNC = 8
    install(answering(ERRNO, "landlock_restrict_self", {1: LANDLOCK_TSYNC}))
    install(answering(ERRNO | names.EINVAL, "landlock_restrict_self", {1: 0}))
    ready, turn, over = threading.Event(), threading.Event(), threading.Event()
    def other():
        prepare()
        attempt("before", lambda: socket.socket(socket.AF_UNIX).close())
        ready.set(), turn.wait()
        attempt("in the other", lambda: socket.socket(socket.AF_UNIX).close())
        over.set()
    threading.Thread(target=other, name="the other one").start()
    ready.wait()
    try:
        attempt("confine", lambda: confine(here).landlock_abi)
    finally:
        turn.set(), over.wait()
"""
TESTS = str(Path(__file__).parent.parent)


def test_where_landlock_can_take_the_other_threads_along_the_filter_does_too(places: list[str]) -> None:
    report = program([*places, TESTS], "    prepare = lambda: None\n" + TOGETHER)
    assert report.differs({"before": None, "confine": None, "in the other": "EPERM"}) == {}


def test_a_thread_that_the_filter_cannot_take_along_is_told(places: list[str]) -> None:
    """It has a filter of its own."""
    report = program([*places, TESTS], "    prepare = lambda: install(ALLOW_ALL)\n" + TOGETHER)
    assert report.differs({"before": None, "confine": "EINVAL", "in the other": None}) == {}
    assert "the other one" in report["confine"].value
