"""A scope of systemd for a cage: where systemd owns the cgroup tree, its D-Bus interface is how to get a part of it.

Needs the optional package jeepney (`pip install 'pysandbox[systemd]'`). A scope takes a process in and is not born
with one: the cage is moved when it waits for its first order, so that no command ever runs outside. systemd removes
the scope when the last process of it has ended.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from pysandbox.compile.plan import Setting
from pysandbox.errors import StartError
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jeepney.io.blocking import DBusConnection

SLICE = "pysandbox.slice"
PATIENCE = 5.0  # seconds systemd may take
FIX = "see `systemctl status` and the journal, or set resources.required = false to run without limits"
WHERE = {"bus_name": "org.freedesktop.systemd1", "interface": "org.freedesktop.systemd1.Manager"}
MANAGER = "/org/freedesktop/systemd1"

Property = tuple[str, tuple[str, Any]]


def _cpu_per_second(value: str) -> int:
    quota, period = value.split()
    return int(quota) * 1_000_000 // int(period)


# What a setting of a CgroupPlan is called on D-Bus (org.freedesktop.systemd1(5)). What is not here is written to the
# scope's own files: they are the caller's.
PROPERTIES: dict[str, tuple[str, Callable[[str], int]]] = {
    "memory.max": ("MemoryMax", int),
    "memory.swap.max": ("MemorySwapMax", int),
    "pids.max": ("TasksMax", int),
    "cpu.weight": ("CPUWeight", int),
    "cpu.max": ("CPUQuotaPerSecUSec", _cpu_per_second),
}


def properties(settings: Sequence[Setting], pid: int) -> list[Property]:
    """The properties of the scope that holds `pid` to these settings."""
    known = [(PROPERTIES[each.file], each.value) for each in settings if each.file in PROPERTIES]
    return [
        ("Description", ("s", "pysandbox cage")),
        ("Slice", ("s", SLICE)),
        ("CollectMode", ("s", "inactive-or-failed")),
        ("Delegate", ("b", True)),  # systemd then leaves alone what it was not asked for
        ("PIDs", ("au", [pid])),
        *((name, ("t", convert(value))) for (name, convert), value in known),
    ]


def enter_scope(bus: str, name: str, settings: Sequence[Setting], pid: int) -> None:
    """Has systemd put `pid` in a new scope and waits until it is there. Raises StartError."""
    from jeepney.io.blocking import DBusConnection, prep_socket
    from jeepney.wrappers import DBusErrorResponse

    try:
        with DBusConnection(prep_socket(bus, timeout=PATIENCE)) as connection:
            result = _start(connection, name, properties(settings, pid))
    except DBusErrorResponse as error:
        raise StartError("cgroup", errno.EIO, name, f"systemd says {error.name}: {error.data}; {FIX}") from None
    except OSError as error:  # TimeoutError among them
        raise StartError("cgroup", error.errno or errno.EIO, bus, FIX) from None
    if result != "done":
        raise StartError("cgroup", errno.EIO, name, f"systemd's job ended as {result!r}; {FIX}")


def _start(connection: DBusConnection, name: str, wanted: list[Property]) -> str:
    """StartTransientUnit and the end of its job: "done", or what went wrong."""
    from jeepney import DBusAddress, MatchRule, message_bus, new_method_call

    manager = DBusAddress(MANAGER, **WHERE)
    removed = MatchRule(type="signal", member="JobRemoved", path=MANAGER, interface=WHERE["interface"])

    def ask(message: Any) -> tuple[Any, ...]:
        from jeepney.wrappers import unwrap_msg

        answer: tuple[Any, ...] = unwrap_msg(connection.send_and_get_reply(message, timeout=PATIENCE))
        return answer

    ask(message_bus.AddMatch(removed))
    ask(new_method_call(manager, "Subscribe"))
    with connection.filter(removed, bufsize=1000) as jobs:  # others start units too
        (job,) = ask(new_method_call(manager, "StartTransientUnit", "ssa(sv)a(sa(sv))", (name, "fail", wanted, [])))
        while True:
            _, path, _, result = connection.recv_until_filtered(jobs, timeout=PATIENCE).body
            if path == job:
                return str(result)
