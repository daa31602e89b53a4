"""A host that refuses user namespaces, made for the purpose: a user namespace in which their number is limited to 0."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LIMIT = "/proc/sys/user/max_user_namespaces"
RUN = f"exec {sys.executable} -P -m pysandbox"


def inside(script: str) -> subprocess.CompletedProcess[str]:
    """The script as root of a user namespace of its own, whose settings are no one else's."""
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=os.path.dirname(sys.executable))


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_the_setting_that_refuses_a_cage_is_named_with_its_fix(isolation: str) -> None:
    run = f"{RUN} run --isolation {isolation} --workdir none -- /bin/true"
    control, refused = inside(run), inside(f"echo 0 >{LIMIT}; {run}")
    assert control.returncode == 0, control.stderr
    if isolation == "landlock":  # the way out that the error offers
        assert refused.returncode == 0, refused.stderr
        return
    assert refused.returncode == 125
    assert "user.max_user_namespaces = 0" in refused.stderr
    assert "sysctl -w user.max_user_namespaces" in refused.stderr
    assert "landlock" in refused.stderr


def test_check_is_below_the_minimum_there_and_says_why() -> None:
    control, refused = inside(f"{RUN} check"), inside(f"echo 0 >{LIMIT}; {RUN} check")
    assert (control.returncode, refused.returncode) == (0, 1), control.stdout + control.stderr
    assert "max_user_namespaces = 0" in refused.stdout
    assert "Cages cannot run here" in refused.stdout
