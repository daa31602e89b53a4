"""What a Host runs: reads questions, one line of JSON each, and answers with what became of them.

It is an ordinary program that uses pysandbox: nothing here knows of doors, addresses or proxies.
"""

from __future__ import annotations

import gc
import glob
import json
import os
import subprocess
import sys
import threading
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pysandbox
from pysandbox import Cage, Event, Policy, Runtime
from pysandbox.policy.compose import resolve
from pysandbox.policy.host import HostRule


def made(fields: dict[str, Any]) -> Policy:
    """A Policy, of which `hosts` may be names instead of blocks; with `recipes`, what these make, with this on top."""
    if recipes := fields.pop("recipes", ()):
        return resolve(recipes, extra=fields).policy
    hosts = [each if isinstance(each, dict) else {"domain": each} for each in fields.pop("hosts", ())]
    if hosts or "allow_ips" in fields or "ports" in fields:
        fields.setdefault("egress", "proxy-only")
    return Policy(hosts=tuple(HostRule(**each) for each in hosts), **fields)


class Program:
    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.runtime = Runtime(sink=self.hear, warm=0)

    def hear(self, event: Event) -> None:
        self.events.append((event.type, dict(event.data)))

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if "state" in question:
            return {"exit_code": 0, "stdout": "", "stderr": "", "more": self.state()}
        argv, env, timeout = question["argv"], question["env"], question["timeout"]
        if question["policy"] is None:
            done = subprocess.run(argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="replace", timeout=timeout)  # fmt: skip
            return {"exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        self.events.clear()
        word = question["policy"].pop("leak_word", None)
        leak_fn = None if word is None else lambda part: word.encode() in part.data
        with Cage(made(question["policy"]), runtime=self.runtime, leak_fn=leak_fn) as cage:
            result = cage.run(argv, env=env, timeout=timeout, stdin=pysandbox.DEVNULL)
        denials = [asdict(each) for each in result.denials]
        self.runtime.drain()  # the reader of the doors ends with it, and the inspector
        return {
            "exit_code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr, "denials": denials,
            "events": [each for each in self.events if not each[0].startswith("subagent.")],
        }  # fmt: skip

    def state(self) -> dict[str, Any]:
        self.runtime.drain()
        gc.collect()
        tasks = map(Path, sorted(glob.glob("/proc/self/task/*/children")))
        return {
            "fds": len(os.listdir("/proc/self/fd")),
            "threads": sorted(each.name for each in threading.enumerate()),
            "children": " ".join(each.read_text() for each in tasks).split(),
        }


def main() -> None:
    program = Program()
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            answer = program.answer(json.loads(line))
        except Exception:  # whatever it is, the test that asked is the one to fail
            failed = traceback.format_exc()
            answer = {"exit_code": -1, "stdout": "", "stderr": failed, "failed": failed,
                      "events": program.events}  # fmt: skip
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
