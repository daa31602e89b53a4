"""The program of an interpreter in a cage, as text: it need not have pysandbox, nor see a file of it."""

from __future__ import annotations

import base64
import marshal
from functools import cache
from importlib.util import find_spec

INSIDE = ("calls", "tables", "codec", "inside")


@cache
def boot_text(*more: str) -> str:
    """For `python -c`: the modules of the inside, and `more`, whose `main` is called; no trace of them is left in
    sys.modules. They are compiled here, once, by the same interpreter."""
    codes = {}
    for name in (*INSIDE, *more):
        spec = find_spec(f"pysandbox.pipeline.{name}")
        assert spec is not None and spec.origin is not None
        with open(spec.origin, encoding="utf-8") as file:
            codes[f"pysandbox.pipeline.{name}"] = compile(file.read(), f"<pysandbox {name}>", "exec", dont_inherit=True)
    return f"""import sys, types, marshal, binascii
codes = marshal.loads(binascii.a2b_base64({base64.b64encode(marshal.dumps(codes)).decode()!r}))
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
module.main()
"""
