"""The guard around every test sees each kind of thing that a test could leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable

import pytest

from _support.outcome import refuse_skip
from _support.residue import Picture
from _support.stillness import Stillness


def residue_of(start: Callable[[], Callable[[], object]]) -> str:
    """What the guard says between `start()` and the call of what it returned."""
    before = Picture.take()
    stop = start()
    try:
        return "\n".join(Picture.take().left_behind(before))
    finally:
        stop()


def test_nothing_is_reported_when_nothing_was_left() -> None:
    assert residue_of(lambda: lambda: None) == ""


def test_an_open_descriptor_is_reported_with_what_it_is() -> None:
    def start() -> Callable[[], object]:
        fd = os.open("/etc/passwd", os.O_RDONLY)
        return lambda: os.close(fd)

    assert "-> /etc/passwd" in residue_of(start)


def test_a_running_child_and_a_zombie_are_reported() -> None:
    def start() -> Callable[[], object]:
        child = subprocess.Popen(["/bin/sh", "-c", "echo; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        return lambda: child.communicate()

    def zombie() -> Callable[[], object]:
        pid = os.posix_spawn("/bin/true", ["true"], {})
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return lambda: os.waitpid(pid, 0)

    assert "(/bin/sh -c echo; cat)" in residue_of(start)
    assert "children: pid" in residue_of(zombie)


def test_a_process_of_another_pid_namespace_is_reported() -> None:
    def start() -> Callable[[], object]:
        command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "sh", "-c", "echo; cat"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        return lambda: child.communicate()

    assert "strays: pid" in residue_of(start)


def test_an_orphan_in_a_session_of_its_own_is_reported() -> None:
    """Its parent has ended: it is nobody's child any more."""

    def start() -> Callable[[], object]:
        read, write = os.pipe()
        told, says = os.pipe()
        script = "import os, sys; os.fork() and os._exit(0); os.setsid(); os.write(%d, b'.'); os.read(%d, 1)"
        subprocess.run([sys.executable, "-c", script % (says, read)], pass_fds=(read, says), check=True)
        os.read(told, 1)

        def stop() -> None:
            for fd in (write, read, told, says):
                os.close(fd)

        return stop

    assert "strays: pid" in residue_of(start)


def test_what_the_same_user_runs_besides_is_not_reported() -> None:
    """A process that does not descend from the suite has another score; here one of ours takes such a score on."""

    def start() -> Callable[[], object]:
        other = "import os; open('/proc/self/oom_score_adj', 'w').write('999'); print(flush=True); input()"
        child = subprocess.Popen([sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        return lambda: child.communicate(b"\n")

    assert "strays" not in residue_of(start)


def test_a_temporary_directory_of_the_package_is_reported() -> None:
    def start() -> Callable[[], object]:
        folder = tempfile.TemporaryDirectory(prefix="pysandbox-")
        return folder.cleanup

    assert "paths: " in residue_of(start)


def test_a_thread_is_reported_unless_it_is_the_background_worker() -> None:
    def start(name: str) -> Callable[[], object]:
        go = threading.Event()
        thread = threading.Thread(target=go.wait, name=name)
        thread.start()

        def stop() -> None:
            go.set()
            thread.join()

        return stop

    assert "thread stray" in residue_of(lambda: start("stray"))
    assert residue_of(lambda: start("pysandbox-worker")) == ""


def test_a_unit_test_cannot_start_a_process() -> None:
    code = (
        "from _support.stillness import Stillness; import subprocess; s = Stillness(); subprocess.run(['/bin/true']);"
        "s.forbidden = 'tests/unit/test_x.py::test_y'; subprocess.run(['/bin/true'])"
    )
    support = os.path.dirname(os.path.dirname(sys.modules[Stillness.__module__].__file__ or ""))
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": support}, capture_output=True, text=True)
    assert "tests/unit/test_x.py::test_y is a unit test and may not start a process (subprocess.Popen)" in done.stderr


def skipped() -> pytest.TestReport:
    where = ("test_x.py", 3, "Skipped: no compiler")
    return pytest.TestReport("test_x.py::test_y", ("test_x.py", 3, "test_y"), {}, "skipped", where, "call")


def test_a_skip_fails_where_everything_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSB_REQUIRE", "all")
    report = skipped()
    refuse_skip(report)
    assert report.outcome == "failed"
    assert "no compiler" in str(report.longrepr)


def test_a_skip_stays_a_skip_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PSB_REQUIRE", raising=False)
    report = skipped()
    refuse_skip(report)
    assert report.outcome == "skipped"
