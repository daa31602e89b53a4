"""What a kernel lacks is refused, noted, or closed another way; the evidence is what a command in the cage can do.

Each test knows both kernels: an outcome that is the same on all of them says nothing about a degradation.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import uuid
from pathlib import Path

import pytest

from _support.cage import cage_python
from pysandbox import Policy, UnsupportedError, run
from pysandbox.probe.kernel import landlock_abi

KERNEL = os.environ.get("PSB_GUEST", "")
ABI = {"6.1": 2, "6.12": 6}
DIRECT = Policy(egress="direct", unsafe_direct=True)
LANDLOCK = Policy(isolation="landlock", run_as="self")


def notes(policy: Policy) -> str:
    return "\n".join(map(str, run(["/bin/true"], policy).check().notes))


def test_landlock_is_as_old_as_it_is_said_to_be() -> None:
    assert landlock_abi() == ABI[KERNEL]


def test_landlock_isolation_runs_or_says_why_it_cannot() -> None:
    if KERNEL != "6.1":
        assert run(["/bin/true"], LANDLOCK).ok
        return
    with pytest.raises(UnsupportedError) as refused:
        run(["/bin/true"], LANDLOCK)
    assert refused.value.feature == "landlock_scope"
    assert "Linux 6.12" in str(refused.value) and 'isolation = "full"' in str(refused.value)


def test_abstract_sockets_are_closed_by_the_network_namespace_and_else_by_the_scope_or_noted() -> None:
    """With the host's network, an older kernel lets the cage through, and a note says so."""
    name = f"psb-{uuid.uuid4().hex}"
    tried = f"import socket; report(attempt(socket.socket(socket.AF_UNIX).connect, '\\0{name}'))"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        assert cage_python(None, tried) == "ECONNREFUSED"
        assert cage_python(DIRECT, tried) == {"6.1": "ok", "6.12": "EPERM"}[KERNEL]
    assert ("abstract unix sockets" in notes(DIRECT)) == (KERNEL == "6.1")


@pytest.mark.parametrize(("call", "asked"), [("truncate", ()), ("truncate", ("truncate",)), ("ftruncate", ())])
def test_a_file_handed_in_for_reading_is_not_emptied(call: str, asked: tuple[str, ...], tmp_path: Path) -> None:
    """Before ABI 3 Landlock does not hear of truncate(2), so the filter refuses it, unless the policy opens it."""
    file = tmp_path / "file"
    file.write_text("kept")
    fd = os.open(file, os.O_RDONLY)
    try:
        target = {"truncate": f"'/proc/self/fd/{fd}'", "ftruncate": str(fd)}[call]
        said = cage_python(Policy(allow_syscalls=asked), f"report(attempt(os.{call}, {target}, 0))", pass_fds=(fd,))
    finally:
        os.close(fd)
    opened = KERNEL == "6.1" and bool(asked)
    refused = "EINVAL" if call == "ftruncate" else "EPERM" if KERNEL == "6.1" else "EACCES"
    assert (said, file.read_text()) == (("ok", "") if opened else (refused, "kept"))


def test_a_writable_grant_is_truncated_by_descriptor_on_every_kernel(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("long")
    policy = Policy(allow_write=[str(tmp_path)])
    assert cage_python(policy, f"report(attempt(lambda: open({str(file)!r}, 'w').close()))") == "ok"
    by_name = cage_python(policy, f"report(attempt(os.truncate, {str(file)!r}, 1))")
    assert (by_name, file.read_text()) == {"6.1": ("EPERM", ""), "6.12": ("ok", "\0")}[KERNEL]
    assert ("truncate(2) is refused" in notes(policy)) == (KERNEL == "6.1")


def test_check_says_that_cages_run_here_and_what_is_missing() -> None:
    done = subprocess.run(["pysandbox", "check", "--json"], capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)
    missing = {row["name"] for row in found["features"] if not row["ok"]}
    newer = {"landlock_net", "landlock_scope", "sync_wake_up", "pidfd_thread", "tmpfs_xattr", "binfmt_misc"}
    assert (done.returncode, found["minimum_met"]) == (0, True)
    assert missing & newer == (newer if KERNEL == "6.1" else set())
