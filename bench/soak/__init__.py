"""A long, unkind run of the library: hosts that are killed, cages that are killed, threads, forks, timeouts.

__main__.py     the command: arguments, summary, exit code
conductor.py    starts and kills hosts, holds the watch on every operation, collects what was found
running.py      a host as the conductor sees it
host.py         one host: threads that carry out operations, and a look at what they left behind
operations.py   what a host does to its cages, one function each, and how often
options.py      the same with every option, alone and in pairs, and what that costs a neighbour
planted.py      operations that break the rules on purpose, for the tests of this program
canary.py       what no cage may reach, and how one tries

A host writes one line of JSON for each thing that happens; `Line` is all they are made of.
"""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
