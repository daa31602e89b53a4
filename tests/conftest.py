"""The suite's rules, applied to every test: its marker from its folder, a leak guard around it, skips that count.

unit      pure, no process, < 10 ms        kernel   hand-written Plans to the C core
e2e       the public API and the CLI       security one claim a file: control, attack, evidence
clients   real clients and servers, in an internet of the tests' own
meta      the tree itself                  root     needs real root; everything else runs unprivileged
slow      more than a second               guest    also run on the kernels of tools/matrix; tests/guest only there
landlock  needs that Landlock ABI          swap     needs swap, and no controller that holds it: left out elsewhere
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from _support import cage, ccode
from _support.golden import Golden
from _support.internet import Host as NetHost
from _support.internet import Internet, internet
from _support.lineage import mark_this_process
from _support.outcome import FAILED, Outcome
from _support.planted import PlantedSecrets
from _support.residue import Picture
from _support.stillness import Stillness

TESTS = Path(__file__).parent
FOLDERS = ("unit", "kernel", "e2e", "clients", "security", "meta", "guest")
GUEST = os.environ.get("PSB_GUEST", "")  # the kernel that tools/matrix has booted, "" everywhere else
SETTLE = 10.0  # seconds the kernel may take to tear down what a test has closed

stillness = Stillness()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Outcome())
    mark_this_process()
    state = tempfile.mkdtemp(prefix="psb-state-")  # the command line's audit trail is not the user's own
    config.add_cleanup(partial(shutil.rmtree, state, ignore_errors=True))
    os.environ["XDG_STATE_HOME"] = state
    config.pluginmanager.register(PlantedSecrets(Path(state)))
    for line in (
        *(f"{folder}: a test in tests/{folder}" for folder in FOLDERS if folder != "guest"),
        "guest: also run on other kernels by tools/matrix; what is in tests/guest, only there",
        "root: needs real root; deselected when the suite runs unprivileged",
        "slow: takes more than a second",
        "landlock(abi): needs this Landlock ABI; on a kernel of the matrix that is known to have less it is left out",
        "swap: needs swap that no controller holds; deselected where there is none, as on most machines of CI",
    ):
        config.addinivalue_line("markers", line)
    if not os.geteuid():  # PSB_SUITE_AS_ROOT: it is true of each cage; what is said of it, tests of that ask for
        config.addinivalue_line("filterwarnings", "ignore:root starts this cage")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test's folder is its marker; what this part of the run is not for is deselected."""
    for item in items:
        if _folder(item) in FOLDERS:
            item.add_marker(_folder(item))
        if (abi := _lacking_abi(item)) and not GUEST:
            item.add_marker(pytest.mark.skip(reason=f"this kernel has no Landlock ABI {abi}"))
    left_out = [item for item in items if _belongs_elsewhere(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""


def _belongs_elsewhere(item: pytest.Item) -> bool:
    """Root's tests are left to the part of the run that is root, the guests' to tools/matrix; what a guest's kernel is
    known to lack is asserted in tests/guest instead."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        return True
    if item.get_closest_marker("swap") and not _has_free_swap():
        return True
    return bool(_lacking_abi(item)) if GUEST else _folder(item) == "guest"


@cache
def _has_free_swap() -> bool:
    from pysandbox.live.swapped import has_swap
    from pysandbox.probe import cgroups

    return has_swap() and "memory" not in cgroups.find_cgroup().controllers


def _lacking_abi(item: pytest.Item) -> int:
    marker = item.get_closest_marker("landlock")
    if marker is None:
        return 0
    from pysandbox.probe.kernel import landlock_abi

    return marker.args[0] if landlock_abi() < marker.args[0] else 0


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that passed and left an fd, process, mount, thread, cgroup or temporary directory behind."""
    pure = request.node.get_closest_marker("unit") is not None
    _drain()
    before = Picture.take(cages=not pure)
    stillness.forbidden = request.node.nodeid if pure else None
    try:
        yield
    finally:
        stillness.forbidden = None
    _drain()
    if request.node.stash.get(FAILED, False):
        return
    left = Picture.take(cages=not pure).left_behind(before)
    deadline, pause = time.monotonic() + SETTLE, 0.001
    if left:
        gc.collect()  # `pytest.raises(...) as error` makes a cycle that keeps the test's frame, and all it held
    while left and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 2, 0.1)
        left = Picture.take(cages=not pure).left_behind(before)
    if left:
        pytest.fail("the test left behind:\n  " + "\n  ".join(left), pytrace=False)


def _drain() -> None:
    """Closes the cages that the library keeps warm, if the test has got as far as importing it."""
    testing = _testing()
    if testing is not None and hasattr(testing, "drain"):
        testing.drain()


def _testing() -> ModuleType | None:
    if "pysandbox.launch" not in sys.modules:  # whoever has not met the launcher has no warm cage
        return None
    try:
        import pysandbox.testing
    except ModuleNotFoundError:
        return None
    return pysandbox.testing


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture
def registry_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry that no other host writes to; for this process and those it starts. The directory of its directory."""
    home = tmp_path / "run"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    return home


@pytest.fixture(scope="session")
def whole_net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
    with internet(tmp_path_factory.mktemp("net")) as net:
        yield net


@pytest.fixture(scope="session")
def net_host(whole_net: Internet) -> Iterator[NetHost]:
    """The host that makes the cages of most tests in it."""
    with whole_net.host() as host:
        yield host


@pytest.fixture
def net(whole_net: Internet) -> Internet:
    """One internet for the whole run; what a test looks at is what has arrived since it began."""
    whole_net.forget()
    return whole_net


@pytest.fixture
def cage_python() -> Callable[..., Any]:
    return cage.cage_python


@pytest.fixture
def uncaged_python() -> Callable[..., Any]:
    return cage.uncaged_python


@pytest.fixture
def compile_c() -> Callable[..., Path]:
    return ccode.compile_c
