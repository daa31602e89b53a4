"""`python -m pysandbox`: the same as the command `pysandbox`.

Python puts the working directory first on its way of imports then, and a cage may have written there: it is taken off.
What Python itself has imported from there by now is out of our hands; the command, or `python -P`, never looks there.
"""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd() != os.path.dirname(os.path.dirname(__file__)):
    del sys.path[0]

from pysandbox.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
