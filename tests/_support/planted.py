"""No secret that the suite has planted is told by anything that pysandbox tells: no event, refusal, log record, audit
trail, report, or last word of a process that has failed.

`PlantedSecrets` is the pytest plugin. It sees each event and each refusal as it is made, in whatever sink it ends; what
a test has put on standard output, standard error and in logs; and files that pysandbox writes for people to read, below
the suite's state directory and a test's `tmp_path`, each once it has grown. Whoever plants a value of his own says so
with `plant`. What a test keeps in order to plant it, and what a cage or a server has been sent, is no telling.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any

import pytest

TELLING = re.compile(r"\.(?:jsonl|html|crash|core)$|^(?:core|vgcore)(?:\.|$)")  # names of files
LEAST = 16  # letters that no chance has put there
OVERLAP = 256  # bytes of a file that are read again when it has grown
LARGEST = 1 << 24
RUN = re.compile(rb"[A-Za-z0-9]{%d,}" % LEAST)
OF_TESTS = ("R3alToken" * 2, "Real5ecretValue", "Val5eOfTheSecret")

_planted: set[bytes] = set()
_heard: list[str] = []  # from other processes


def plant(*values: str | bytes) -> None:
    """These may be told by nobody, from now on."""
    _planted.update(each.encode() if isinstance(each, str) else each for each in values)


@cache
def _of_the_registry() -> frozenset[bytes]:
    """The runs of letters in the vectors of all detectors: what tests of leak detection send."""
    from pysandbox.dlp import registry

    return frozenset(run[-LEAST:] for each in registry.ALL for hit in each.hits for run in RUN.findall(hit))


def planted() -> frozenset[bytes]:
    """All of them. Of the registry none before it was loaded: nobody has planted one of its vectors then."""
    return _all(len(_planted), "pysandbox.dlp.registry" in sys.modules)


@lru_cache(maxsize=1)
def _all(_: int, loaded: bool) -> frozenset[bytes]:
    return frozenset((*_planted, *map(str.encode, OF_TESTS), *(_of_the_registry() if loaded else ())))


def told(said: str | bytes, secrets: Iterable[bytes] = ()) -> bool:
    """Whether one of them is in it, or another one that is planted."""
    blob = said.encode("utf-8", "replace") if isinstance(said, str) else said
    return any(each in blob for each in (*secrets, *planted()))


def heard(said: str) -> None:
    """What a host program in another process tells of its cages."""
    if told(said):
        _heard.append(said)


class PlantedSecrets:
    """`state`: where the command line keeps its trail; `own`: secrets that are no other plugin's."""

    def __init__(self, state: Path, *own: bytes) -> None:
        self._state, self._own = state, own
        self._sizes: dict[Path, int] = {}
        self._heard: list[str] = []
        self._original: dict[type[Any], Callable[..., None]] = {}

    # ---- what is made in this process ---------------------------------------------------------------------------

    def listen(self) -> None:
        """Hears of each event and each refusal, once the library is there."""
        for module, name in (("pysandbox.events", "Event"), ("pysandbox.denial", "Denial")):
            made = getattr(sys.modules.get(module), name, None)
            if made is not None and made not in self._original:
                self._original[made] = made.__init__
                made.__init__ = self._hearing(made.__init__, name)

    def leave(self) -> None:
        for made, init in self._original.items():
            made.__init__ = init
        self._original.clear()

    def _hearing(self, init: Callable[..., None], name: str) -> Callable[..., None]:
        @wraps(init)
        def heard(made: object, *args: object, **more: object) -> None:
            init(made, *args, **more)
            if told(f"{args}{more}", self._own):
                self._heard.append(f"{name} {args}{more}")

        return heard

    def taken(self) -> list[str]:
        """What was heard since it was taken last."""
        heard, self._heard = self._heard, []
        return heard

    # ---- what is written ----------------------------------------------------------------------------------------

    def written(self, *directories: Path) -> Iterator[str]:
        """Files below these that tell one, of those that have grown."""
        for file in (each for directory in directories for each in _telling(directory)):
            known = self._sizes.get(file, 0)
            try:
                size = file.lstat().st_size
                if size == known or file.is_symlink() or not file.is_file():
                    continue
                with file.open("rb") as said:
                    said.seek(max(0, known - OVERLAP) if size > known else 0)
                    text = said.read(LARGEST)
            except OSError:  # it has gone, or is nobody's to read
                continue
            self._sizes[file] = size
            if told(text, self._own):
                yield f"the file {file}"

    # ---- hooks --------------------------------------------------------------------------------------------------

    def pytest_runtest_setup(self) -> None:
        self.listen()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self.listen()
        if report.when == "teardown":
            self._refuse(report, [*self.taken(), *_from_others(), *self.written(self._state, *_own_directory(item))])
        return report

    def _refuse(self, report: pytest.TestReport, found: list[str]) -> None:
        found += [name for name, text in report.sections if told(text)]
        if found:
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid}: a planted secret was told:\n  " + "\n  ".join(found)

    def pytest_unconfigure(self) -> None:
        self.leave()


def _from_others() -> list[str]:
    found = _heard[:]
    _heard.clear()
    return found


def _own_directory(item: pytest.Item) -> Iterator[Path]:
    given: Mapping[str, object] = getattr(item, "funcargs", {})
    if isinstance(own := given.get("tmp_path"), Path):
        yield own


def _telling(directory: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(directory):
        yield from (Path(parent, name) for name in names if TELLING.search(name))
