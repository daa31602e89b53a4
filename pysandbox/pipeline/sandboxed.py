"""`@sandboxed(policy)`: a function whose every call runs in a cage of its own, and which is called as it was before.

    @sandboxed(Policy(allow=["./models"]), timeout=5, pool=4)
    def parse(pdf: bytes) -> dict[str, str]: ...

    @sandboxed                      # the default policy
    def total(text: str) -> int: ...

    parse(data)    await parse.aio(data)    list(parse.map(pdfs))    parse.submit(data).result()

Arguments go in by pickle; what comes out is read by `decoder`, which runs nothing. What is sent of the function itself
is decided in `shipping`, once, when it is decorated.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import update_wrapper

from pysandbox.cage import Cage
from pysandbox.command import check_seconds
from pysandbox.pipeline.answers import declared, returned_by, value_of
from pysandbox.pipeline.decoder import Shapes
from pysandbox.pipeline.dispatch import KEPT, CageFuture, Dispatcher, QueuedCall, in_order
from pysandbox.pipeline.exchange import CallExchange
from pysandbox.pipeline.interpreters import Interpreters
from pysandbox.pipeline.packing import SentCall, module_names, packed
from pysandbox.pipeline.shipping import shipped
from pysandbox.policy.model import Policy
from pysandbox.shapes import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from types import ModuleType
    from typing import ParamSpec

    P = ParamSpec("P")
else:
    P = TypeVar("P")
R = TypeVar("R")


@overload
def sandboxed(policy: Callable[P, R], /) -> SandboxedFunction[P, R]: ...
@overload
def sandboxed(
    policy: Policy | str | None = None, *, timeout: float | None = None, pool: int = 1, returns: object = None,
    most_mb: int = 1024, modules: Sequence[str | ModuleType] = (),
) -> Callable[[Callable[P, R]], SandboxedFunction[P, R]]: ...  # fmt: skip
def sandboxed(
    policy: Policy | str | Callable[..., Any] | None = None, *, timeout: float | None = None, pool: int = 1,
    returns: object = None, most_mb: int = 1024, modules: Sequence[str | ModuleType] = (),
) -> Any:  # fmt: skip
    """A decorator, with parentheses or, where nothing is said, without. Each call has `timeout` seconds; `pool`
    interpreters wait ahead, and as many calls of `submit`, `map` and `aio` run at a time; `returns` stands in for the
    return annotation; an answer has at most `most_mb` MiB. `modules` of one's own go along whole, for what they do as
    they are imported. Raises TypeError, ValueError, PolicyError."""
    check_seconds("timeout", timeout)
    if pool < 1:
        raise ValueError(f"pool must be at least 1: {pool!r}")
    named = module_names(modules)

    def decorate(function: Callable[P, R]) -> SandboxedFunction[P, R]:
        return SandboxedFunction(function, Cage(chosen), timeout, pool, returns, most_mb << 20, named)

    if callable(policy):
        chosen = None
        return decorate(policy)
    chosen = policy
    return decorate


class SandboxedFunction(Generic[P, R]):
    """Made by `sandboxed`. `__wrapped__` is the function itself. Any thread may call it."""

    def __init__(
        self,
        function: Callable[P, R],
        cage: Cage,
        timeout: float | None,
        pool: int,
        returns: object,
        most: int,
        modules: tuple[str, ...],
    ) -> None:
        self.__wrapped__ = function
        update_wrapper(self, function)
        self._shipped = shipped(function)
        self._timeout = timeout
        self._pool = pool
        self._returns = returns
        self._most = most
        self._modules = modules
        self._interpreters = Interpreters(cage, pool)
        self._calls: Dispatcher | None = None
        self._shapes: Shapes | None = None
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Raises SandboxedError, with `logs`: the function has raised, or its cage has ended; what pickle raises for
        arguments that cannot be sent, and PolicyError, UnsupportedError, StartError of the cage."""
        pieces = packed(SentCall(self._shipped, args, kwargs, modules=self._modules))
        answer = CallExchange(self._interpreters.take(), pieces, timeout=self._timeout, most=self._most).run()
        value: R = value_of(answer, self._declared())
        return value

    def __reduce__(self) -> str:
        """By its name, as functions are pickled. Where that is called in another cage, it is the plain function."""
        return self.__wrapped__.__qualname__

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The call, awaited. A cancelled task ends it, and its cage."""
        return await asyncio.wrap_future(self.submit(*args, **kwargs))

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> CageFuture[R]:
        """A future, with `logs`: what the function has printed; `cancel` also ends one that runs. Arguments that cannot
        be sent are refused here."""
        future: CageFuture[R] = CageFuture()
        pieces = packed(SentCall(self._shipped, args, kwargs, modules=self._modules))
        self._dispatcher().submit(QueuedCall(future, pieces, self._declared, self._timeout, self._most))
        return future

    def map(self, *iterables: Iterable[Any]) -> Iterator[R]:
        """As the builtin, with `pool` calls at a time; in order. Arguments are taken as they are needed, a few for each
        call that runs, so that there may be any number of them."""
        futures = (self.submit(*args) for args in zip(*iterables, strict=False))  # type: ignore[call-arg]
        return (each.result() for each in in_order(futures, self._pool, KEPT * self._pool))

    def close(self) -> None:
        """Ends the interpreters that wait. Calls that run are waited for."""
        with self._lock:
            calls, self._calls = self._calls, None
        if calls is not None:
            calls.shutdown(wait=True, cancel_futures=False)
        self._interpreters.close()

    def _dispatcher(self) -> Dispatcher:
        with self._lock:
            if self._calls is None:
                self._calls = Dispatcher(self._interpreters, self._pool)
            return self._calls

    def _declared(self) -> Shapes:
        if self._shapes is None:
            self._shapes = declared(returned_by(self.__wrapped__) if self._returns is None else self._returns)
        return self._shapes
