"""`python -m pysandbox`: the same as the command `pysandbox`."""

from __future__ import annotations

import sys

from pysandbox.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
