"""csrc/fuzz/corpus: the seeds that are kept are what the encoder makes today, and each is accepted by cage-init."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from pysandbox._native import ffi, lib

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


def test_cage_init_reads_the_seeds_of_orders_to_their_end(seeds: ModuleType) -> None:
    """They may fail later (there is no terminal), but none of them at the step "order"."""
    for name, seed in seeds.exec_seeds():
        header = ffi.new("struct psb_exec *")
        ffi.memmove(header, seed, ffi.sizeof("struct psb_exec"))
        if header.flags & lib.PSB_EXEC_BODY_FD:
            continue
        with opened(plan()) as init:
            fds = [2] * header.n_fds
            command = init.deliver(lambda report, seed=seed, fds=fds: init.send(seed, [report, *fds]))
            record = command.record()
            assert record is not None, name
            assert record.error is None or record.error.step != "order", name
