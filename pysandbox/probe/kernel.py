"""What the running kernel answers: the extension's probes, and the release.

The one file of `probe` that imports the extension, and only when asked. It decides nothing: a probe gives an errno
(0: it works), `features` says what that means. The names are those of csrc/host/probe.h without `PSB_PROBE_`.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Row = tuple[str, int, int, bool]


def probe(name: str) -> int:
    """0 when the feature works for this caller here and now, else the errno of the call that failed."""
    from pysandbox._native import lib

    return int(lib.psb_probe(getattr(lib, f"PSB_PROBE_{name}")))


def redirect() -> int:
    """0 when nf_tables takes the redirect of a cage with doors, in a namespace of this caller's, else the errno."""
    from pysandbox._native import lib
    from pysandbox.probe.netlink import REDIRECT

    return int(lib.psb_probe_redirect(REDIRECT, len(REDIRECT)))


def landlock_abi() -> int:
    """The Landlock ABI, 0 when there is none."""
    from pysandbox._native import lib

    return max(0, int(lib.psb_landlock_abi()))


def landlock_errata() -> int | None:
    """The bit mask of fixed Landlock errata; None on a kernel that cannot tell."""
    from pysandbox._native import lib

    mask = int(lib.psb_landlock_errata())
    return mask if mask >= 0 else None


def version(release: str | None = None) -> tuple[int, int]:
    """(major, minor) of a kernel release, such as 6.18.44-cloud or 6.19-rc1; of this kernel when None."""
    major, _, rest = (release or os.uname().release).partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return int(major), int(rest[:digits])


def still_there(seen: Sequence[Row]) -> Callable[[], bool]:
    """A check of rows (path, st_dev, st_ino, within): ino 0 for a path that must lead nowhere, `within` for such a name
    of the directory in the nearest row before that is not `within`. One call; 40 paths take 25 us."""
    from pysandbox._native import ffi, lib

    names = [ffi.new("char[]", os.fsencode(path)) for path, *_ in seen]
    rows = [(name, dev, ino, 0, within) for name, (_, dev, ino, within) in zip(names, seen, strict=True)]
    table = ffi.new("struct psb_seen[]", rows)

    def check() -> bool:
        return bool(lib.psb_still_there(table, len(names)))  # `names` stays alive with this function

    return check
