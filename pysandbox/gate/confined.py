"""How a process of ours begins that is to confine itself: an interpreter of its own, with this package and a few
descriptors, nothing of the host program's environment, and nothing of its terminal: neither what a user types, nor a
descriptor by which it could be read, or by which whoever waits for the end of the host's output waits for this. Its
standard error is a pipe for its last words (`last_words`).

It begins while cages run, or after them, and a cage may write where the host program imports from. So Python's own
modules come first there, and of the host's path only the directories are searched, last, that hold what is needed
besides: as the host's own import has found it, which passes over what a cage has put there (runtime/imports.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec

from pysandbox.gate.last_words import LastWords
from pysandbox.shapes import Any

STARTER = "import sys; sys.path += sys.argv[COUNT:]; from MODULE import main; main(*map(int, sys.argv[1:COUNT]))"
# What is not Python's own and is imported there, where it is installed.
NEEDED = ("pysandbox", "_cffi_backend", "h11", "h2", "hpack", "hyperframe", "OpenSSL", "cryptography",
          "typing_extensions", "brotli", "backports")  # fmt: skip


class ConfinedProcess(subprocess.Popen[bytes]):
    """One that is not left behind by a host that cannot hear whether it has begun. Its `words` are to be closed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.words = LastWords()
        try:
            kwargs["stderr"] = self.words.other
            super().__init__(*args, **kwargs)
            self.words.begun()
        except BaseException:
            self.words.close()
            if getattr(self, "pid", None) is not None and self.returncode is None:
                self.kill()
                self.wait()
            raise


def start(
    module: str, fds: Sequence[int], *numbers: int, environment: Mapping[str, str] | None = None
) -> ConfinedProcess:
    """Calls `main` of the module with the descriptors and the numbers. Raises OSError."""
    words = [str(each) for each in (*fds, *numbers)]
    starter = STARTER.replace("MODULE", module).replace("COUNT", str(len(words) + 1))
    return ConfinedProcess(
        [sys.executable, "-I", "-c", starter, *words, *dict.fromkeys(_places())], env=dict(environment or {}), cwd="/",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=tuple(fds),
        process_group=0,  # what a user types at the terminal is for the host program
    )  # fmt: skip


def _places() -> Iterator[str]:
    """The directories that hold what is needed. What is imported already is not looked for."""
    for name in NEEDED:
        spec = None
        with suppress(ImportError, ValueError):
            spec = getattr(sys.modules.get(name), "__spec__", None) or find_spec(name)
        if spec is None:
            continue
        files = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
        yield from (os.path.dirname(os.path.abspath(each)) for each in files)
