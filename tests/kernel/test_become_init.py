"""csrc/setup/become_init.c: what is executed has its own descriptors and nothing else of the host.

A program of the test stands in for cage-init and tells over the control socket what it finds.
"""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pysandbox.compile.plan import Plan

from .plans import FS, ROOT, bare, flat, opened, plan, why_not
from .test_steps import ruled

pytestmark = pytest.mark.guest

FINDINGS = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

int main(int argc, char **argv, char **envp) {
    static char text[65536];
    char *at = text;
    at += sprintf(at, "{\"argc\": %d, \"argv0\": \"%s\", \"env\": %d, \"fds\": {", argc, argv[0], !!envp[0]);
    for (int fd = 0; fd < 4096; fd++) {
        char link[64], what[128] = {0};
        struct stat found;
        if (fstat(fd, &found)) continue;
        sprintf(link, "/proc/self/fd/%d", fd);
        if (readlink(link, what, sizeof what - 1) < 0) sprintf(what, "%o", found.st_mode & S_IFMT);
        at += sprintf(at, "%s\"%d\": \"%s\"", fd ? ", " : "", fd, what);
    }
    at += sprintf(at, "}}");
    while (recv(3, at + 1, 64, 0) <= 0) {} /* the first message, in place of obeying it */
    send(3, text, at - text, 0);
    while (recv(3, text, sizeof text, 0) > 0) {}
    return 0;
}
"""

Witness = Callable[[Plan], dict[str, Any]]


@pytest.fixture
def witness(compile_c: Callable[..., Path]) -> Witness:
    program = str(compile_c(FINDINGS))

    def tell(wanted: Plan) -> dict[str, Any]:
        with opened(wanted, program=program) as init, socket.socket(fileno=os.dup(init.opened.control)) as control:
            control.settimeout(20)
            found: dict[str, Any] = json.loads(control.recv(1 << 16))
            return found

    return tell


@pytest.fixture
def leaking() -> Iterator[None]:
    """Descriptors of the host that are not close-on-exec: low, in a gap, and above everything."""
    fds = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(3)]
    fds.append(os.dup2(fds[0], 900))
    for fd in fds:
        os.set_inheritable(fd, True)
    yield
    for fd in fds:
        os.close(fd)


# enum psb_init_fd: a part of what each descriptor leads to.
CONTRACT = {"0": "/dev/null", "1": "/dev/null", "2": "/dev/null", "3": "socket", "4": "pidfd", "5": "/"}
PLANS = {
    "full": (plan(), CONTRACT),
    "flat": (flat(landlock=None), CONTRACT),
    "with a ruleset": (plan(landlock=ruled(handled=FS)), {**CONTRACT, "5": "landlock-ruleset"}),
}


@pytest.mark.parametrize("name", PLANS)
def test_it_has_the_descriptors_of_its_contract_and_no_others(name: str, witness: Witness, leaking: None) -> None:
    wanted, expected = PLANS[name]
    found = witness(wanted)["fds"]
    assert sorted(found) == sorted(expected)
    assert {fd: what for fd, what in found.items() if expected[fd] not in what} == {}


def test_without_dev_its_stdio_leads_nowhere(witness: Witness, leaking: None) -> None:
    found = witness(bare(ROOT))["fds"]
    assert sorted(found) == sorted(CONTRACT)
    assert [found[fd] for fd in "0125"] == ["40000"] * 4  # all four are the O_PATH descriptor of a directory


def test_the_host_s_arguments_and_environment_stay_behind(witness: Witness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PSB_SECRET", "xyzzy")
    found = witness(plan())
    assert (found["argc"], found["argv0"], found["env"]) == (1, "cage-init", 0)


def test_a_host_that_may_open_too_few_files_is_told() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        assert why_not(plan()) == ("init_fds", "EINVAL", None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
