"""Claim: a system file that the host replaces while a cage is made costs no start; a path that the user named does.

`useradd`, a DHCP client, a package manager replace files of /etc by a rename. Here a directory of the test's own stands
for /etc, granted by the base; the rename comes when the look has been taken and before the cage is made.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, StartError
from pysandbox.launcher import TRIES
from pysandbox.policy import base_grants
from pysandbox.policy.option import Grant
from pysandbox.runtime.prepared import Prepared
from pysandbox.runtime.runtime import Runtime

from .harness import policy

ALWAYS = 1000


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that every cage is given."""
    path = tmp_path / "etc" / "hosts"
    path.parent.mkdir()
    path.write_text("old")
    monkeypatch.setattr(base_grants, "ALLOW", (*base_grants.ALLOW, Grant(str(path), optional=True)))
    return path


def replace(path: Path, text: str) -> None:
    new = path.with_name("new")
    new.write_text(text)
    os.rename(new, path)


def before_it_is_made(monkeypatch: pytest.MonkeyPatch, times: int, action: Callable[[], None]) -> list[int]:
    """Runs `action` so many times, between a plan and its cage. The list grows with every cage that is begun."""
    begun: list[int] = []
    take = Runtime.take

    def swapped(self: Runtime, prepared: Prepared, *more: object) -> object:
        begun.append(len(begun))
        if len(begun) <= times:
            action()
        return take(self, prepared, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Runtime, "take", swapped)
    return begun


def read(path: Path, rules: Policy, entrance: str) -> str:
    cage = Cage(rules, runtime=Runtime(warm=0))
    if entrance == "one-shot":
        return str(cage.run(["/bin/cat", str(path)], timeout=30).stdout)
    with cage:
        return str(cage.run(["/bin/cat", str(path)], timeout=30).stdout)


@pytest.mark.parametrize("entrance", ["one-shot", "session"])
@pytest.mark.parametrize("times", [1, TRIES - 1])
def test_a_few_replacements_are_seen_and_not_told(
    hosts: Path, isolation: str, times: int, entrance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = before_it_is_made(monkeypatch, times, lambda: replace(hosts, "new"))
    assert read(hosts, policy(isolation), entrance) == "new"
    assert len(begun) == times + 1


def test_what_is_replaced_without_end_is_an_error(hosts: Path, isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = before_it_is_made(monkeypatch, ALWAYS, lambda: replace(hosts, "new"))
    with pytest.raises(StartError) as error:
        read(hosts, policy(isolation), "one-shot")
    assert (error.value.step, error.value.filename, len(begun)) == ("source_changed", str(hosts), TRIES)


def test_somebody_who_adds_an_account_is_waited_for(
    hosts: Path, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever replaces a file in every look, and is done a twentieth of a second later, costs no start."""
    done: list[float] = []

    def still_adding() -> None:
        done[:] = done or [time.monotonic() + 0.05]
        if time.monotonic() < done[0]:
            replace(hosts, "new")

    before_it_is_made(monkeypatch, ALWAYS, still_adding)
    assert read(hosts, policy(isolation), "one-shot") == "new"


@pytest.mark.parametrize("named", ["by its name", "by a link", "as the working directory's", "of no base"])
def test_what_the_user_named_is_an_error_the_first_time(
    hosts: Path, isolation: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = hosts.parent.with_name("link")
    link.symlink_to(hosts)
    of_no_base = hosts.with_name("other")
    of_no_base.write_text("old")
    asked = {"by its name": str(hosts), "by a link": str(link), "of no base": str(of_no_base)}
    place = of_no_base if named == "of no base" else hosts
    rules = policy(isolation, allow=[asked.get(named, "./hosts")])
    monkeypatch.chdir(hosts.parent)
    begun = before_it_is_made(monkeypatch, 1, lambda: replace(place, "new"))
    with pytest.raises(StartError) as error:
        read(place, rules, "one-shot")
    assert (error.value.step, error.value.filename, len(begun)) == ("source_changed", str(place), 1)


def test_a_swap_of_what_the_user_named_is_not_covered_by_another(
    hosts: Path, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = hosts.parent.with_name("zone")  # after /etc, so that it is the other that fails
    mine.mkdir()

    def both() -> None:
        replace(hosts, "new")
        mine.rename(mine.with_name("old"))
        mine.mkdir()

    begun = before_it_is_made(monkeypatch, 1, both)
    with pytest.raises(StartError) as error:
        read(hosts, policy(isolation, allow=[str(mine)]), "one-shot")
    assert (error.value.step, len(begun)) == ("source_changed", 1)


REPLACING = """
import os, sys
while os.getppid() == int(sys.argv[2]):
    for _ in range(3):
        with open(sys.argv[1] + "/new", "w") as new:
            new.write("x")
        os.rename(sys.argv[1] + "/new", sys.argv[1] + "/hosts")
    import time; time.sleep(0.02)
"""


def test_a_host_that_replaces_it_all_the_time_starts_its_cages(hosts: Path, isolation: str) -> None:
    arguments = [sys.executable, "-I", "-S", "-c", REPLACING, str(hosts.parent), str(os.getpid())]
    with subprocess.Popen(arguments) as host:
        try:
            failed = 0
            for _ in range(40):
                try:
                    assert read(hosts, policy(isolation), "one-shot") in ("x", "old", "")
                except StartError as error:
                    assert (error.step, error.filename) == ("source_changed", str(hosts))
                    failed += 1
        finally:
            host.kill()
    assert failed <= 2  # every look may be overtaken, on a busy host
