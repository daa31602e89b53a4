"""Claim: the ten rows of the effectiveness table (LL-04) hold in both isolation modes: five refusals, each beside
its grant.

Without a gatekeeper the allow list of the connect rows is the egress mode itself: none, or direct by acknowledgement.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pysandbox.probe import cgroups

from .conftest import Ground
from .harness import caged, policy, program

pytestmark = pytest.mark.guest

READ = 'attempt("row", content, PATH)'
WRITE = 'attempt("row", overwrite, PATH)'
CONNECT = """
    import socket
    attempt("row", lambda: socket.create_connection(("127.0.0.1", PORT), timeout=10) and None)
"""
ALLOCATE = """
    import mmap
    def allocate():
        block = mmap.mmap(-1, 2 << 30)
        block[0] = block[-1] = 1
    attempt("row", allocate)
"""

OUTSIDE = {"full": "ENOENT", "landlock": "EACCES"}
NO_ROUTE = {"full": "ECONNREFUSED", "landlock": "EACCES"}  # full: nobody listens on the cage's own loopback


def test_row_1_read_out_of_scope(ground: Ground, isolation: str) -> None:
    report = caged(program(READ, PATH=str(ground.secret)), policy(isolation, allow=[str(ground.inside)]))
    assert report["row"].errno == OUTSIDE[isolation]


def test_row_2_read_in_scope(ground: Ground, isolation: str) -> None:
    report = caged(program(READ, PATH=str(ground.inside / "plain")), policy(isolation, allow=[str(ground.inside)]))
    assert report["row"].value == "I am inside"


def test_row_3_write_out_of_scope(ground: Ground, isolation: str) -> None:
    report = caged(program(WRITE, PATH=str(ground.secret)), policy(isolation, allow_write=[str(ground.inside)]))
    assert report["row"].errno == OUTSIDE[isolation]
    assert ground.unharmed


def test_row_4_write_in_scope(ground: Ground, isolation: str) -> None:
    report = caged(
        program(WRITE, PATH=str(ground.inside / "plain")), policy(isolation, allow_write=[str(ground.inside)])
    )
    assert report["row"].errno is None
    assert (ground.inside / "plain").read_text() == "! am inside"


@pytest.mark.parametrize(("row", "egress"), [(5, "none"), (6, "direct")])
def test_rows_5_and_6_connect_out_of_and_in_scope(isolation: str, row: int, egress: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        attack = program(CONNECT, PORT=server.getsockname()[1])
        report = caged(attack, policy(isolation, egress=egress, unsafe_direct=egress == "direct"))
        if row == 6:
            assert report["row"].errno is None
            server.accept()[0].close()
        else:
            assert report["row"].errno == NO_ROUTE[isolation]
            with pytest.raises(BlockingIOError):
                server.accept()


def test_rows_7_and_8_only_the_data_stage_reads_the_private_data(ground: Ground, isolation: str) -> None:
    private, shared = str(ground.outside), str(ground.inside)
    attack = program(READ, PATH=str(ground.secret))

    untrusted = caged(attack, policy(isolation, allow_write=[shared]))
    data_stage = caged(attack, policy(isolation, allow=[private], allow_write=[shared]))

    assert untrusted["row"].errno == OUTSIDE[isolation]
    assert data_stage["row"].value == ground.word


def test_row_9_fork_past_the_cap(attack_bin: Path) -> None:
    report = caged([str(attack_bin / "many"), "fork", "100"], policy(max_pids=10, allow=[str(attack_bin)]))
    assert (report["fork"].errno, report["fork"].value < 10) == ("EAGAIN", True)


@pytest.mark.landlock(6)
def test_row_9_in_landlock_isolation_ends_the_cage() -> None:
    """The kernel counts the user's other processes there too: without a controller, which lets no fork through, the
    watchdog counts, and ends what has too many."""
    script = "for i in $(seq 60); do sleep 30 & done; echo forked; wait"
    over = caged(["/bin/sh", "-c", script], policy("landlock", max_pids=10))
    under = caged(["/bin/sh", "-c", "for i in 1 2 3; do true & done; wait"], policy("landlock", max_pids=10))

    assert over.result is not None and under.result is not None
    counted = "pids" in cgroups.find_cgroup().controllers
    assert (over.result.reason, under.result.reason) == ("exited" if counted else "cancelled", "exited")
    assert (over.exit_code, under.exit_code) == (2 if counted else 137, 0)  # a shell ends where it cannot fork


def test_row_10_allocation_past_the_cap(isolation: str) -> None:
    over = caged(program(ALLOCATE), policy(isolation, address_space_gb=1))
    under = caged(program(ALLOCATE), policy(isolation, address_space_gb=8))

    assert (over["row"].errno, under["row"].errno) == ("ENOMEM", None)
