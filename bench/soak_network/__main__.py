"""Holds a crowd of connections from many cages for a while: python -m bench.soak_network [--seconds N]

A thousand connections over fifty cages, by name, through the transparent, SOCKS and HTTP doors. Connections come and
go, and so do cages. Found is: a byte that is not the one sent, a connection with two cages' tokens, an answer that
takes longer than --stall (unless a program without a cage had to wait at the same time), a client that fails, and
whatever the host still holds at the end. Exits with 1 and what was found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _support.internet import internet, places
from bench.soak_network import PORT, SERVER

SHARE = 0.9  # of all connections that have to be open at once, at some time


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak_network", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (600)")
    parser.add_argument("--cages", type=int, default=50, help="cages at once (50)")
    parser.add_argument("--connections", type=int, default=20, help="of each cage (20)")
    parser.add_argument("--stall", type=float, default=1.0, help="seconds an answer may take (1)")
    given = parser.parse_args()
    paths = [str(Path(each).resolve()) for each in ("", *filter(None, sys.path))]  # it runs in another directory
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XDG_RUNTIME_DIR": ""}
    with tempfile.TemporaryDirectory(prefix="soak-network-") as name, internet(Path(name), tap=False) as net:
        command = [sys.executable, "-m", "bench.soak_network.crowd", str(given.seconds), str(given.cages),
                   str(given.connections), str(given.stall)]  # fmt: skip
        with net.serving([sys.executable, str(SERVER), places.ORIGIN, str(PORT)]) as server:
            crowd = subprocess.run(net.space.command(command, ordinary=True), env=environment).returncode
            seen = json.loads(server.communicate()[0])
    return max(crowd, judged(seen, given.cages * given.connections))


def judged(seen: dict[str, Any], wanted: int) -> int:
    """What the server has to say."""
    print(f"the server had at most {seen['most']} connections at once")
    found = [*seen["found"], *(["too few connections were open at once"] if seen["most"] < SHARE * wanted else [])]
    for each in found:
        print(f"FOUND {each}")
    return 1 if found else 0


sys.exit(main())
