"""Claim: a cage that may write to the cache of plans cannot choose the cage of the next command.

CONTROL   what the host itself keeps under this key is carried out: the next run says what the kept plan says
ATTACK    the cage, which may write to the home directory, changes that very plan, and signs it with all it has
EVIDENCE  the next run is as if nothing were kept; the secret's keyring answers EPERM inside
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from _support.cage import cage_python
from pysandbox import Policy

LIMIT = 60  # seconds after which a test is stuck
COMMAND = shutil.which("pysandbox", path=str(Path(sys.executable).parent)) or "pysandbox"
RUN = ["run", "-r", "said.toml", "--", "sh", "-c", "echo $SAID"]

# As the host keeps it: with its secret.
KEEP = """
import os, sys
from pysandbox.launch import plans
(name,) = os.listdir(sys.argv[1])
path = f"{sys.argv[1]}/{name}"
with open(path, "rb") as file:
    body = file.read()[32:].replace(b"SAID=before", b"SAID=chosen")
with open(path, "wb") as file:
    file.write(plans.sign(plans._secret(), body) + body)
"""

# As a cage can: every byte is in its hands, and a secret of its own.
FORGE = """
import hashlib, hmac
folder = sys.argv[1]
(name,) = os.listdir(folder)
with open(f"{folder}/{name}", "rb") as file:
    kept = file.read()
body = kept[32:].replace(b"SAID=chosen", b"SAID=forged")
for each in (kept[:32], hashlib.sha256(body).digest(), hmac.digest(b"", body, "sha256"),
             hmac.digest(bytes(32), body, "sha256")):
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
        command, cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_plan_that_a_cage_wrote_is_not_believed(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (project / "said.toml").write_text('[process]\nenv = { SAID = "before" }\n')
    cache = home / ".cache" / "pysandbox"
    assert [run(home, project, COMMAND, *RUN) for _ in range(2)] == ["before"] * 2
    run(home, project, sys.executable, "-c", KEEP, str(cache))
    assert run(home, project, COMMAND, *RUN) == "chosen"

    policy = Policy(allow_write=[str(home)], run_as="self")
    found, errno = cage_python(policy, FORGE, str(cache))
    assert (found, errno) == (-1, "EPERM")

    (entry,) = cache.iterdir()
    assert b"forged" in entry.read_bytes()  # it was written, by the cage
    assert run(home, project, COMMAND, *RUN) == "before"
