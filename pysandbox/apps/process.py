"""An app that is a process in a cage: its package read-only, the client library, one descriptor, and no other reach.

The cage has no network and no file of the user but what the grant's plugin words name; it may execute the one program
of its entrypoint. What runs are the bytes that were digested: they are written to a new directory of this user's, shown
to the cage at its own path, and removed afterwards.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pysandbox.apps import wire
from pysandbox.apps.grant import AppGrant
from pysandbox.apps.package import AppPackage
from pysandbox.apps.plugin import READ, SYSTEM_PATH, WRITE, compile_plugin
from pysandbox.apps.port import RequestDispatch, serve
from pysandbox.apps.stopping import STOPPED
from pysandbox.cage import Cage
from pysandbox.descriptors.sockets import socket_pair
from pysandbox.errors import PolicyError
from pysandbox.launch.removal import remove_tree
from pysandbox.policy.below import covers
from pysandbox.policy.expand import quote
from pysandbox.policy.model import Policy
from pysandbox.policy.option import Grant
from pysandbox.shapes import TYPE_CHECKING, NamedTuple, replace

if TYPE_CHECKING:
    from pysandbox.apps.stopping import RunStop
    from pysandbox.process import Process
    from pysandbox.runtime.runtime import Runtime

CLIENT = ("client.py", "wire.py")
ROOM = "a room of the package, as an app in a cage sees it\n"


class Staged(NamedTuple):
    """Where the files of a run are: the package, and the library beside it."""

    package: str
    library: str


@contextmanager
def staged(package: AppPackage) -> Iterator[Staged]:
    directory = tempfile.mkdtemp(prefix="pysandbox-app-")
    try:
        place = Staged(os.path.join(directory, "app"), os.path.join(directory, "lib"))
        os.mkdir(place.package, 0o700)
        package.write(place.package)
        _write_library(place.library)
        yield place
    finally:
        remove_tree(directory)


def _write_library(directory: str) -> None:
    """`pysandbox.apps.client` and what it imports, and nothing else of this package."""
    room = os.path.join(directory, "pysandbox", "apps")
    os.makedirs(room, mode=0o700)
    for folder in (os.path.dirname(room), room):
        with open(os.path.join(folder, "__init__.py"), "w", encoding="ascii") as file:
            file.write(f'"""{ROOM.strip()}"""\n')
    for name in CLIENT:
        shutil.copyfile(os.path.join(os.path.dirname(__file__), name), os.path.join(room, name))


def app_policy(grant: AppGrant, argv: tuple[str, ...], place: Staged, project: str | None) -> Policy:
    """`project` is the workspace, below which the paths of a plugin's words lie. Raises PolicyError."""
    if project is None and any(each.verb.endswith(":fs") for each in grant.plugin_words):
        raise PolicyError("its paths lie in a workspace, and there is none", key="workspace", suggestion="name one")
    program = find_program(argv[0], place)
    compiled = compile_plugin(grant.plugin_words, project or "/", find=find_system_program, programs=(program,))
    shown = tuple(Grant(quote(each)) for each in place)
    return replace(compiled.policy, allow=(*compiled.policy.allow, *shown))


def require_reachable(grant: AppGrant, project: str | None, store: str) -> None:
    """No word of a plugin names the store, which has the key of the grants. Raises PolicyError."""
    for each in grant.plugin_words if project is not None and store else ():
        path = os.path.realpath(os.path.join(project or "/", each.what))
        if each.verb in (READ, WRITE) and (covers(path, store) or covers(store, path)):
            raise PolicyError(f"{each} would reach {store}, where apps are installed, which no cage may",
                              key="workspace", suggestion="name another directory: --workspace DIR")  # fmt: skip


def find_system_program(name: str) -> str | None:
    return shutil.which(name, path=SYSTEM_PATH)


def find_program(name: str, place: Staged) -> str:
    """A program of the system by its name, or a file of the package by its path in it. Raises PolicyError."""
    if "/" not in name:
        found = find_system_program(name)
        if found is None:
            hint = f"it is looked for in {SYSTEM_PATH}; a file of the package is ./{name}"
            raise PolicyError(f"{name!r} is no program of this host", key="entrypoint", suggestion=hint)
        return found
    path = os.path.normpath(os.path.join(place.package, name)) if not name.startswith("/") else name
    if not os.access(path, os.X_OK):
        raise PolicyError(f"{name!r} cannot be executed", key="entrypoint", suggestion="chmod +x it, and pack it again")
    return path


def run_process(
    package: AppPackage, grant: AppGrant, argv: tuple[str, ...], requests: RequestDispatch, *, project: str | None,
    runtime: Runtime | None = None, stop: RunStop | None = None,
) -> str:  # fmt: skip
    """How the app ended: `exit N`, or what it was ended for. Raises what starting a cage raises; so does a runtime that
    has no cages, since the policy is a plugin's."""
    with staged(package) as place:
        policy = app_policy(grant, argv, place, project)
        host, inside = socket_pair()
        with host:
            with inside:
                number = inside.fileno()
                env = {wire.VARIABLE: str(number), "PYTHONPATH": place.library, "PYTHONDONTWRITEBYTECODE": "1"}
                words = (find_program(argv[0], place), *argv[1:])
                cage = Cage(policy, cwd=place.package, runtime=runtime, labels={"subagent_name": grant.app_id})
                process = cage.spawn(words, env=env, cwd=place.package, pass_fds=[number])
            with process:
                ended = _served(host, requests, process, stop)
                if ended:
                    process.kill()
                host.close()
                result = process.wait()
        return ended or f"exit {result}"


def _served(host: socket.socket, requests: RequestDispatch, process: Process, stop: RunStop | None) -> str:
    """Why it is to be ended, "" where it has ended itself; a process that has closed its port may go on."""
    if stop is None:
        return serve(host, requests)
    stop.watch(host)
    ended = serve(host, requests)
    if not ended:
        host.close()
        stop.await_end(process)
    return ended or (STOPPED if stop.asked else "")
