"""A template: an interpreter in a cage that has loaded its modules, and forks workers that share its pages.

    with Template(Policy(), init="json, decimal") as template:
        results = template.map(work, range(1000), workers=8)

What runs in the cage is `worker`, given as `booted` has it. A worker is used once; some wait ahead. All workers of a
template are in its cage, behind one policy and one limit for all of them; between them stand sessions, directories and
Landlock domains, in which none can signal, trace or write to another. Whoever needs a wall as that of two cages has two
cages.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from pysandbox.cage import DEVNULL, Cage
from pysandbox.compile.siblings import siblings_filter
from pysandbox.descriptors.polling import is_readable
from pysandbox.descriptors.sockets import socket_pair
from pysandbox.errors import CageClosedError, PolicyError, TemplateError, UnsupportedError
from pysandbox.launcher import policy_of, working_directory
from pysandbox.open_cage import replaced
from pysandbox.pipeline.booted import BOOT, given_code
from pysandbox.pipeline.idle import TemplateWorker
from pysandbox.pipeline.mapping import WorkerResult, imap_items, map_items
from pysandbox.pipeline.memory import hand_over, send_call
from pysandbox.pipeline.packing import SentCall, module_names, packed, sent
from pysandbox.policy.model import Policy
from pysandbox.runtime.runtime import Runtime, default_runtime
from pysandbox.shapes import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import ModuleType

    from pysandbox.process import Process

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
NO_THREADS = {**ONE_THREAD, "JE_ARROW_MALLOC_CONF": "background_thread:false"}  # of the allocator in pyarrow
SCOPE_ABI = 6  # of Landlock, Linux 6.12
LONGEST = 1 << 16
STUCK = 10.0  # seconds that it may take to hear an order
MOST_RECORDS = 64  # records read for one worker: more than a template has to tell, and no end of them holds up a caller
MIB = 1 << 20


class Template:
    """Thread-safe; `close()` is idempotent, and leaving the `with` block closes.

    `init` names modules, "numpy, pandas"; `preload` is called after they are loaded. `paths` are put before `sys.path`
    in the cage, where the policy has to show them. `parked` workers wait ahead. `memory_mb` (address space) and
    `cpu_sec` are of each worker; the policy's limits are of all together. What takes longer than `timeout` seconds to
    load is refused. `modules` of one's own go along whole with each call, for what they do as they are imported.
    """

    def __init__(
        self, policy: Policy | str | None = None, *, init: str | Sequence[str] = (),
        preload: Callable[[], object] | None = None, paths: Sequence[str | os.PathLike[str]] = (), parked: int = 4,
        memory_mb: int | None = None, cpu_sec: int | None = None, timeout: float = 60.0,
        runtime: Runtime | None = None, modules: Sequence[str | ModuleType] = (),
    ) -> None:  # fmt: skip
        names = tuple(each.strip() for each in (init.split(",") if isinstance(init, str) else init) if each.strip())
        self._order = {
            "modules": names, "paths": [os.path.abspath(each) for each in paths],
            "preload": preload is not None, "AS": (memory_mb or 0) * MIB,
            "CPU": cpu_sec or 0,
        }  # fmt: skip
        self.modules: tuple[str, ...] = module_names(modules)
        self._preload = packed(SentCall(sent(preload), modules=self.modules)) if preload is not None else None
        self._runtime = runtime or default_runtime()
        self._policy = _with_interpreter(policy_of(policy, None), self._runtime)
        self._wanted, self._timeout = parked, timeout
        self._cage: Cage | None = None
        self._control: socket.socket | None = None
        self._process: Process[bytes] | None = None
        self._idle: deque[TemplateWorker] = deque()
        self._endings: dict[int, int] = {}
        self._forgotten: set[int] = set()
        self._count = 0
        self._is_deaf = False
        self._lock = threading.Lock()
        _ALL.add(self)

    # ---- from open to close -----------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Loads what is to be loaded. Raises TemplateError, PolicyError, UnsupportedError, StartError."""
        if self._cage is not None:
            return self
        self.require_scope()
        self._is_deaf, self._endings, self._forgotten = False, {}, set()
        self._cage = Cage(self._policy, runtime=self._runtime).open()
        try:
            self._prepare(self._cage)
        except BaseException:
            self.close()
            raise
        self._idle.extend(self._fork() for _ in range(self._wanted))
        return self

    def require_scope(self) -> None:
        """Raises UnsupportedError."""
        if self._runtime.host.landlock_abi < SCOPE_ABI:
            lacking = "this kernel's Landlock has no scope for signals, so workers could end each other"
            raise UnsupportedError(
                lacking, feature="landlock_scope", fix="use Linux 6.12 or newer, or a cage for each call"
            )

    def _prepare(self, cage: Cage) -> None:
        self._control, inside = socket_pair()
        with inside, given_code("walls", "zygote", "worker") as code:
            argv = [sys.executable, "-I", "-X", "frozen_modules", "-c", BOOT, str(code), str(inside.fileno())]
            self._process = cage.spawn(
                argv, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, env=NO_THREADS, pass_fds=[inside.fileno(), code]
            )
        self._control.settimeout(STUCK)
        order = {**self._order, "filter": siblings_filter(self._runtime.host.machine).hex()}
        self._control.send(json.dumps(order).encode())
        if self._preload is not None:
            send_call(self._control, 0, self._preload)
        if not is_readable(self._control, self._timeout):
            raise TemplateError(f"the template was not ready after {self._timeout:g} s")
        said = self._received()
        if "ready" not in said:
            ended = f"the template ended ({self.own_ending(STUCK)}) while it loaded its modules"
            raise TemplateError(str(said.get("failed", ended)))

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the template and all its workers."""
        with self._lock:
            idle, self._idle = list(self._idle), deque()
            cage, self._cage = self._cage, None
            control, self._control = self._control, None
        for worker in idle:
            worker.drop()
        if control is not None:
            control.close()
        if self._process is not None:
            self._process.stop("cancelled")
        if cage is not None:
            cage.close()
        if self._process is not None:
            self._process.close()

    @property
    def is_over(self) -> bool:
        """Whether no worker will come of it any more: it is not open, has ended, hears nothing, or shows what its
        policy covers."""
        process = self._process
        if self._control is None or self._is_deaf or process is None or process.poll() is not None:
            return True
        return not process.state.live.services.cover

    def after_fork_in_child(self) -> None:
        """In a forked copy of the host it is closed: what runs is the original's."""
        self._lock, self._process, self._cage = threading.Lock(), None, None
        for worker in self._idle:
            worker.drop()
        if self._control is not None:
            self._control.close()
        self._idle, self._control = deque(), None

    # ---- workers ----------------------------------------------------------------------------------------------------

    def take(self) -> TemplateWorker:
        """A worker that is ready for its one call, or will be. Raises CageClosedError."""
        with self._lock:
            self._require_open()
            self._require_cover()
            ended = self._hung_up()
            worker = self._idle.popleft() if self._idle else self._fork()
        for each in ended:
            each.close()
        return worker

    def refill(self) -> None:
        """Another worker in the place of one that has its call by now, which so waits for nobody."""
        with self._lock, suppress(OSError):  # no descriptors: who wants the next one forks it, and is told
            while self._control is not None and len(self._idle) < self._wanted:
                self._idle.append(self._fork())

    def _hung_up(self) -> list[TemplateWorker]:
        """The workers at the front that were ended while they waited, or could not be forked."""
        ended = []
        while self._idle and self._idle[0].has_hung_up():
            ended.append(self._idle.popleft())
        return ended

    def map(
        self, function: Callable[[Any], object], items: Iterable[object], *, workers: int | None = None,
        timeout: float | None = None,
    ) -> list[WorkerResult]:  # fmt: skip
        """`function(item)` for each, in a worker of its own, `workers` at a time (default: twice the processors, and no
        more than descriptors are left for). The results are in the order of the items, and there is one for each,
        whatever a worker did; none takes longer than `timeout` seconds. Raises TypeError, CageClosedError."""
        self._require_open()
        return map_items(self, function, items, workers, timeout)

    def imap(
        self, function: Callable[[Any], object], items: Iterable[object], *, workers: int | None = None,
        timeout: float | None = None,
    ) -> Iterator[WorkerResult]:  # fmt: skip
        """As `map`, one result after another, and items are taken as they are needed: there may be any number of them.
        Who stops iterating ends what runs."""
        self._require_open()
        return imap_items(self, function, items, workers, timeout)

    def kill(self, number: int) -> None:
        """For a worker's own `kill`."""
        control = self._control
        if control is not None:
            self._say(control, {"kill": number})

    def _fork(self) -> TemplateWorker:
        control = self._require_open()
        self._count += 1
        ours, inside = socket_pair()
        with inside:
            self._say(control, {"fork": self._count}, [inside.fileno()])
        return TemplateWorker(self, self._count, ours)

    def _say(self, control: socket.socket, order: dict[str, object], fds: Sequence[int] = ()) -> None:
        try:
            hand_over(control, json.dumps(order).encode(), fds)
        except OSError:  # it is gone, or does not listen: whoever waits for a worker sees its end of file
            self._is_deaf = True

    def _require_open(self) -> socket.socket:
        if self._control is None:
            raise CageClosedError("the template is not open: use it in a `with` block, or call open()")
        return self._control

    def _require_cover(self) -> None:
        if self._process is not None and not self._process.state.live.services.cover:
            raise CageClosedError(f"the template's cage: {replaced(self._process.state.live)}; open another one")

    # ---- what it says -----------------------------------------------------------------------------------------------

    def ending_of(self, number: int, patience: float) -> int | None:
        """The wait status of a worker that was ended; None where nobody tells."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            with self._lock:
                if number in self._endings:
                    return self._endings.pop(number)
                if self._control is None or (is_readable(self._control, 0.02) and not self._receive()):
                    return None
        return None

    def own_ending(self, patience: float) -> str:
        """Why the template itself has ended, as `Result.reason`: its workers end with it. "cancelled" where it goes on,
        or was ended by this program."""
        process = self._process
        if process is None:
            return "cancelled"
        try:
            process.wait(patience)
        except TimeoutError:
            return "cancelled"
        reason = process.state.result().reason
        return "cancelled" if reason == "exited" else reason

    def forget(self, number: int) -> None:
        """Nobody asks how this worker ends."""
        with self._lock:
            if self._endings.pop(number, None) is None:
                self._forgotten.add(number)
            for _ in range(MOST_RECORDS):
                if self._control is None or not is_readable(self._control) or not self._receive():
                    return

    def _receive(self) -> bool:
        said = self._received()
        number, status = said.get("exited"), said.get("status")
        if isinstance(number, int) and isinstance(status, int) and 0 < number <= self._count:
            if number in self._forgotten:
                self._forgotten.remove(number)
            else:
                self._endings[number] = status
        return bool(said)

    def _received(self) -> dict[str, object]:
        """One record of the template; empty where it is gone, or says what makes no sense."""
        try:
            said = json.loads(self._require_open().recv(LONGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        return said if isinstance(said, dict) else {}


def _with_interpreter(policy: Policy, runtime: Runtime) -> Policy:
    """With the places of this interpreter, and the files that run in the cage. Raises PolicyError."""
    if not policy.caged or runtime.no_sandbox or policy.isolation != "full":
        raise PolicyError("a template needs a cage with directories of its own", key="isolation",
                          suggestion='use isolation = "full"')  # fmt: skip
    return runtime.policy_for(policy, sys.executable, working_directory())


_ALL: weakref.WeakSet[Template] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for each in list(_ALL):
        each.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
