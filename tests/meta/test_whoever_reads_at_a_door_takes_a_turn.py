"""One loop serves the doors of all cages. A call that reads or accepts returns without giving way for as long as there
is more, so each place that has one is known, and takes turns (`gate/turns.py`) or gives way itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pysandbox

GATE = Path(pysandbox.__file__).parent / "gate"
READS = {"sock_recv", "sock_recv_into", "sock_accept", "accept", "recv", "recvfrom", "recvmsg", "recvmsg_into",
         "recv_into"}  # fmt: skip
# Where it is done, in which function, and why it ends.
KNOWN = {
    ("tcp/stream.py", "read", "sock_recv"): "takes a turn first",
    ("tcp/stream.py", "is_quiet", "recv"): "looks at one byte, once",
    ("tcp/streams.py", "_accept", "accept"): "serve takes a turn for each",
    ("tcp/offered.py", "_read", "recv"): "one for each turn, and one for each that was accepted in a turn",
    ("tcp/passing.py", "_is_plain", "recv"): "once for each that was accepted in a turn",
    ("published/ports.py", "serve", "accept"): "takes a turn for each",
    ("dns/door.py", "_accepted", "accept"): "serve_tcp takes a turn for each, and waits in between",
    ("dns/door.py", "_answer_some", "recvfrom"): "a few in one turn",
    ("udp/relay.py", "_from_peers", "recvfrom"): "a few in one turn",
    ("udp/relay.py", "_from_other_side", "recv"): "a few in one turn",
    ("udp/lost.py", "record_lost", "recv"): "a few, then a pause",
    ("tcp/refused.py", "record_refused", "recv"): "a few in one turn",
    ("dns/resolver.py", "_ask_server", "sock_recv"): "a name server's; gives way each time",
    ("dns/resolver.py", "_receive", "sock_recv"): "a name server's; gives way each time",
    ("inspection/channel.py", "receive", "recvmsg_into"): "one record",
    ("inspection/sides.py", "read", "recv"): "in the inspector: a few for each event",
    ("inspection/sides.py", "_receive", "recv"): "in the inspector: one for each event",
    ("tcp/parent.py", "_head", "recv"): "the parent's; waits before each, 16 KiB in all",
    ("transaction.py", "_verdicts", "recv"): "the kernel's, in the thread that opens a cage",
}


def test_every_reader_of_the_gatekeeper_is_known_and_ends() -> None:
    assert set(readers()) == set(KNOWN)


def readers() -> Iterator[tuple[str, str, str]]:
    for path in sorted(GATE.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from ((str(path.relative_to(GATE)), function.name, called) for called in calls(function))


def calls(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS:
            yield node.func.attr
