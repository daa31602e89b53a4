"""Claim: a cage that may write to the cache of plans cannot choose the cage of the next command.

CONTROL   what the host itself keeps under this key is carried out: the next run says what the kept plan says
ATTACK    the cage, which may write to the home directory, changes that very plan, and signs it with all it has
EVIDENCE  the next run is as if nothing were kept; the secret's keyring answers EPERM inside
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from _support.cage import cage_python
from pysandbox import Policy

LIMIT = 60  # seconds after which a test is stuck
COMMAND = ["run", "--", "sh", "-c", "echo $SAID"]

# As the host keeps it: with its secret.
KEEP = """
from pysandbox.cli.warm import key_of
from pysandbox.launch import plans
key = key_of([], "sh")
entry = plans.recall(key)
entry["env"]["SAID"] = "changed"
assert plans.keep(key, entry)
"""

# As a cage can: every byte is in its hands, and a secret of its own.
FORGE = """
import hashlib, marshal
folder = sys.argv[1]
(name,) = os.listdir(folder)
with open(f"{folder}/{name}", "rb") as file:
    plain, entry = marshal.loads(file.read()[32:])
entry["env"]["SAID"] = "forged"
body = marshal.dumps((plain, entry), 2)
sign = lambda **key: hashlib.blake2b(body, digest_size=32, person=b"pysandbox plan", **key).digest()
for each in (sign(), sign(key=bytes(32))):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(each + body)
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
found = libc.syscall(number, 10, -4, b"user", b"pysandbox:plans", 0)
report([found, errno.errorcode.get(ctypes.get_errno())])
"""


def run(home: Path, project: Path, *command: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | {"HOME": str(home)}
    done = subprocess.run(
        [sys.executable, *command], cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_plan_that_a_cage_wrote_is_not_believed(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    cache = home / ".cache" / "pysandbox"
    assert run(home, project, "-m", "pysandbox", *COMMAND) == ""
    run(home, project, "-c", KEEP)
    assert run(home, project, "-m", "pysandbox", *COMMAND) == "changed"

    policy = Policy(allow_write=[str(home)], run_as="self")
    found, errno = cage_python(policy, FORGE, str(cache))
    assert (found, errno) == (-1, "EPERM")

    (entry,) = cache.iterdir()
    assert b"forged" in entry.read_bytes()  # it was written, by the cage
    assert run(home, project, "-m", "pysandbox", *COMMAND) == ""
