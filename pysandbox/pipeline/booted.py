"""The program of an interpreter in a cage: it need not have pysandbox, nor see a file of it.

    with given_code("walls", "worker") as code:
        argv = [sys.executable, "-I", "-c", BOOT, str(code), ...]   and `code` among its descriptors

The modules go as code in memory that nobody can change, for one argument of exec(2) holds no more than 128 KiB, and a
text that long takes its time to be parsed. The memory is made for each: a program that closes all its descriptors, to
become a daemon, may give the number of a kept one to another file.
"""

from __future__ import annotations

import fcntl
import marshal
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from pysandbox.pipeline.calls import write_at
from pysandbox.pipeline.memory import fixed_memory

INSIDE = ("calls", "tables", "codec", "placing", "inside")
BOOT = """import sys, types, marshal, posix
code = int(sys.argv.pop(1))
codes = marshal.loads(posix.pread(code, posix.fstat(code).st_size, 0))
posix.close(code)
packages = ["pysandbox", "pysandbox.pipeline"]
for name in [*packages, *codes]:
    module = sys.modules[name] = types.ModuleType(name)
    if name in packages:
        module.__path__ = []
    else:
        exec(codes[name], module.__dict__)
        setattr(sys.modules[packages[1]], name.rpartition(".")[2], module)
for name in [*packages, *codes]:
    del sys.modules[name]
del codes, code
module.main()
"""  # calls `main` of the last one, and leaves no trace of them in sys.modules


@contextmanager
def given_code(*more: str) -> Iterator[int]:
    """A descriptor of the modules of the inside, and `more`, for one interpreter. Raises OSError."""
    code = _compiled(*more)
    fd = fixed_memory(len(code))
    try:
        write_at(fd, code, 0)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
        yield fd
    finally:
        os.close(fd)


@cache
def _compiled(*more: str) -> bytes:
    """Once, by the same interpreter."""
    codes = {}
    for name in (*INSIDE, *more):
        spec = find_spec(f"pysandbox.pipeline.{name}")
        assert spec is not None and spec.origin is not None
        with open(spec.origin, encoding="utf-8") as file:
            codes[f"pysandbox.pipeline.{name}"] = compile(file.read(), f"<pysandbox {name}>", "exec", dont_inherit=True)
    return marshal.dumps(codes)
