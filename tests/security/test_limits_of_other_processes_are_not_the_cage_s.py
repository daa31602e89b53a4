"""Claim: no command sets the resource limits of a process by its number: not of cage-init, nor, without namespaces, of
the host."""

from __future__ import annotations

import os
import resource

import pytest

from pysandbox import Cage, Policy

pytestmark = pytest.mark.guest

ATTACK = """if True:
    import resource, sys
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    print("control")
    try:
        resource.prlimit(int(sys.argv[1]), resource.RLIMIT_CPU, (1, 1))
    except OSError as error:
        print(type(error).__name__)
"""


def test_a_limit_by_number_is_refused(isolation: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_CPU)
    target = 1 if isolation == "full" else os.getpid()

    result = Cage(Policy(isolation=isolation, run_as="self")).run(["/usr/bin/python3", "-c", ATTACK, str(target)])

    assert result.stdout == "control\nPermissionError\n", result.stderr
    assert resource.getrlimit(resource.RLIMIT_CPU) == before
