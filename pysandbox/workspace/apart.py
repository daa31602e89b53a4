"""What a cage writes apart from the host, from its first command on, and for as long as somebody holds it."""

from __future__ import annotations

from _thread import allocate_lock  # threading's Lock, without its imports

from pysandbox.compile.absent_names import COVERING
from pysandbox.compile.cow import endings
from pysandbox.errors import CageClosedError, StartError
from pysandbox.events import WORKSPACE_RECOVERED, Event, Sink, ignore
from pysandbox.live.services import CageService
from pysandbox.policy.paths_wanted import hidden_paths, hidden_patterns
from pysandbox.probe.matching import with_real_beginning
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pysandbox.live.init import CageInit
    from pysandbox.runtime.prepared import Prepared
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.workspace.held import Hidden
    from pysandbox.workspace.upper import Upper
    from pysandbox.workspace.workspace import Workspace


class KeptApart(CageService):
    """The uppers of one cage; they outlive it. Most are asked for when their command has ended: what is in memory, and
    needs no more than to be held, waits for that as descriptors."""

    def __init__(self, live: CageInit, prepared: Prepared, sink: Sink, argv: tuple[str, ...] = ()) -> None:
        """Takes them from a cage whose workspace was opened. `argv`: its first command, if it has one."""
        self._live: CageInit | None = live
        self._sink = sink
        self._workspace: Workspace | None = None
        self._cage = live.id
        self._prepared = prepared
        self._argv = argv
        self._on_exit, self._on_error = endings(prepared.policy)
        self._failed: bool | None = None  # the last command; None before any has ended
        self._raised = False
        self._lock = allocate_lock()
        self._opened = live.take_uppers()
        self._uppers: tuple[Upper, ...] | None = None
        if prepared.plan.layers is not None:  # these go with the cage, unless somebody holds them
            self._uppers = self._made(live)

    @property
    def uppers(self) -> tuple[Upper, ...]:
        """One for each tree, that of the working directory first."""
        with self._lock:
            return self._held()

    def _held(self) -> tuple[Upper, ...]:
        """With the lock."""
        if self._uppers is None:
            self._uppers = self._made(None)
        return self._uppers

    def _made(self, live: CageInit | None) -> tuple[Upper, ...]:
        """The one place that chooses between layers and copies."""
        prepared, opened = self._prepared, self._opened
        hidden = _hidden(prepared)
        uppers: Sequence[Upper]
        if opened is not None:
            from pysandbox.workspace.overlay import open_uppers

            uppers = open_uppers(opened, prepared, hidden, self.is_still, live)
        else:
            from pysandbox.workspace.snapshot import open_copies

            if live is None:
                raise CageClosedError(f"cage {self._cage} was closed while its first command was started")
            uppers = open_copies(live, prepared, hidden, self.is_still)
        return tuple(sorted(uppers, key=lambda upper: upper.tree.path != prepared.paths.cwd))

    @property
    def workspace(self) -> Workspace:
        """What users hold, and always the same object; the working directory is its first tree."""
        with self._lock:
            if self._workspace is None:
                import shlex

                from pysandbox.workspace.workspace import Workspace

                tell = self._sink if self._sink is not ignore else None
                self._workspace = Workspace(self._held(), command=shlex.join(self._argv), cage=self._cage, tell=tell)
            return self._workspace

    def is_still(self) -> bool:
        """Whether no process of the cage can write, nor has since it was paused; or none is left. One that has ended
        while it was paused may have run before: whoever closes it knows."""
        live = self._live
        if live is None:
            return True
        if live.stood is not None and not live.closed:
            from pysandbox.live.stopping import stands_still

            return stands_still(live)
        if live.closed:  # its init is going
            live.await_end()
        return live.is_dead()

    @property
    def is_awaited(self) -> bool:
        """What is done with it at the end is done when whoever ends the cage goes on."""
        return {self._on_exit, self._on_error} != {"defer"}

    def command_ended(self, *, well: bool) -> None:
        self._failed = not well

    def fail(self) -> None:
        """An exception has left the block in which the cage was used."""
        self._raised = True

    def end(self) -> None:
        self._live = None
        if self.is_awaited:
            from pysandbox.workspace.ending import end_as_asked

            failed = self._raised or (bool(self._argv) if self._failed is None else self._failed)
            end_as_asked(self.workspace, self._on_error if failed else self._on_exit)

    def after_fork_in_child(self) -> None:
        self._lock = allocate_lock()
        for upper in self._uppers or ():
            upper.drop()
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def begin_apart(prepared: Prepared, sink: Sink) -> None:
    """Before such a cage is made. Raises StartError where what is to be kept of it could not be."""
    finish_others(sink)
    if not {"defer", "abort"}.issuperset(endings(prepared.policy)):
        from pysandbox.workspace.store import require_room

        require_room()


def finish_others(sink: Sink) -> None:
    """What a kill has left of a commit, before a cage is shown the tree. A start does not fail for it: it is told."""
    from pysandbox.workspace.recovery import recover

    try:
        recover(sink)
    except OSError as error:
        sink(Event(WORKSPACE_RECOVERED.name, {"commit": "", "tree": "", "outcome": f"left: {error}"}))


def open_workspace(runtime: Runtime, live: CageInit) -> None:
    """Before the first command of a cage: from here on a change of the host's is a conflict. No more than that is done
    while somebody waits for the command; `keep_apart` is for when it was sent on its way. Raises StartError; the cage
    ends then."""
    if live.uppers is None:  # of copies, which were opened when they were made
        return
    try:
        live.uppers.stamp()
    except StartError:
        runtime.collect(live)
        raise


def keep_apart(runtime: Runtime, live: CageInit, prepared: Prepared, argv: tuple[str, ...]) -> KeptApart:
    """What a cage whose workspace was opened writes is held from now on. `argv`: its first command, if it has one."""
    kept = KeptApart(live, prepared, runtime.sink, argv)
    live.services.add(kept)
    return kept


def _hidden(prepared: Prepared) -> Hidden:
    """What is covered in the cage, and what would be if it were there. A pattern is searched for as it is spelled, and
    the trees have real paths: it is kept with the real path of what has no sign in it, too."""
    from pysandbox.workspace.held import Hidden

    plan, paths, policy = prepared.plan, prepared.paths, prepared.policy
    covered = (step.target for step in plan.mounts if step.kind in COVERING)
    named = (paths[path].real for _, _, path in hidden_paths(policy, paths.cwd))
    patterns = [pattern for _, _, pattern in hidden_patterns(policy, paths.cwd)]
    return Hidden((*covered, *named), tuple(dict.fromkeys((*patterns, *map(with_real_beginning, patterns)))))
