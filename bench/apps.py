"""What the app runtime costs: control instructions, an effect beside its wrapper, the port beside a bare exchange, a
thousand grants, a million denials, and replays of random programs.

    python -m bench.apps [--rounds N] [--programs N] [--seed N]

Each bar is measured in turns with what it is compared with, in one process, and printed with its median. The exit code
is 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pysandbox.apps import App, AppManifest, AppPackage, AppStore, Budget, Kernel, wire
from pysandbox.apps.denials import DenialLog
from pysandbox.apps.dispatch import Dispatch
from pysandbox.apps.grant import AppGrant, reduce_request, sign, verify
from pysandbox.apps.journal import AppJournal, RecordingCalls
from pysandbox.apps.machine import Machine
from pysandbox.apps.opcodes import OPCODES
from pysandbox.apps.package import PackageFile
from pysandbox.apps.port import RequestDispatch, serve
from pysandbox.apps.program import CONTROL, PLACE, WRITTEN, MachineProgram, operands_of

ALL = ["chan.use", "fs.use", "input.route", "win.manage"]
CONTROL_RATE, EFFECT_US, PORT_RATIO, VERIFY_MS, HOST_MB = 2e6, 2.0, 1.3, 20.0, 50.0
TURNS = 200_000


def package(instructions: Sequence[Sequence[Any]], **changes: Any) -> AppPackage:
    manifest = {
        "app_id": "bench.app", "version": "1", "entrypoint": "main.json", "requested_capabilities": ALL,
        "resource_scopes": {"fs_prefixes": ["docs"], "domains_allowed": ["desk"]}, **changes,
    }  # fmt: skip
    files = {"app.json": manifest, "main.json": {"program": list(map(list, instructions))}}
    return AppPackage({name: PackageFile(json.dumps(each).encode(), False) for name, each in files.items()})


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread: what else the machine does is not counted."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def control(rounds: int) -> float:
    """Instructions a second: the loop that a program spends its time in."""
    program = [["CONST", 1, 1], ["MOVE", 2, 1], ["NOP"], ["JUMP_IF", 2, 0], ["HALT"]]
    parsed = MachineProgram.parse(json.dumps({"program": program}).encode())

    def once() -> None:
        with Kernel() as kernel:
            Machine(parsed, Dispatch(grant(), kernel, DenialLog(10)), TURNS).run()

    return TURNS / statistics.median(seconds(once) for _ in range(rounds))


def grant() -> AppGrant:
    return App.debug(package([["HALT"]])).grant


def effect(rounds: int) -> float:
    """Microseconds that the checks, the journal and the dispatch add to a wrapper that is called directly."""
    count = TURNS // 10
    with Kernel() as kernel:
        dispatch = Dispatch(grant(), RecordingCalls(kernel, AppJournal({})), DenialLog(10))
        step, gate = dispatch.step, dispatch.gates["EMIT"]

        def checked() -> None:
            for tick in range(count):
                step(tick, gate, ["desk", 1])

        def bare() -> None:
            for _ in range(count):
                kernel.call("event.emit", "bench.app", ["desk", 1])

        pairs = [(seconds(checked), seconds(bare)) for _ in range(rounds)]
    return statistics.median(one - other for one, other in pairs) / count * 1e6


class Exchanges(NamedTuple):
    """How long one exchange takes: seconds that go by for who asks, and seconds of the processor, of both sides."""

    wall: float
    processor: float


def exchange(rounds: int) -> Exchanges:
    """The round trip of a port as multiples of a bare one: the same messages, each another one, between two processes,
    and as long a turn of each after the other."""
    count = TURNS // 40
    request, reply = wire.record(OPCODES["EMIT"].number, ("desk", 1)), wire.record(0, ())

    def echoed() -> Exchanges:
        return turns(lambda end: echo(end, reply), request, count)

    def served() -> Exchanges:
        with Kernel() as kernel:
            journal = AppJournal({})  # as every run has one
            calls = RecordingCalls(kernel, journal)
            requests = RequestDispatch(Dispatch(grant(), calls, DenialLog(10)), 10 * count, journal)
            return turns(lambda end: serve(end, requests), request, count)

    pairs = [(served(), echoed()) for _ in range(rounds)]
    return Exchanges(
        statistics.median(one.wall / other.wall for one, other in pairs),
        statistics.median(one.processor / other.processor for one, other in pairs),
    )


def echo(end: socket.socket, reply: bytes) -> None:
    receive, send, most = end.recv, end.send, wire.LARGEST + 1
    while receive(most):
        send(reply)


ASKING = """
import socket, sys, time
with socket.socket(fileno=int(sys.argv[1])) as port:
    head = bytes.fromhex(sys.argv[2])[:-8]
    requests = [head + number.to_bytes(8, "little") for number in range(int(sys.argv[3]))]
    began, used = time.perf_counter(), time.process_time()
    for request in requests:
        port.send(request)
        port.recv(1 << 16)
