"""How a run of the command line ended is in the trail, whoever ended it: by the long way and from a kept plan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LIMIT = 60


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "p").mkdir()
        self.env = {**os.environ, "XDG_STATE_HOME": str(root / "state"), "XDG_CACHE_HOME": str(root / "cache")}
        self.env.pop("PYSANDBOX_AUDIT", None)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pysandbox", *arguments], cwd=self.root / "p", env=self.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def last(self) -> dict[str, dict[str, Any]]:
        """Type to data of the records of the last run."""
        lines = (self.root / "state" / "pysandbox" / "audit" / "events.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        (*_, last) = [each["data"]["invocation_id"] for each in records if each["type"] == "subagent.spawn"]
        return {each["type"]: each["data"] for each in records if each["data"].get("invocation_id") == last}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_out_of_time_is_told_with_its_limit(place: Place) -> None:
    for _ in range(3):  # the first is compiled, the last comes from a kept plan
        with place.start("run", "--timeout", "0.3", "--", "sleep", "30") as process:
            assert process.wait(LIMIT) == 124
        told = place.last()
        assert told["subagent.killed"]["reason"] == "walltime_exceeded"
        assert (told["policy.violation"]["limit"], told["policy.violation"]["value"]) == ("walltime", 0.3)
        assert (told["subagent.exit"]["exit_code"], told["subagent.exit"]["reason"]) == (124, "timeout")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_was_ended_is_told_as_cancelled(place: Place, number: int) -> None:
    for _ in range(3):
        with place.start("run", "--", "sh", "-c", "echo ready; exec sleep 30") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            assert process.wait(LIMIT) == 128 + number
        told = place.last()
        assert told["subagent.killed"]["reason"] == "cancelled"
        assert "policy.violation" not in told


def test_a_command_that_heeds_the_signal_ended_by_itself(place: Place) -> None:
    for _ in range(3):
        with place.start("run", "--", "sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done") as run:
            assert run.stdout is not None
            assert run.stdout.readline() == "ready\n"
            run.send_signal(signal.SIGTERM)
            assert run.wait(LIMIT) == 7
        told = place.last()
        assert "subagent.killed" not in told
        assert (told["subagent.exit"]["exit_code"], told["subagent.exit"]["reason"]) == (7, "exited")


def test_whose_run_it_was_is_said_also_where_nobody_said_it(place: Place) -> None:
    for _ in range(3):
        with place.start("run", "--", "true") as process:
            assert process.wait(LIMIT) == 0
        spawn = place.last()["subagent.spawn"]
        assert (spawn["project_id"], spawn["session_id"]) == (None, None)


def test_a_trail_that_is_not_there_does_not_hold(place: Place) -> None:
    with place.start("audit", "verify", "--path", str(place.root / "nowhere" / "e.jsonl")) as process:
        assert process.wait(LIMIT) == 125
        assert process.stdout is not None and process.stderr is not None
        assert "holds" not in process.stdout.read() and "is not there" in process.stderr.read()


WITHOUT_A_RESOLVER = """
    echo nameserver 127.0.0.1 > resolv && mount --bind resolv /etc/resolv.conf || exit 9
    "$@" run --host a.test --workdir none -- python3 -c 'import socket; socket.gethostbyname("a.test")'
    "$@" audit show --last
    "$@" explain --last
    "$@" run --json --host a.test --workdir none -- python3 -c 'import socket; socket.gethostbyname("a.test")'
"""


def test_a_resolver_that_is_gone_is_in_the_trail_and_in_what_is_told_of_it(place: Place) -> None:
    """The host has a network of its own here, in which nobody resolves anything."""
    private = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--propagation", "private"]
    command = [*private, "sh", "-c", WITHOUT_A_RESOLVER, "sh", sys.executable, "-m", "pysandbox"]
    done = subprocess.run(command, cwd=place.root / "p", env=place.env, capture_output=True, text=True, timeout=LIMIT)
    assert "Temporary failure in name resolution" in done.stderr
    assert "127.0.0.1:53" in place.last()["gatekeeper.upstream_unreachable"]["error"]
    assert "upstream_unreachable" in done.stdout
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("pysandbox: ")]
    assert "this host's name servers did not answer" in line and "explain --last" in line
    assert "name servers, or the parent proxy, failed it:" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1])["network"]["gatekeeper.upstream_unreachable"]
