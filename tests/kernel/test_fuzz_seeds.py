"""csrc/fuzz/corpus: the seeds that are kept are what the encoder makes today, and each is accepted by cage-init."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from pysandbox._native import lib

from .plans import opened, plan

FUZZ = Path(__file__).parents[2] / "csrc/fuzz"


@pytest.fixture(scope="module")
def seeds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("seeds", FUZZ / "seeds.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_kept_seeds_are_those_of_the_encoder(seeds: ModuleType) -> None:
    corpus = FUZZ / "corpus"
    kept = {str(path.relative_to(corpus)): path.read_bytes() for path in corpus.rglob("*") if path.is_file()}
    assert kept == seeds.seeds(), "run: python csrc/fuzz/seeds.py csrc/fuzz/corpus"


def test_every_harness_has_seeds(seeds: ModuleType) -> None:
    assert {name.split("/")[0] for name in seeds.seeds()} == {path.stem for path in FUZZ.glob("*.c")}


def test_cage_init_takes_the_seeds_of_orders(seeds: ModuleType) -> None:
    """None of them is refused at the step "order", so the fuzzer starts from what is read to its end."""
    header = lib.PSB_EXEC_BODY_FD
    for name, seed in seeds.exec_seeds():
        if int.from_bytes(seed[4:8], "little") & header:
            continue
        with opened(plan()) as init:
            n_fds = int.from_bytes(seed[12:16], "little")
            command = init.deliver(lambda report, seed=seed, n=n_fds: init.send(seed, [report, *[2] * n]))
            record = command.record()
            assert record is not None, name
            assert record.error is None or record.error.step != "order", name
