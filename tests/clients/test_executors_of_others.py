"""Dask computes on a CageExecutor, and Celery's tasks run on one: with the real packages."""

from __future__ import annotations

import os
from collections.abc import Iterator

import celery
import dask
import pytest
from celery.contrib.testing.worker import start_worker
from celery.signals import setup_logging

from pysandbox import CageExecutor

HOST = os.getpid()


def doubled(number: int) -> int:
    return 2 * number


def total(numbers: list[int]) -> list[object]:
    return [sum(numbers), os.getpid(), os.path.exists("/etc/hostname.of-the-host")]


def test_dask_computes_in_cages() -> None:
    parts = [dask.delayed(doubled)(each) for each in range(4)]
    with CageExecutor(max_workers=2, timeout=100) as executor:
        found = dask.compute(dask.delayed(total)(parts), scheduler=executor)[0]
    assert found[0] == 12 and found[1] != HOST


@pytest.fixture
def celery_leaves_logging_alone() -> Iterator[None]:
    """A worker sets the root logger's level and handlers, unless somebody says that logging is set up."""

    def set_up(**_: object) -> None:
        pass

    setup_logging.connect(set_up)
    yield
    setup_logging.disconnect(set_up)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("celery_leaves_logging_alone")
def test_celery_s_tasks_run_in_cages() -> None:
    app = celery.Celery("caged", broker="memory://", backend="cache+memory://", set_as_current=False)
    with CageExecutor(max_workers=1, timeout=100) as executor:

        @app.task(name="caged.total")
        def caged(numbers: list[int]) -> list[object]:
            return executor.submit(total, numbers).result()

        with start_worker(app, perform_ping_check=False, pool="solo"):
            found = caged.delay([1, 2]).get(timeout=100)
    assert found[0] == 3 and found[1] != HOST
