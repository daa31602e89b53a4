"""Claim: however the processes and threads of an app share its port, flood it, close it by half, or leave it and run
on, each request is answered once and in its turn, the host goes on, and the run ends when it is asked to.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from _support.apps import manifest, reasons
from pysandbox.apps import App, AppOutcome, AppPackage, Budget, Kernel, RunStop
from pysandbox.apps.package import PackageFile

BEGIN = """
import errno, gc, os, signal, sys, threading, time
from pysandbox.apps import wire
from pysandbox.apps.client import AppPort, PortDenied
number = int(os.environ[wire.VARIABLE])
def refused(what, wanted):
    try:
        what()
    except OSError as error:
        if error.errno == wanted:
            return
        raise
    raise SystemExit(3)
"""


def app(source: str) -> App:
    files = {
        "app.json": json.dumps(manifest(entrypoint=["python3", "main.py"])),
        "main.py": BEGIN + source,
    }
    return App.debug(AppPackage({name: PackageFile(text.encode(), False) for name, text in files.items()}))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    return tmp_path


def ran(source: str, work: Path, stop: RunStop | None = None, **budget: int) -> AppOutcome:
    with Kernel(work) as kernel:
        outcome = app(source).run(kernel, debug=True, stop=stop, budget=Budget(**budget))
        assert app('AppPort().write("docs/after", "x")').run(kernel, debug=True).ended == "exit 0"  # it goes on
    again = app(source).replay(outcome.journal)
    assert (again.ended, again.ticks, again.log.text()) == (outcome.ended, outcome.ticks, outcome.log.text())
    return outcome


def test_threads_share_a_port_and_each_has_its_own_replies(work: Path) -> None:
    """Two of the eight have the port of the others, six one of their own, which ends with its thread."""
    outcome = ran("""
shared, wrong = AppPort(), []
def work(me):
    port = shared if me < 2 else AppPort()
    text = bytes([65 + me]) * (100 + me)
    for turn in range(30):
        port.write(f"docs/{me}", text)
        if port.read(f"docs/{me}") != text:
            wrong.append(me)
        try:
            port.read(f"docs2/{me}")
        except PortDenied as denied:
            continue
        wrong.append(me)
    gc.collect()
threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
for each in threads: each.start()
for each in threads: each.join()
assert not wrong, wrong
AppPort().write("docs/end", "x")
""", work)  # fmt: skip
    assert outcome.ended == "exit 0" and reasons(outcome) == ["denied_scope"] * 240
    assert {each.args_summary for each in outcome.log} == {f'"docs2/{me}",str[1]' for me in range(8)}


def test_a_forked_child_is_told_that_the_port_is_not_its_own(work: Path) -> None:
    outcome = ran("""
port = AppPort()
child = os.fork()
if child == 0:
    refused(lambda: port.list("docs"), errno.EPERM)
    refused(AppPort, errno.EAGAIN)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert port.list("docs") == []
""", work)  # fmt: skip
    assert outcome.ended == "exit 0"


def test_a_child_has_the_port_where_its_parent_never_took_it(work: Path) -> None:
    outcome = ran("""
child = os.fork()
if child == 0:
    AppPort().write("docs/of-the-child", "x")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert AppPort().list("docs") == ["of-the-child"]
""", work)  # fmt: skip
    assert outcome.ended == "exit 0"


def test_two_that_write_all_the_same_get_one_reply_for_each_request(work: Path) -> None:
    """Without the client: whose reply is whose is theirs to sort out; none is lost, and none is made up."""
    outcome = ran("""
request = wire.record(24, ("docs2",))
def speak():
    for _ in range(300):
        os.write(number, request)
        assert os.read(number, 100) == bytes((2, 0))
child = os.fork()
speak()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""", work)  # fmt: skip
    assert (outcome.ended, outcome.ticks, len(outcome.log)) == ("exit 0", 600, 600)


def test_a_call_that_was_interrupted_is_not_mistaken_for_another(work: Path) -> None:
    outcome = ran("""
class Late(Exception):
    pass
def late(*_):
    raise Late
signal.signal(signal.SIGALRM, late)
port = AppPort()
port.write("docs/a", "x" * 1000)
try:
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0.0001)
        for _ in range(200):
            assert port.read("docs/a") == b"x" * 1000
except Late:
    signal.setitimer(signal.ITIMER_REAL, 0)
try:
    assert port.read("docs/a") == b"x" * 1000
except OSError as error:
    assert error.errno == errno.EPROTO
""", work)  # fmt: skip
    assert outcome.ended == "exit 0"


def test_what_does_not_fit_fails_before_it_is_sent(work: Path) -> None:
    outcome = ran("""
port = AppPort()
refused(lambda: port.emit("desk", "x" * 70_000), errno.EMSGSIZE)
assert port.list("docs") == []
""", work)  # fmt: skip
    assert outcome.ended == "exit 0" and outcome.ticks == 1


LEFT = {
    "which closed its port": "os.close(number)\nwhile True: time.sleep(60)",
    "which closed it by half": "import socket\nsocket.socket(fileno=number).shutdown(socket.SHUT_WR)\n"
                               "while True: time.sleep(60)",
    "which asks for nothing": "while True: time.sleep(60)",
    "which asks without end": "port = AppPort()\nwhile True: port.list('docs')",
    "which does not read": "import socket\nraw = socket.socket(fileno=number)\n"
                           "raw.send(wire.record(0, ()))\nwhile True: time.sleep(60)",
}  # fmt: skip


@pytest.mark.parametrize("how", LEFT)
def test_a_run_ends_when_it_is_asked_to(work: Path, how: str) -> None:
    stop = RunStop()
    ready = work / "docs" / "ready"
    source = f"AppPort().write('docs/ready', 'x')\n{LEFT[how]}"

    def ask() -> None:
        while not ready.exists() and not over.is_set():
            over.wait(0.01)
        stop.ask()

    over = threading.Event()
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert ran(source, work, stop, ticks=10**9).ended == "stopped"
    finally:
        over.set()
        asking.join()


def test_a_run_that_was_asked_before_it_began_ends_at_once(work: Path) -> None:
    stop = RunStop()
    stop.ask()
    assert ran("time.sleep(60)", work, stop).ended == "stopped"
