"""`pysandbox ps`: the cages of this user that run, whoever started them."""

from __future__ import annotations

import shutil

from pysandbox.cli import cages, console
from pysandbox.cli.flags import Parser
from pysandbox.live import processes
from pysandbox.records import registry
from pysandbox.records.registry import CageRecord
from pysandbox.shapes import Any, asdict

EPILOG = """\
Examples:
  pysandbox ps           id, pid of the cage's init, pid of its host, age, state, command
  pysandbox ps --json    the same for a program

A cage is listed once it has lasted a few milliseconds. Its host ending ends it, unless its state is `detached`.
"""
COLUMNS = "{id:<26}  {pid:>7}  {host:>7}  {age:>4}  {state:<8}  {command}"
WIDTH_BEFORE_COMMAND = 63


def main(arguments: list[str], verbose: bool) -> int:
    return cages.guarded("ps", lambda: _list(as_json=parser().read(arguments).json))


def parser() -> Parser:
    declared = cages.parser("ps", "List the cages that run.", EPILOG, with_id=False)
    declared.add_argument("--json", action="store_true", help="Print one JSON document.")
    return declared


def _list(*, as_json: bool) -> int:
    live = registry.live()
    if as_json:
        console.document([document(record) for record in live], indent=2)
        return 0
    width = shutil.get_terminal_size((200, 24)).columns - WIDTH_BEFORE_COMMAND
    console.out(COLUMNS.format(id="ID", pid="PID", host="HOST", age="AGE", state="STATE", command="COMMAND"))
    for record in live:
        commands = "; ".join(cages.command_lines(record)) or "(an open session)"
        row = {"id": record.id, "pid": record.init.pid, "host": record.host.pid, "age": cages.age(record)}
        console.out(COLUMNS.format(**row, state=state(record), command=cages.printable(commands, max(20, width))))
    return 0


def state(record: CageRecord) -> str:
    """`paused` when every process of it stands still."""
    every = processes.tasks(processes.descendants(record.init.pid))
    tasks = [task for task in every if task.state not in "ZX"]
    if tasks and all(task.state in "Tt" for task in tasks):
        return "paused"
    if record.detached:
        return "detached"
    return "running" if processes.moving(tasks) else "idle"


def document(record: CageRecord) -> dict[str, Any]:
    values = asdict(record)
    del values["key"]  # it opens the door to the shim
    return values | {
        "init": record.init.pid,
        "host": record.host.pid,
        "state": state(record),
        "commands": cages.command_lines(record),
    }
