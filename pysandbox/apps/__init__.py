"""Apps (document 004): programs whose every effect is an instruction that is checked against a signed grant.

    app.py       START HERE: App, a package and its grant; run and replay    outcome.py  what is left of a run
    manifest.py  what an app asks for      plugin.py   document 000's words -> Policy    strict.py  TOML and JSON
    grant.py     what it was granted       package.py  its files, by one digest          store.py   what is installed
    entrypoint.py  what of it is started, in a sentence      stopping.py  a run ended from outside
    opcodes.py   one row each              scope.py    operands in what was granted      handles.py numbers and owners
    dispatch.py  START HERE for the security argument: from an instruction to an effect, the one way
    denials.py   the log                   page.py    app and log as a page of HTML
    kernel/     the wrappers: files, channels, windows, events
    program.py, machine.py   the small machine         journal.py  what came in, and the run repeated from it
    port.py, process.py, client.py, wire.py   a process in a cage as an app: its port, its cage, what it imports

The names below are the public ones; each is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False

_WHERE = {
    "App": "app", "Budget": "app", "AppOutcome": "outcome", "AppGrant": "grant", "AppManifest": "manifest",
    "AppPackage": "package", "AppStore": "store", "Scopes": "scope", "Kernel": "kernel.kernel",
    "DeniedInstruction": "denials", "CompiledPlugin": "plugin", "RunStop": "stopping",
}  # fmt: skip

__all__ = [
    "App", "AppGrant", "AppManifest", "AppOutcome", "AppPackage", "AppStore", "Budget", "CompiledPlugin",
    "DeniedInstruction", "Kernel", "RunStop", "Scopes",
]  # fmt: skip

if TYPE_CHECKING:
    from pysandbox.apps.app import App, Budget
    from pysandbox.apps.denials import DeniedInstruction
    from pysandbox.apps.grant import AppGrant
    from pysandbox.apps.kernel.kernel import Kernel
    from pysandbox.apps.manifest import AppManifest
    from pysandbox.apps.outcome import AppOutcome
    from pysandbox.apps.package import AppPackage
    from pysandbox.apps.plugin import CompiledPlugin
    from pysandbox.apps.scope import Scopes
    from pysandbox.apps.stopping import RunStop
    from pysandbox.apps.store import AppStore


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
