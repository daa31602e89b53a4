"""What our filter costs against libseccomp's for the same profile: `python tools/measure_seccomp.py [ROUNDS]`.

Prints instructions, the mean path over the kernel's numbers, install time, and time per call, medians. Needs a C
compiler, pyseccomp and tests/ beside this directory (the rules in libseccomp's words are those of its oracle test).
ADR 0002 holds the numbers this printed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pysandbox.compile import seccomp
from pysandbox.compile.profiles import names_of, profile
from pysandbox.compile.syscalls import table
from pysandbox.policy.model import Policy
from unit.compile import test_seccomp_oracle as oracle
from unit.compile.bpf_simulator import Machine

MACHINE = "x86_64"
CALLS = 470  # numbers of Linux 6.18: the kernel runs the filter for each at install

# One child per line of output: nanoseconds of the install, of a getppid (no argument decides) and of a sendto.
SOURCE = r"""
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int argc, char **argv) {
    static struct sock_filter code[4096];
    struct sock_fprog program = {0, code};
    if (argc > 2) program.len = read(open(argv[2], O_RDONLY), code, sizeof code) / sizeof *code;
    for (int round = atoi(argv[1]); round--; wait(NULL)) {
        if (fork()) continue;
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        double start = now();
        if (program.len && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return 1;
        double installed = now();
        for (int i = 0; i < 20000; i++) syscall(SYS_getppid);
        double plain = now();
        for (int i = 0; i < 20000; i++) syscall(SYS_sendto, -1, 0, 0, 0, 0, 0);
        double asked = now();
        printf("%.1f %.2f %.2f\n", installed - start, (plain - installed) / 20000, (asked - plain) / 20000);
        fflush(stdout);
        _exit(0);
    }
}
"""


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "measure.c").write_text(SOURCE)
        subprocess.run(["cc", "-O2", "-o", directory / "measure", directory / "measure.c"], check=True)
        print(f"{'':24} instructions  path  install us  getppid ns  sendto ns")
        for label, code in {"no filter": b"", **filters()}.items():
            report(label, code, directory, rounds)


def filters() -> dict[str, bytes]:
    """The baseline by both; libseccomp's lacks what it cannot say: the rule on ioctl, ENOSYS for unknown numbers."""
    listed: list[tuple[int, str | int, oracle.Rule]] = [(oracle.ENOSYS, call, []) for call in ("clone3", "openat2")]
    for call in names_of(profile("baseline").allow):
        if call not in ("clone3", "openat2"):
            listed += [(oracle.pyseccomp.ALLOW, call, each) for each in oracle.ALLOWED.get(call, [[]])]
    theirs = {
        f"libseccomp, {shape}": oracle.compiled(MACHINE, oracle.EPERM, listed, optimize=level)
        for shape, level in (("linear", 1), ("tree", 2))
    }
    return {"ours": seccomp.build(seccomp.choose(Policy()), MACHINE), **theirs}


def report(label: str, code: bytes, directory: Path, rounds: int) -> None:
    command = [str(directory / "measure"), str(rounds)]
    steps = 0.0
    if code:
        (directory / "code").write_bytes(code)
        command.append(str(directory / "code"))
        machine, arch = Machine(code), table(MACHINE).audit_arch
        steps = statistics.mean(machine.trace(arch, number)[1] for number in range(CALLS))
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    columns = zip(*(map(float, line.split()) for line in lines), strict=True)
    install, plain, asked = (statistics.median(column) for column in columns)
    print(f"{label:24} {len(code) // 8:12} {steps:5.1f} {install / 1000:11.1f} {plain:11.0f} {asked:9.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
