"""Claim: a descriptor that this package keeps is used as long as it is the file that was opened, and no longer.

Attack: a program that has run cages becomes a daemon: it forks, closes all that it finds open, as daemon(7) says, and
opens files of its own, which get the numbers. Control: it closes nothing. Evidence: what the next cage's command has,
who it is outside, and whether the daemon's files are still its own at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DAEMON = """
import json, os, sys
from pysandbox import DEVNULL, Cage, Policy, Runtime

LOOK = '''
import json, os
outside = open("/proc/self/uid_map").read().split()[1]
print(json.dumps([os.fstat(0).st_rdev, outside, open(0, "rb").read().decode()]))
'''

def look(runtime):
    with Cage(Policy(), runtime=runtime) as cage:
        return json.loads(cage.run(["/usr/bin/python3", "-I", "-c", LOOK], stdin=DEVNULL).stdout)

runtime, closes, secret = Runtime(warm=0), sys.argv[1] == "closes", sys.argv[2]
before = look(runtime)
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
if closes:
    os.closerange(3, 4096)
mine = [os.open(secret, os.O_RDWR) for _ in range(64)]
after = look(runtime)
del runtime
print(json.dumps({"before": before, "after": after, "own": [os.fstat(fd).st_size for fd in mine]}))
sys.stdout.flush()
os._exit(0)
"""


def _of_a_daemon(work: Path, way: str) -> dict[str, list[object]]:
    (work / "secret").write_text("the daemon's own")
    argv = [sys.executable, "-c", DAEMON, way, str(work / "secret")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    told: dict[str, list[object]] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("way", ["keeps", "closes"])
def test_the_next_cage_has_nothing_of_a_daemon_s(tmp_path: Path, way: str) -> None:
    told = _of_a_daemon(tmp_path, way)
    assert told["after"] == told["before"]
    assert told["after"][0] == os.makedev(1, 3)
    assert told["own"] == [len("the daemon's own")] * 64


@pytest.mark.root
@pytest.mark.parametrize("way", ["keeps", "closes"])
def test_a_cage_of_root_s_daemon_is_nobody_still(tmp_path: Path, way: str) -> None:
    told = _of_a_daemon(tmp_path, way)
    assert told["after"] == told["before"]
    assert told["after"][1] != "0"
    assert told["own"] == [len("the daemon's own")] * 64
