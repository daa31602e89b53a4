"""Writes what errors are called (strerror(3)) as a C table: the launcher says it as the Python command does.

    python tools/errno_texts.py OUTPUT

The C library of the launcher may be another one than Python's, with other texts for some of them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

COUNT = 134  # one more than the last of asm-generic/errno.h


def main(output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("".join(f"{json.dumps(os.strerror(number))},\n" for number in range(COUNT)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
