"""Where a command's program is looked for: what execvp would try, in order. Cheap to import."""

from __future__ import annotations

import os

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def candidates(program: str, path: str) -> list[str]:
    if "/" in program:
        return [program]
    return [os.path.join(directory or ".", program) for directory in path.split(":")]