print(time.perf_counter() - began, time.process_time() - used)
"""


def turns(serving: Callable[[socket.socket], object], request: bytes, count: int) -> Exchanges:
    """What so many exchanges with another process take."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with far:
        with near:
            asked = [sys.executable, "-c", ASKING, str(near.fileno()), request.hex(), str(count)]
            asking = subprocess.Popen(asked, pass_fds=[near.fileno()], stdout=subprocess.PIPE)
        used = seconds(lambda: serving(far))
    wall, theirs = map(float, asking.communicate()[0].split())
    return Exchanges(wall, used + theirs)


def verified(rounds: int) -> float:
    """Milliseconds to verify a thousand records."""
    with tempfile.TemporaryDirectory() as place:
        key = AppStore(Path(place) / "apps").key
    records = []
    for number in range(1000):
        content = package([["HALT"]], app_id=f"app{number}").files["app.json"].content
        asked = AppManifest.parse(content, "app.json")
        records.append((f"app{number}", sign(reduce_request(asked, "0" * 64, asked.requested), key)))

    def once() -> None:
        for name, record in records:
            verify(record, key, name)

    return statistics.median(seconds(once) for _ in range(rounds)) * 1000


def denied() -> tuple[int, float]:
    """A million instructions that are all denied: the records that are kept, and what the host's memory grew by."""
    loop = package([["CONST", 1, "elsewhere/" + "x" * 100], ["FS_LIST", 2, 1], ["JUMP", 1]])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = 0
    for _ in range(100):
        outcome = App.debug(loop).run(debug=True, budget=Budget(ticks=1_000_000, log_records=10_000))
        kept = max(kept, len(outcome.log))
    return kept, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def replayed(programs: int, seed: int) -> int:
    """How many of so many random programs are repeated to the byte."""
    chance, same = random.Random(seed), 0
    for _ in range(programs):
        length = chance.randint(1, 24)
        app = App.debug(package([instruction(chance, length) for _ in range(length)]))
        outcome = app.run(debug=True, budget=Budget(ticks=200, log_records=50))
        again = app.replay(outcome.journal)
        same += (again.log.text(), again.ended, again.ticks) == (outcome.log.text(), outcome.ended, outcome.ticks)
    return same


def instruction(chance: random.Random, length: int) -> list[Any]:
    name = chance.choice(sorted(OPCODES))
    return [name, *(operand(chance, kind, length) for kind in operands_of(name))]


def operand(chance: random.Random, kind: str, length: int) -> Any:
    if kind == PLACE:
        return chance.randrange(length)
    if kind == "a constant":
        return chance.choice(["docs", "docs/a", "docs2/a", "../x", "r", "w", "desk", "mail", 0, 7, 2**53])
    if kind in CONTROL["SLEEP_TICKS"]:
        return chance.choice([0, 1, 50])
    return chance.randint(1 if kind == WRITTEN else 0, 5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=4)
    given = parser.parse_args()
    kept, grown = denied()
    same = replayed(given.programs, given.seed)
    rate, added = control(given.rounds), effect(given.rounds)
    ratio, taken = exchange(given.rounds), verified(given.rounds)
    rows = (
        (f"control instructions a second  {rate / 1e6:6.2f} M    at least {CONTROL_RATE / 1e6:g} M",
         rate >= CONTROL_RATE),
        (f"an effect, beside its wrapper  {added:6.2f} us   at most {EFFECT_US:g} us", added <= EFFECT_US),
        (f"round trip of the port         {ratio.processor:6.2f} x    at most {PORT_RATIO:g} x a bare one, in time of "
         f"both processors; {ratio.wall:.2f} x as long", ratio.processor <= PORT_RATIO),
        (f"verifying 1,000 grants         {taken:6.2f} ms   at most {VERIFY_MS:g} ms", taken <= VERIFY_MS),
        (f"1,000,000 denials              {grown:6.1f} MB   at most {HOST_MB:g} MB, {kept} records a run",
         grown <= HOST_MB),
        (f"replayed to the byte           {same} of {given.programs} programs", same == given.programs),
    )  # fmt: skip
    for line, held in rows:
        print(f"{line}{'' if held else '   MISSED'}")
    return 0 if all(held for _, held in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
