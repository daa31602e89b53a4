"""Claim: a host program that has closed its standard streams (a daemon) hands no descriptor of its own to a command.

What is opened next gets the lowest free number: the socket to a cage-init would stand at 1, written to by whatever a
command prints, and the listener of a supervisor at 2, in a cage that could then answer for itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

HOST = """
    import json, os, sys
    told, when = os.fdopen(os.dup(1), "w"), sys.argv[1]
    def close():
        for fd in (0, 1, 2):
            os.close(fd)
    if when == "before":
        close()
    from pysandbox import PIPE, Cage, Policy

    LOOK = (
        "import os, sys; links = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)]; "
        "os.write(int(sys.argv[1]), ' '.join(links).encode())"
    )
    def watched():
        return Cage(Policy(), policy_fn=lambda event, context: False, watch=["exec"]).open()
    cages = [watched()]
    cages[0].run(["true"])
    if when == "after":
        close()
        cages.append(watched())
        cages[1].run(["true"])
    if when == "control":
        os.close(2)
        os.eventfd(0)
        json.dump([[os.readlink("/proc/self/fd/2")]], told)
    else:
        seen = []
        for cage in cages:
            for shown, given in ((1, {"stdout": PIPE, "stderr": None}), (2, {"stdout": None, "stderr": PIPE})):
                process = cage.spawn(["/usr/bin/python3", "-c", LOOK, str(shown)], **given)
                seen.append(b"".join(each or b"" for each in process.communicate()).decode().split())
            process = cage.spawn(["sh", "-c", "echo lost; echo lost >&2"])
            seen.append([str(process.wait())])
        json.dump(seen, told)
    told.flush()
    os._exit(0)
"""


def told_by(when: str) -> list[list[str]]:
    argv = [sys.executable, "-c", textwrap.dedent(HOST), when]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_what_is_opened_next_stands_where_a_stream_was() -> None:
    """The control."""
    assert told_by("control") == [["anon_inode:[eventfd]"]]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_command_has_the_null_device_there(when: str) -> None:
    told = told_by(when)
    looks, ends = [each for each in told if len(each) > 1], [each for each in told if len(each) == 1]
    assert len(looks) == (2 if when == "before" else 4) and all(len(each) == 3 for each in looks)
    for stdin, stdout, stderr in looks:
        assert stdin == "/dev/null"
        assert sorted((stdout.partition(":")[0], stderr.partition(":")[0])) == ["/dev/null", "pipe"]
    assert ends == [["0"]] * (1 if when == "before" else 2), "and no cage has lost its cage-init"


@pytest.mark.parametrize("opened", ["os.eventfd(0)", "os.open('/etc/hostname', os.O_RDONLY)", "os.pipe()[0]"])
@pytest.mark.parametrize("fd", [1, 2])
def test_what_came_to_stand_there_is_no_stream_of_the_program_s(fd: int, opened: str) -> None:
    """Passed by the name that it had: `stdout=sys.stdout`."""
    script = f"""
import os, sys
told = os.fdopen(os.dup(1), "w")
from pysandbox import Cage
stream = (sys.stdout, sys.stderr)[{fd - 1}]
os.close({fd})
assert {opened} == {fd}
try:
    Cage().spawn(["true"], **{{("stdout", "stderr")[{fd - 1}]: stream}})
except ValueError as error:
    print(error, file=told, flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert f"{fd} is no standard stream of this program" in done.stdout, done
