"""Ratios to no cage, of connections through the gatekeeper and beside it: python -m bench.network [--rounds N]

Makes an internet of its own (tests/_support/internet), where the servers have addresses that a gatekeeper lets through,
and runs everything in it without any privilege, cages and what they are compared with alike.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _support.internet import internet, places
from bench.network.programs import DRAIN, ECHO, SERVER


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.network", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="of each row (9)")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    given = parser.parse_args()
    paths = [str(Path(each).resolve()) for each in ("", *filter(None, sys.path))]  # it runs in another directory
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_RUNTIME_DIR": ""}
    with tempfile.TemporaryDirectory(prefix="bench-network-") as name, internet(Path(name), tap=False) as net:
        command = [sys.executable, "-m", "bench.network.inside", str(given.rounds), given.only]
        with net.serving([sys.executable, "-c", SERVER, places.ORIGIN, str(ECHO), str(DRAIN)]):
            return subprocess.run(net.space.command(command, ordinary=True), env=environment).returncode


sys.exit(main())
