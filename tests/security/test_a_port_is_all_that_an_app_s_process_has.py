"""Claim: an app that is a process in a cage has its effects through its one port, as its grant says, and no other
reach: no file, no network, no program; and whatever it does to its port costs the host nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from _support.apps import manifest, reasons
from pysandbox.apps import App, AppOutcome, AppPackage, Kernel
from pysandbox.apps.package import PackageFile

RAW = """
import array, errno, os, socket, sys, time
from pysandbox.apps import wire
from pysandbox.apps.client import AppPort, PortDenied
port = AppPort()
raw = socket.socket(fileno=os.dup(int(os.environ[wire.VARIABLE])))
"""


def app(source: str, **changes: object) -> App:
    import json

    files = {
        "app.json": json.dumps(manifest(entrypoint=["python3", "main.py"], **changes)),
        "main.py": RAW + source,
    }
    return App.debug(AppPackage({name: PackageFile(text.encode(), False) for name, text in files.items()}))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work" / "docs").mkdir(parents=True)
    (tmp_path / "secret").write_text("the host's own")
    (tmp_path / "work" / "secret").write_text("the host's own")
    return tmp_path / "work"


def ran(source: str, work: Path, **changes: object) -> AppOutcome:
    with Kernel(work) as kernel:
        return app(source, **changes).run(kernel, debug=True)


def test_control_it_works_through_the_port_and_is_replayed(work: Path) -> None:
    source = """
port.write("docs/a", "x" * 100_000)
assert port.list("docs") == ["a"]
assert len(port.read("docs/a")) == 100_000
"""
    outcome = ran(source, work)
    assert outcome.ended == "exit 0" and not outcome.log
    assert (work / "docs/a").read_text() == "x" * 100_000
    assert app(source).replay(outcome.journal).ended == "exit 0"


def test_what_was_not_granted_is_denied_and_logged(work: Path) -> None:
    outcome = ran("""
for what in (lambda: port.read("secret"), lambda: port.read("../secret"), lambda: port.window("x"),
             lambda: port.emit("desk", "x"), lambda: port.channel("a", "b")):
    try:
        what()
    except PortDenied as denied:
        continue
    raise SystemExit(3)
""", work)  # fmt: skip
    assert outcome.ended == "exit 0"
    assert reasons(outcome) == ["denied_scope"] * 2 + ["denied_capability"] * 3


def test_there_is_no_other_reach(work: Path) -> None:
    """The file, the network, another program, the package itself, the host's processes, all tried in the cage."""
    outcome = ran(f"""
def attempt(what):
    try:
        what()
    except OSError as error:
        assert error.errno, error  # the kernel's
        return
    raise SystemExit(3)
for path in ({str(work / "secret")!r}, {str(work.parent / "secret")!r}, {str(work / "docs")!r}, "/etc/shadow"):
    attempt(lambda: os.stat(path))
attempt(lambda: open("main.py", "a"))
attempt(lambda: open("new", "w"))
attempt(lambda: os.execv("/bin/sh", ["sh", "-c", "exit 0"]))
attempt(lambda: socket.create_connection(("192.0.2.1", 80), 1))
attempt(lambda: os.kill({os.getpid()}, 0))
held = [fd for fd in range(3, 200) if os.path.exists("/proc/self/fd/%d" % fd)]
sockets = [fd for fd in held if os.readlink("/proc/self/fd/%d" % fd).startswith("socket:")]
assert set(sockets) == {{raw.fileno(), int(os.environ[wire.VARIABLE])}}, held
""", work)  # fmt: skip
    assert outcome.ended == "exit 0" and not outcome.log


@pytest.mark.parametrize(
    ("source", "ended"),
    [
        ("raw.send(b'x' * 70_000)\nraw.recv(1)", "trap: a record has"),
        ("raw.send(bytes((200, 0)))\nraw.recv(1)", "trap: no opcode"),
        ("raw.send(bytes((24, 1)) + b's\\xff\\0\\0\\0')\nraw.recv(1)", "trap: a value is cut"),
        ("for _ in range(100_000): raw.send(wire.record(0, ()))", "trap: it does not read"),
        ("raw.shutdown(socket.SHUT_WR); sys.exit(7)", "exit 7"),
        ("raw.shutdown(socket.SHUT_RD); raw.send(wire.record(0, ())); time.sleep(0.1); sys.exit(8)", "exit 8"),
        ("raw.send(wire.record(24, ('docs',))); os._exit(9)", "exit 9"),
        ("os.close(raw.fileno()); os.close(int(os.environ[wire.VARIABLE])); time.sleep(0.2); os._exit(10)", "exit 10"),
        ("raw.send(b''); time.sleep(0.1); os._exit(11)", "exit 11"),
    ],
)  # fmt: skip
def test_a_port_that_is_misused_ends_its_app_alone(work: Path, source: str, ended: str) -> None:
    with Kernel(work) as kernel:
        outcome = app(source).run(kernel, debug=True)
        assert outcome.ended.startswith(ended)
        assert app('port.write("docs/after", "x")').run(kernel, debug=True).ended == "exit 0"


def test_descriptors_that_are_sent_along_stay_nowhere(work: Path) -> None:
    before = os.listdir("/proc/self/fd")
    outcome = ran("""
many = array.array("i", [0] * 100)
for _ in range(50):
    raw.sendmsg([wire.record(0, ())], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, many)])
    assert raw.recv(100) == b"\\0\\0"
""", work)  # fmt: skip
    assert (outcome.ended, outcome.ticks) == ("exit 0", 50)
    assert len(os.listdir("/proc/self/fd")) < len(before) + 50  # 5,000 were sent; waiting cages have some


def test_a_handle_of_a_finished_run_serves_no_later_one(work: Path) -> None:
    with Kernel(work) as kernel:
        first = app("port.call('FS_OPEN', 'docs/a', 'w')").run(kernel, debug=True)
        number = int(first.journal.split(b'["ok",')[1].partition(b"]")[0])
        source = f"raw.send(wire.record(40, (wire.HandleNumber({number}), 1))); os._exit(raw.recv(100)[0])"
        outcome = app(source).run(kernel, debug=True)
    assert outcome.ended == "exit 3" and reasons(outcome) == ["denied_handle_owner"]


def test_files_changed_while_they_are_staged_are_those_that_were_digested(work: Path, tmp_path: Path) -> None:
    """The package on disk is another one by the time the app runs."""
    import json

    place = tmp_path / "package"
    place.mkdir()
    (place / "app.json").write_text(json.dumps(manifest(entrypoint=["python3", "main.py"])))
    (place / "main.py").write_text("raise SystemExit(4)")
    loaded = App.debug(AppPackage.read(place))
    (place / "main.py").write_text("raise SystemExit(5)")
    with Kernel(work) as kernel:
        assert loaded.run(kernel, debug=True).ended == "exit 4"
