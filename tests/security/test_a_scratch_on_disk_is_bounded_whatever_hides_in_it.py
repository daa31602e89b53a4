"""Claim: a cage whose scratch is a directory of the host's disk writes no more than tmp_mb to it: not in directories
that nobody may look into, without a name, or too deep to be named. Who hides what is no more than that is left alone.

CONTROL   the same programs write what they want where tmp_mb is larger, hidden or not
ATTACK    what is written lies in a file without a name; below a directory of mode 000, and of one that may be listed
          and not entered; below 30 directories whose names are too long together
EVIDENCE  each is ended as `cancelled`, and the limit is `scratch`
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pysandbox import Cage, Policy
from pysandbox.live.disk_use import FEWEST_NAMES, SCRATCH, DiskUse
from pysandbox.live.kill_reason import OUT_OF_SCRATCH
from pysandbox.live.scratch_use import SLICE

from .harness import OWN_PROC, program

LIMIT_MB, WANTED_MB = 8, 24
HOGS = {
    "a file": 'file = open("big", "wb", buffering=0)',
    "a file without a name": 'file = open("big", "w+b", buffering=0); os.unlink("big")',
    "a directory of mode 000": """os.mkdir("shut"); file = open("shut/big", "wb", buffering=0); os.chmod("shut", 0)""",
    "a directory that may be listed": """
    os.mkdir("shut"); file = open("shut/big", "wb", buffering=0); os.chmod("shut", 0o400)""",
    "a directory too deep to be named": """
    for number in range(30): os.mkdir("d" * 200); os.chdir("d" * 200)
    file = open("big", "wb", buffering=0)""",
}
FILL = """
    for number in range(MEBIBYTES): file.write(os.urandom(1048576))
    os.fsync(file.fileno())
    say("written")
    import time; time.sleep(SECONDS)
"""


def rules(isolation: str, tmp_mb: int) -> Policy:
    if isolation == "full":
        return Policy(state="scratch", tmp_mb=tmp_mb)
    return Policy(isolation="landlock", run_as="self", tmp_mb=tmp_mb, allow=list(OWN_PROC[isolation]))


def hog(how: str, isolation: str, seconds: int) -> list[str]:
    place = '"/scratch"' if isolation == "full" else 'os.environ["TMPDIR"]'
    return program(f"\n    os.chdir({place})\n    {HOGS[how]}\n{FILL}", MEBIBYTES=WANTED_MB, SECONDS=seconds)


@pytest.mark.parametrize("how", HOGS)
@pytest.mark.filterwarnings("ignore")
def test_whoever_writes_more_is_ended(how: str, isolation: str) -> None:
    with Cage(rules(isolation, 4 * WANTED_MB)) as cage:
        control = cage.run(hog(how, isolation, 0))
    assert control.exit_code == 0 and "written" in control.stdout, control.stderr

    with Cage(rules(isolation, LIMIT_MB)) as cage:
        result = cage.run(hog(how, isolation, 60))
    assert result.reason == "cancelled", result
    assert [note.key for note in result.notes if note.event == "policy.violation"] == ["scratch"]


def test_names_are_counted_like_pages(tmp_path: Path) -> None:
    use = DiskUse(str(tmp_path), LIMIT_MB << 20, (), SCRATCH)
    try:
        for number in range(FEWEST_NAMES + 1):
            (tmp_path / str(number)).touch()
        looks = [use.look(None) for _ in range(FEWEST_NAMES // SLICE + 1)]
        assert looks[-1] is OUT_OF_SCRATCH
    finally:
        use.close()
