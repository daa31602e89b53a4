"""Who forgets to close hears nothing of sockets and threads that he has not made, also under `-X dev -W error`; and the
interpreter ends as it would have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = {
    "a function": "@sandboxed(pool=2)\ndef f(x): return x\nf(1); f.submit(2); found = f.map([1, 2]); next(found)",
    "one that is awaited": "@sandboxed\ndef f(x): time.sleep(x)\n"
    "async def main():\n    task = asyncio.ensure_future(f.aio(30))\n    await asyncio.sleep(0.5)\nasyncio.run(main())",
    "one that a thread calls": "@sandboxed\ndef f(x): time.sleep(x)\n"
    "threading.Thread(target=f, args=(30,), daemon=True).start(); time.sleep(0.5)",
    "an executor": "e = CageExecutor(max_workers=2)\ne.submit(abs, 1).result(); e.submit(abs, 2)",
    "a cage": "c = Cage().open()\nc.spawn(['/bin/cat'], stdin=PIPE, stdout=PIPE)\np = c.spawn(['/bin/sleep', '60'])",
    "what an error holds": "c = Cage().open()\n@sandboxed\ndef f(x): return x\n"
    "def main():\n    p = c.spawn(['/bin/sleep', '60'])\n    f(1)\n    raise SystemExit(1 / 0)\nmain()",
    "a task of a cage": "async def main():\n    c = await AsyncCage(Policy()).__aenter__()\n"
    "    p = await c.spawn(['/bin/cat'], stdin=PIPE, stdout=PIPE)\n"
    "    t = asyncio.ensure_future(c.run(['/bin/sleep', '60']))\n    await asyncio.sleep(0.5)\n"
    "asyncio.run(main())",
    "what is collected": "def f(x): return x\n"
    "def one():\n    g = sandboxed(pool=2)(f)\n    g(1); g.submit(2).result()\n"
    "def two():\n    e = CageExecutor(max_workers=1)\n    e.submit(abs, 1).result()\n"
    "def three():\n    c = Cage().open()\n    p = c.spawn(['/bin/cat'], stdin=PIPE)\n    q = c.spawn(['/bin/true'])\n"
    "for each in (one, two, three): each(); gc.collect()",
}
WORKERS = {
    "a template": "t = Template(parked=2).open()\nt.map(abs, [-1]); found = t.imap(abs, range(9)); next(found)",
    "an executor of workers": "e = CageExecutor(isolate='worker')\ne.submit(abs, 1).result(); e.submit(abs, 2)",
}
IMPORTS = """import asyncio, gc, logging, threading, time
from pysandbox import PIPE, AsyncCage, Cage, CageExecutor, Policy, Template, sandboxed
logging.getLogger('asyncio').setLevel('ERROR')
"""


def ends_quietly(tmp_path: Path, text: str) -> None:
    (tmp_path / "main.py").write_text(f"{IMPORTS}{text}\nprint('over')\n")
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "main.py"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    told = [each for each in done.stderr.splitlines() if not each.startswith((" ", "Traceback"))]
    if "1 / 0" in text:
        assert (told, done.returncode) == (["ZeroDivisionError: division by zero"], 1), done.stderr
    else:
        assert (done.stdout, done.stderr, done.returncode) == ("over\n", "", 0)


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_end_of_the_interpreter_tells_nothing(tmp_path: Path, what: str) -> None:
    ends_quietly(tmp_path, PROGRAMS[what])


@pytest.mark.landlock(6)
@pytest.mark.parametrize("what", WORKERS)
def test_nor_of_what_has_forked(tmp_path: Path, what: str) -> None:
    ends_quietly(tmp_path, WORKERS[what])
