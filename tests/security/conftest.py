"""Fixtures of the security suite: the two isolation modes, the built C attacks, the ground an attack is played on, and
an inspector with a server behind it.
"""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pysandbox.events import Event

from .harness import token

if TYPE_CHECKING:
    from _support.inspected import Server
    from pysandbox.gate.inspector import InspectorProcess

SOURCES = Path(__file__).with_name("attacks")


@pytest.fixture(params=["full", pytest.param("landlock", marks=pytest.mark.landlock(6))])
def isolation(request: pytest.FixtureRequest) -> str:
    """For a claim that holds in both modes."""
    mode: str = request.param
    return mode


@pytest.fixture(scope="session")
def attack_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of built C attacks, one per source, to be granted read-only; `lib*.c` become libraries."""
    directory = tmp_path_factory.mktemp("attacks")
    for source in sorted(SOURCES.glob("*.c")):
        library = source.stem.startswith("lib")
        output = directory / (f"{source.stem}.so" if library else source.stem)
        kind = ["-shared", "-fPIC"] if library else []
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", *kind, "-o", str(output), str(source)], check=True
        )
    return directory


@dataclass(frozen=True, slots=True)
class Ground:
    """`inside` is what a test grants; `outside`, with the `secret`, is what no policy names. All owned by this user."""

    inside: Path
    outside: Path
    secret: Path
    word: str  # what the secret file says

    @property
    def unharmed(self) -> bool:
        """The outside holds the secret, as it was, and nothing else."""
        return list(self.outside.iterdir()) == [self.secret] and self.secret.read_text() == self.word


@pytest.fixture
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return ground_in(tmp_path_factory)


def ground_in(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    top = tmp_path_factory.mktemp("g")  # not named after the test: a unix socket's path has 107 bytes (unix(7))
    inside, outside = top / "inside", top / "outside"
    inside.mkdir()
    outside.mkdir()
    secret, word = outside / "secret", "S" + token()
    secret.write_text(word)
    (inside / "plain").write_text("I am inside")
    return Ground(inside, outside, secret, word)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, which is this process's from now on."""
    directory = tmp_path / "home"
    directory.mkdir()
    monkeypatch.setenv("HOME", str(directory))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return directory


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """As many as this process may have: a login gives 1,024, and more to who asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- an inspector: its modules are loaded where a test asks for one --------------------------------------------------


@pytest.fixture
def events() -> list[Event]:
    """What the inspector has told."""
    return []


@pytest.fixture
def inspector(events: list[Event]) -> Iterator[InspectorProcess]:
    from _support.inspected import inspector_process

    with inspector_process(events) as made:
        yield made


@pytest.fixture
def quiet_inspector(events: list[Event]) -> Iterator[InspectorProcess]:
    """One that has told nothing until the end: it was never taken for stuck."""
    from _support.inspected import inspector_process

    with inspector_process(events) as made:
        yield made
    assert events == []


@pytest.fixture
def server(tmp_path: Path) -> Server:
    from _support.inspected import Server, tls_server

    return tls_server(tmp_path, Server)
