"""The one start: from a LaunchRequest to a running command.

    descriptors   pipes, files or a terminal, the host's ends and the cage's          (launch.stdio)
    message       argv, variables, the paths that execvp would try, limits: bytes     (launch.orders)
    order         the message and the cage's ends go to cage-init, with a report pipe (live.init)
    Process       holds the host's ends, and reads the report pipe                    (process_state)

Every command takes this way: `Cage`, `AsyncCage`, the shim of a detached cage and the command line. What cage-init
does with the order is in csrc/init/orders.c. Whatever fails before the order is sent leaves nothing open.
"""

from __future__ import annotations

import os

from pysandbox.compile.plan import SCRATCH
from pysandbox.launch import orders
from pysandbox.launch.stdio import Stdio, open_stdio
from pysandbox.process import Process
from pysandbox.process_state import ProcessState
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pysandbox.command import LaunchRequest
    from pysandbox.runtime.runtime import Runtime


def start(request: LaunchRequest, runtime: Runtime) -> Process:
    """The Process of a command that has its order: it may not run yet, or may never. Raises ValueError (a descriptor
    that no command gets), StartError, CageClosedError, OSError."""
    request.live.wake_hint()
    if request.pty:
        stdio = _open_terminal(request)
    else:
        stdio = open_stdio(*request.files, request.pass_fds, caged=request.caged, user=request.live.user)
    try:
        state = _send(request, stdio, runtime)
    except BaseException:
        stdio.close()
        raise
    try:
        stdio.given()
        if stdio.has_go_betweens:
            stdio.serve()
        return Process(state)
    except BaseException:  # no thread could be started
        state.close()
        raise


def _open_terminal(request: LaunchRequest) -> Stdio:
    """The cage's own terminal, from its devpts, where it has one; of the size that was asked for before it runs."""
    live, own = request.live, request.caged and bool(request.prepared.plan.namespaces)
    root = live.open_root() if own else None
    try:
        stdio = open_stdio(
            *request.files, request.pass_fds, pty=True, root_fd=root, caged=request.caged, user=live.user
        )  # fmt: skip
    finally:
        if root is not None:
            os.close(root)
    if isinstance(request.pty, tuple):
        import termios

        try:
            termios.tcsetwinsize(stdio.terminal, request.pty)
        except BaseException:
            stdio.close()
            raise
    return stdio


def _send(request: LaunchRequest, stdio: Stdio, runtime: Runtime) -> ProcessState:
    """The state of a command that was ordered; it owns the descriptors."""
    sources, targets = zip(*stdio.child, strict=True)
    message = encode(request, targets)
    read, write = os.pipe2(os.O_CLOEXEC)
    try:
        request.live.execute(message, write, sources)
        return ProcessState(request, stdio, read, runtime)
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)


def _directory(request: LaunchRequest) -> str:
    """The command's working directory, as the cage has it, where that is not just the plan's."""
    plan, asked = request.prepared.plan, request.command.cwd
    path = plan.cwd if asked is None else os.path.join(plan.cwd, asked)
    if plan.copies is None:
        return path
    from pysandbox.launch.located import located

    return located(path, plan, request.live.layers)


def _variables(request: LaunchRequest) -> tuple[list[str], str]:
    """NAME=value of each, and the PATH among them. The caller's variables win over the policy's, which win over false
    credentials, and the placeholders of secrets over all. An uncaged command has the host's."""
    command, prepared, live = request.command, request.prepared, request.live
    is_plain = request.caged and not (command.env or live.canaries or live.placeholders)
    if is_plain and prepared.variables is not None:
        return prepared.variables
    env = {} if request.caged else dict(os.environ)
    env.update(prepared.plan.env)
    if has_scratch := SCRATCH in env.values():
        env.update((name, live.scratch) for name, value in prepared.plan.env if value == SCRATCH)
    env.update(command.env)
    if live.canaries:
        from pysandbox.dlp.canary import besides

        env = {**besides(env, live.canaries), **env}
    env.update(live.placeholders)
    variables = list(map("=".join, env.items())), env.get("PATH", orders.DEFAULT_PATH)
    if is_plain and not has_scratch:
        prepared.variables = variables
    return variables


def encode(request: LaunchRequest, targets: Sequence[int]) -> orders.ExecMessage:
    """`targets` are the numbers of its descriptors in the cage."""
    command, plan = request.command, request.prepared.plan
    env, path = _variables(request)
    return orders.encode_exec(
        argv=command.argv,
        env=env,
        paths=orders.candidates(command.argv[0], path),
        cwd=plan.cwd if command.cwd is None and plan.copies is None else _directory(request),
        targets=targets,
        limits=request.prepared.limits,
        n_limits=len(plan.limits),
        walltime=plan.walltime,
        grace=plan.grace,
        command_id=request.id,
        oneshot=request.oneshot,
        terminal=bool(request.pty),
        quiet=request.quiet,
    )
