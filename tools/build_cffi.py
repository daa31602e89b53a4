"""Writes the C source of the extension: python tools/build_cffi.py OUT.c HEADER...

The headers are the declarations: cffi reads them with preprocessor lines and include guards stripped, and the
generated source includes them, so the compiler checks that both agree.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cffi import FFI


def declarations(header: str) -> str:
    text = Path(header).read_text(encoding="utf-8")
    return "\n".join(
        line for line in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).splitlines() if not line.startswith("#")
    )


def main(out: str, *headers: str) -> None:
    ffi = FFI()
    for header in headers:
        ffi.cdef(declarations(header))
    ffi.set_source("pysandbox._native", "".join(f'#include "{header}"\n' for header in headers), py_limited_api=True)
    ffi.emit_c_code(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
