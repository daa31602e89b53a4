"""The kernel may say that a pipe's last writer has gone without saying that there are bytes in it: it looks for bytes
first and for writers then (fs/pipe.c, pipe_poll). What was written in between is passed on all the same: by the
launcher (csrc/launcher/relay.c) and by the thread that waits for first bytes (csrc/host/relay/outflow_watch.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests._support.ccode import compile_c
from tests._support.tree import REPOSITORY

CSRC = REPOSITORY / "csrc"
LAUNCHER = """
int main(int argc, char **argv) {
    struct relay relay = {0};
    struct stat about;
    int ends[2];
    (void)argv;
    if (fstat(1, &about) || pipe(ends) || open_relay(&relay, ends[0], 1, &about)) return 2;
    if (argc > 1 && write(ends[1], "last words", 10) != 10) return 2;
    close(ends[1]);
    heed_relay(&relay, POLLHUP);
    return !is_flushed(&relay, 10000);
}
"""
WATCH = """
#include <stdio.h>
static struct watched one;
static volatile int served, ended;
static void serves(void *stream) { (void)stream; served = 1; }
static void ends_it(void *stream) { (void)stream; ended = 1; }
int main(int argc, char **argv) {
    int ends[2];
    (void)argv;
    if (pipe(ends)) return 2;
    if (argc > 1 && write(ends[1], "x", 1) != 1) return 2;
    close(ends[1]);
    watch.epoll = epoll_create1(0);
    one = (struct watched){ends[0], NULL, serves, ends_it};
    if (add(&one)) return 2;
    hand_on(&one, EPOLLHUP);
    while (!served && !ended) usleep(1000);
    return puts(served ? "served" : "ended") < 0;
}
"""


def said(file: Path, source: str, *arguments: str) -> str:
    spawn = CSRC / "host" / "spawn"
    threads = [str(spawn / f"{name}.c") for name in ("thread", "child", "clone3")]
    program = compile_c(file.read_text() + source, "-D_GNU_SOURCE", f"-I{file.parent}", "-pthread", *threads)
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, timeout=30, check=True).stdout.decode()


def test_the_launcher_passes_on_what_was_written_last() -> None:
    assert said(CSRC / "launcher" / "relay.c", LAUNCHER, "writes") == "last words"
    assert said(CSRC / "launcher" / "relay.c", LAUNCHER) == ""


@pytest.mark.parametrize(("writes", "becomes"), [(["writes"], "served\n"), ([], "ended\n")])
def test_a_stream_that_ends_with_its_first_byte_is_served(writes: list[str], becomes: str) -> None:
    assert said(CSRC / "host" / "relay" / "outflow_watch.c", WATCH, *writes) == becomes
