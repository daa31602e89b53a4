"""`CageExecutor`: the executor of `concurrent.futures` whose every call runs in a cage of its own, or in a worker.

    with CageExecutor(Policy(), max_workers=4, timeout=30) as executor:
        executor.submit(parse, data).result()

What is sent of a call is `packing`, what comes back is read by `decoder`, which runs nothing; who carries it out is
`dispatch`, on `interpreters` that wait, or on the workers of a template (`forked`).
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from types import FunctionType, MethodType, ModuleType

from pysandbox.cage import Cage
from pysandbox.command import check_seconds
from pysandbox.pipeline.answers import declared, returned_by
from pysandbox.pipeline.decoder import Shapes
from pysandbox.pipeline.dispatch import CageFuture, CallWorkers, Dispatcher, QueuedCall
from pysandbox.pipeline.forked import ForkedWorkers
from pysandbox.pipeline.interpreters import Interpreters
from pysandbox.pipeline.packing import SentCall, module_names, packed, sent
from pysandbox.pipeline.shipping import Shipped
from pysandbox.pipeline.template import Template
from pysandbox.policy.model import Policy
from pysandbox.shapes import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing import ParamSpec

    P = ParamSpec("P")
else:
    P = TypeVar("P")
R = TypeVar("R")


class CageExecutor(Executor):
    """At most `max_workers` calls run (default: the processors of this process); as many interpreters wait ahead. A
    call has `timeout` seconds, from when it begins, and its answer at most `most_mb` MiB.

    `isolate` is the wall between two calls. "cage": each has a cage under `policy`, whose limits are of each call.
    "worker": all are in one cage, each in a process that a Template has forked for it, with `memory_mb` of address
    space and `cpu_sec` of its own; they are one domain of trust.

    `init` names modules, "numpy, pandas", and `initializer(*initargs)` is called after them: in each interpreter, while
    it waits, or once in the template. `returns` declares enums and dataclasses that answers may hold, beside those of
    the functions' own return annotations: a type, or a union. `modules` of one's own go along whole with each call, for
    what they do as they are imported.
    """

    def __init__(
        self, policy: Policy | str | None = None, *, max_workers: int | None = None, isolate: str = "cage",
        timeout: float | None = None, init: str | Sequence[str] = (), initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (), returns: object = None, most_mb: int = 1024, memory_mb: int | None = None,
        cpu_sec: int | None = None, modules: Sequence[str | ModuleType] = (),
    ) -> None:  # fmt: skip
        """Raises TypeError, ValueError, PolicyError, UnsupportedError."""
        check_seconds("timeout", timeout)
        self._max_workers: int = len(os.sched_getaffinity(0)) if max_workers is None else max_workers  # Dask asks
        if self._max_workers < 1:
            raise ValueError(f"max_workers must be at least 1: {max_workers!r}")
        self._timeout, self._most = timeout, most_mb << 20
        self._returns = returns
        self._modules = module_names(modules)
        source: CallWorkers
        if isolate == "worker":
            prepare = functools.partial(initializer, *initargs) if initializer is not None else None
            source = ForkedWorkers(Template(policy, init=init, preload=prepare, parked=self._max_workers,
                                            memory_mb=memory_mb, cpu_sec=cpu_sec, modules=self._modules))  # fmt: skip
        else:
            _require_cage(isolate, memory_mb, cpu_sec)
            source = Interpreters(
                Cage(policy), self._max_workers, _preparations(init, initializer, initargs, self._modules)
            )
        self._calls = Dispatcher(source, self._max_workers)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> CageFuture[R]:
        """A future; it has `logs`, and `cancel` also ends a call that runs. Raises TypeError, or what its own pickling
        raises, for what cannot be sent; RuntimeError after `shutdown`."""
        return self._submit(SentCall(_sent(fn), args, kwargs, modules=self._modules), fn)

    def map(
        self, fn: Callable[..., R], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[R]:
        """As `Executor.map`; `chunksize` items at a time share a cage. Who stops iterating ends what is not done."""
        if chunksize < 1:
            raise ValueError(f"chunksize must be at least 1: {chunksize!r}")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        items = zip(*iterables, strict=False)
        named = _sent(fn)

        def submit(chunk: tuple[Any, ...]) -> CageFuture[list[R]]:
            return self._submit(SentCall(named, chunk, many=True, modules=self._modules), fn)

        chunks = iter(lambda: tuple(itertools.islice(items, chunksize)), ())
        return itertools.chain.from_iterable(_Chunks(submit).map(list, chunks, timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more is taken; what was submitted is carried out, but for what has not begun, with `cancel_futures`."""
        self._calls.shutdown(wait, cancel_futures)

    def _submit(self, call: SentCall, function: Callable[..., object]) -> CageFuture[Any]:
        future: CageFuture[Any] = CageFuture()

        def shapes() -> Shapes:
            return declared(self._returns, _answer_of(function))

        self._calls.submit(QueuedCall(future, packed(call), shapes, self._timeout, self._most))
        return future


class _Chunks(Executor):
    """`Executor.map`, with its order, its timeout and its cancelling, over chunks."""

    def __init__(self, submit: Callable[[tuple[Any, ...]], CageFuture[Any]]) -> None:
        self._submit = submit

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CageFuture[Any]:
        return self._submit(args[0])


def _require_cage(isolate: str, memory_mb: int | None, cpu_sec: int | None) -> None:
    if isolate != "cage":
        raise ValueError(f'isolate must be "cage" or "worker": {isolate!r}')
    if memory_mb is not None or cpu_sec is not None:
        raise ValueError('memory_mb and cpu_sec are of a worker (isolate="worker"); of a cage the policy says them')


def _sent(function: Callable[..., object]) -> Shipped | Callable[..., object]:
    """By its names where it can be; all else goes with the arguments."""
    try:
        return sent(function)
    except TypeError:
        if function.__code__.co_flags & (0x20 | 0x80 | 0x200):  # a generator, a coroutine: no value could come back
            raise
        return function


def _answer_of(function: Any) -> object:
    """What it says that it returns: a class, itself; a method or a partial, what the function says."""
    while isinstance(function, functools.partial | MethodType):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    if isinstance(function, type):
        return function
    return returned_by(function if isinstance(function, FunctionType) else type(function).__call__)


def _preparations(
    init: str | Sequence[str], initializer: Any, initargs: tuple[Any, ...], modules: tuple[str, ...]
) -> list[list[Any]]:
    names = [each.strip() for each in (init.split(",") if isinstance(init, str) else init) if each.strip()]
    calls = [SentCall(importlib.import_module, tuple((each,) for each in names), many=True)] if names else []
    if initializer is not None:
        calls.append(SentCall(_sent(initializer), initargs, modules=modules))
    return [packed(each) for each in calls]
