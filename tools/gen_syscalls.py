"""Writes the system call tables: pysandbox/compile/syscalls/{x86_64,aarch64,elsewhere}.py.

Run by hand when a kernel adds calls: `python tools/gen_syscalls.py`, then read the diff. Three sources, later ones only
add: libseccomp (through pyseccomp), the kernel headers that a C compiler of that machine finds, and NEWER below. Two
sources that disagree about a number stop the run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyseccomp

TARGET = Path(__file__).resolve().parent.parent / "pysandbox" / "compile" / "syscalls"

# machine, AUDIT_ARCH_* of <linux/audit.h>, libseccomp's name, C compilers whose headers are that machine's
MACHINES = (
    ("x86_64", 0xC000003E, pyseccomp.Arch.X86_64, ("x86_64-linux-gnu-gcc", "gcc")),
    ("aarch64", 0xC00000B7, pyseccomp.Arch.AARCH64, ("aarch64-linux-gnu-gcc",)),
)

# Since Linux 5.1 a new call has one number on every machine: scripts/syscall.tbl, up to Linux 6.18.
NEWER = {
    "cachestat": 451, "fchmodat2": 452, "map_shadow_stack": 453, "futex_wake": 454, "futex_wait": 455,
    "futex_requeue": 456, "statmount": 457, "listmount": 458, "lsm_get_self_attr": 459, "lsm_set_self_attr": 460,
    "lsm_list_modules": 461, "mseal": 462, "setxattrat": 463, "getxattrat": 464, "listxattrat": 465,
    "removexattrat": 466, "open_tree_attr": 467, "file_getattr": 468, "file_setattr": 469,
}  # fmt: skip
# Entered by the kernel's own trampolines only (arch/x86/entry/syscalls/syscall_64.tbl, Linux 6.11 and 6.18).
NEWER_X86_64 = {"uretprobe": 335, "uprobe": 336}

BEYOND = 1024  # no number of either machine lies above; x32's own numbers (512-547) resolve to nothing here


def main() -> None:
    known: set[str] = set()
    for machine, audit_arch, arch, compilers in MACHINES:
        table = _from_libseccomp(arch)
        _add(machine, table, _from_headers(compilers))
        _add(machine, table, NEWER | (NEWER_X86_64 if machine == "x86_64" else {}))
        known |= table.keys()
        body = "".join(f'    "{name}": {number},\n' for name, number in sorted(table.items(), key=lambda row: row[1]))
        _write(
            machine,
            f"System call numbers of {machine}, up to Linux 6.18.",
            f"AUDIT_ARCH = 0x{audit_arch:08X}  # <linux/audit.h>\n\nNUMBERS: dict[str, int] = {{\n{body}}}\n",
        )
    body = "".join(f'        "{name}",\n' for name in sorted(_elsewhere() - known))
    _write(
        "elsewhere",
        "Names of system calls that only other machines have: accepted in a policy, and without effect.",
        f"NAMES: frozenset[str] = frozenset(\n    {{\n{body}    }}\n)\n",
    )


def _from_libseccomp(arch: pyseccomp.Arch) -> dict[str, int]:
    return {name: number for number in range(BEYOND) if (name := _name(arch, number))}


def _from_headers(compilers: tuple[str, ...]) -> dict[str, int]:
    compiler = next((each for each in compilers if shutil.which(each)), None)
    if compiler is None:
        print(f"none of {', '.join(compilers)} is installed: its headers were not read", file=sys.stderr)
        return {}
    macros = subprocess.run(
        [compiler, "-dM", "-E", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    spelled = dict(re.findall(r"^#define (__NR\w*) (\w+)$", macros, re.MULTILINE))
    table = {}
    for macro, value in spelled.items():
        while value in spelled:  # asm-generic spells some by way of __NR3264_*
            value = spelled[value]
        name = macro.removeprefix("__NR_")
        if name != macro and name not in ("syscalls", "arch_specific_syscall") and value.isdigit():
            table[name] = int(value)
    return table


def _elsewhere() -> set[str]:
    """Every name libseccomp knows for the 32-bit and the other 64-bit machines."""
    names: set[str] = set()
    for label in ("X86", "ARM", "MIPS", "MIPS64", "PPC", "PPC64LE", "S390X", "RISCV64", "PARISC"):
        arch = getattr(pyseccomp.Arch, label)
        names |= {name for number in (*range(7000), *range(0xF0000, 0xF0010)) if (name := _name(arch, number))}
    return names


def _add(machine: str, table: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        if table.setdefault(name, number) != number:
            raise SystemExit(f"{machine}: {name} is {table[name]} and {number}; settle it before writing the table")


def _name(arch: pyseccomp.Arch, number: int) -> str:
    """The empty string where libseccomp knows no call of that number."""
    try:
        name = pyseccomp.resolve_syscall(arch, number)
    except ValueError:
        return ""
    return name.decode() if isinstance(name, bytes) else str(name)


def _write(stem: str, title: str, body: str) -> None:
    path = TARGET / f"{stem}.py"
    path.write_text(f'"""{title}\n\nWritten by tools/gen_syscalls.py; change that, not this.\n"""\n\n'
                    f"from __future__ import annotations\n\n{body}")  # fmt: skip
    print(f"{path.name}: {body.count(chr(10))} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
