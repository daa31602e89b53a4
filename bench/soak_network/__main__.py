"""Holds a crowd of connections from many cages for a while: python -m bench.soak_network [--seconds N]

A thousand connections over fifty cages, by name, through the transparent, SOCKS and HTTP doors. Connections come and
go, and so do cages. Found is: a byte that is not the one sent, a connection with two cages' tokens, an answer that
takes more than a second (unless a program without a cage had to wait at the same time), a client that fails, and
whatever the host still holds at the end. Exits with 1 and what was found.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _support.internet import internet


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak_network", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (600)")
    parser.add_argument("--cages", type=int, default=50, help="cages at once (50)")
    parser.add_argument("--connections", type=int, default=20, help="of each cage (20)")
    given = parser.parse_args()
    paths = [str(Path(each).resolve()) for each in ("", *filter(None, sys.path))]  # it runs in another directory
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_RUNTIME_DIR": ""}
    with tempfile.TemporaryDirectory(prefix="soak-network-") as name, internet(Path(name), tap=False) as net:
        command = [sys.executable, "-m", "bench.soak_network.crowd", str(given.seconds), str(given.cages),
                   str(given.connections)]  # fmt: skip
        return subprocess.run(net.space.command(command, ordinary=True), env=environment).returncode


sys.exit(main())
