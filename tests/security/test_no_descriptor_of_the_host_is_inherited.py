"""Claim: a descriptor of the host is in the cage only when it was passed by name, however inheritable it is."""

from __future__ import annotations

import os
import subprocess

import pytest

from .conftest import Ground
from .harness import caged, policy, program, read_report

pytestmark = pytest.mark.guest

SEARCH = """
    found, read = [], []
    for fd in range(4096):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
        try:
            read.append(os.pread(fd, 4096, 0).decode("latin-1"))
        except OSError:
            pass
    say("open", found)
    say("read", read)
"""


def test_an_inheritable_secret_does_not_appear(ground: Ground, isolation: str) -> None:
    fd = os.open(ground.secret, os.O_RDONLY)
    try:
        os.set_inheritable(fd, True)
        done = subprocess.run(program(SEARCH), close_fds=False, capture_output=True, text=True)
        control = read_report(done.returncode, done.stdout, done.stderr)
        report = caged(program(SEARCH), policy(isolation))
    finally:
        os.close(fd)

    assert fd in control["open"].value and ground.word in control["read"].value
    assert report["open"].value == [0, 1, 2]
    assert ground.word not in report["read"].value


def test_a_descriptor_that_was_passed_appears_alone(ground: Ground, isolation: str) -> None:
    fd, other = os.open(ground.secret, os.O_RDONLY), os.open(ground.secret, os.O_RDONLY)
    try:
        os.set_inheritable(other, True)
        report = caged(program(SEARCH), policy(isolation), pass_fds=(fd,))
    finally:
        os.close(fd)
        os.close(other)

    assert report["open"].value == [0, 1, 2, fd]
    assert ground.word in report["read"].value
