"""Compiles the shipped profiles: writes OUTDIR/seccomp/*.bpf; the build installs OUTDIR as pysandbox/_data.

    python tools/compile_profiles.py OUTDIR [--check-numbers]

Run by the build from the source tree, which asks nobody for a number: the tables of pysandbox/compile/syscalls are
generated (gen_syscalls.py), and the suite holds each of them to libseccomp (tests/unit/compile/test_seccomp_tables.py).
With --check-numbers (releases) libseccomp is asked here as well, through pyseccomp, and a difference, or its absence,
stops the build. The filters are the same either way; libseccomp is never needed at run time.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pysandbox.compile.init_calls import left_open
from pysandbox.compile.profiles import SHIPPED, profile
from pysandbox.compile.seccomp import OF_ADDRESSES, SYSV_MEMORY, Choice, build
from pysandbox.compile.syscalls import MACHINES, table

NONE: frozenset[str] = frozenset()
MISSING = """compile_profiles: pyseccomp (libseccomp) is not installed, so the system call numbers cannot be checked:
`pip install pyseccomp`, and the distribution's libseccomp2"""


def main(arguments: list[str]) -> int:
    options = [each for each in arguments if each.startswith("--")]
    targets = [each for each in arguments if not each.startswith("--")]
    if len(targets) != 1 or set(options) - {"--check-numbers"}:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = check_numbers() if options else []
    if wrong is None:
        print(MISSING, file=sys.stderr)
        return 1
    if wrong:
        print("compile_profiles: libseccomp knows other numbers: " + ", ".join(wrong), file=sys.stderr)
        return 1
    directory = Path(targets[0]) / "seccomp"
    directory.mkdir(parents=True, exist_ok=True)
    for choice, machine in product(choices(), MACHINES):
        program = build(choice, machine)
        if not left_open(program, machine):  # who finds a shipped filter asks no more questions (compile.filters)
            (directory / choice.file(machine)).write_bytes(program)
    return 0


def choices() -> list[Choice]:
    """Every filter that a policy without extras asks for, with a watchdog of memory and without one, and one with
    addresses that may be reached; monitor's are compiled on first use."""
    plain = [
        Choice(name, mode, sockets, denial, NONE, closed)
        for name, sockets, denial, closed in product(SHIPPED, ("inet", "tcp"), ("errno", "kill"), (NONE, SYSV_MEMORY))
        for mode in profile(name).modes
    ]
    reaching = [each._replace(notify=OF_ADDRESSES, leads_out=True) for each in plain if each.sockets == "inet"]
    return [*plain, *reaching]


def check_numbers() -> list[str] | None:
    """Names that libseccomp numbers otherwise; None where it is not installed. What it does not know yet is skipped."""
    try:
        import pyseccomp
    except (ImportError, RuntimeError):
        return None
    arches = {"x86_64": pyseccomp.Arch.X86_64, "aarch64": pyseccomp.Arch.AARCH64}
    wrong = []
    for machine, (_, numbers) in ((each, table(each)) for each in MACHINES):
        for name, number in numbers.items():
            theirs = pyseccomp.resolve_syscall(arches[machine], name)
            if theirs >= 0 and theirs != number:
                wrong.append(f"{machine} {name} {theirs} (here {number})")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
