"""Calls and verdicts as lines of JSON, and back: what was decided once can be decided again by the same handlers.

    with Cage(policy, record=open("calls.jsonl", "w")) ...
    differences = replay(open("calls.jsonl"))

While calls are recorded none is answered from a table, so that every decision is there; the verdicts are the same.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator

from pysandbox.handlers.call import Call
from pysandbox.handlers.decide import decide
from pysandbox.handlers.network_rules import NetworkRules
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import Errno, Execute, InjectFd, OnBehalf, Verdict
from pysandbox.policy.endpoint import Endpoint
from pysandbox.shapes import IO, Any, asdict

VERDICTS = {kind.__name__: kind for kind in (Errno, OnBehalf, Execute, InjectFd)}


class VerdictWriter:
    """Writes one line for each decision. Any thread may call it."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._lock = threading.Lock()

    def write(self, call: Call, rules: CallRules, verdict: Verdict) -> None:
        line = json.dumps({"call": _call(call), "rules": _rules(rules), "verdict": _verdict(verdict)})
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


def _call(call: Call) -> dict[str, Any]:
    return asdict(call) | {"address": call.address.hex(), "marks": sorted(call.marks)}


def _rules(rules: CallRules) -> dict[str, Any]:
    return {
        "endpoints": _endpoints(rules.network.local),
        "by_mark": {str(mark): _endpoints(each) for mark, each in rules.by_mark.items()},
        "source": rules.source,
        "grants": _endpoints(rules.network.grants),
        "named": _endpoints(rules.network.named),
        "own": _endpoints(rules.network.own),
    }


def _endpoints(endpoints: Iterable[Endpoint]) -> list[list[Any]]:
    return [[each.address.hex(), *each[1:]] for each in endpoints]


def _verdict(verdict: Verdict) -> list[Any]:
    return [type(verdict).__name__, asdict(verdict)]


def read_records(lines: Iterable[str]) -> Iterator[tuple[Call, CallRules, Verdict]]:
    """Raises ValueError, naming the line."""
    for number, line in enumerate(lines, 1):
        try:
            yield _read(json.loads(line))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number} is not a recorded call: {error}") from None


def _read(record: dict[str, Any]) -> tuple[Call, CallRules, Verdict]:
    call, rules, (kind, fields) = record["call"], record["rules"], record["verdict"]
    read = call | {"address": bytes.fromhex(call["address"]), "argv": tuple(call["argv"]),
                   "marks": frozenset(call["marks"])}  # fmt: skip
    by_mark = {int(mark): _read_endpoints(each) for mark, each in rules["by_mark"].items()}
    lists = (_read_endpoints(rules.get(each, [])) for each in ("grants", "named", "own"))  # older records have none
    network = NetworkRules(_read_endpoints(rules["endpoints"]), *lists)
    return (
        Call(**read),
        CallRules(network, by_mark, rules["source"]),
        VERDICTS[kind](**fields),
    )


def _read_endpoints(lists: list[list[Any]]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(bytes.fromhex(address), *rest) for address, *rest in lists)


def replay(lines: Iterable[str]) -> list[tuple[Call, Verdict, Verdict]]:
    """Decides every recorded call again: (call, verdict then, verdict now) where they differ."""
    differences = []
    for call, rules, then in read_records(lines):
        now = decide(call, rules)
        if now != then:
            differences.append((call, then, now))
    return differences
