"""Runs the tests marked `guest` on other kernels: bash tools/matrix [--kernel NAME]... [-- PYTEST ARGUMENTS]

    bash tools/matrix                             both kernels side by side, and a table
    bash tools/matrix --kernel 6.1 -- -k landlock one kernel, some tests, the console as it comes
    bash tools/matrix --kernel 6.12 --shell       a shell there, as the unprivileged user of the tests
    bash tools/matrix --keep                      the consoles and the environment stay, in a directory that is named

Needs root (for the shared files) on a Debian 12 machine with qemu-system-x86, busybox-static and kmod. The environment
of the tests is the one of tests/run; PSB_WORK=DIR uses the one that is kept there. Exits with 1 when anything failed,
was skipped or took too long, with 2 when it could not be tried. A guest whose kernel panics is started once more where
the processor is emulated, and that is told: such a panic has been the emulator's.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tools.guests.kernels import PACKAGES, Kernel, MatrixError, fetch
from tools.guests.machine import EMULATED, Guest, Settings, accelerator
from tools.guests.report import Outcome, outcome, table

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pysandbox-kernels"
NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "depmod": "kmod", "setpriv": "util-linux", "unshare": "util-linux"}
PREPARE = 600.0  # seconds for tests/run to install the package
DEADLINE = 1200.0  # seconds for all guests


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of every `finally`
    work = Path(tempfile.mkdtemp(prefix="psb-matrix."))
    os.chmod(work, 0o755)  # the user of the tests looks for the environment below it
    try:
        return _run(arguments, work)
    except MatrixError as error:
        print(f"tools/matrix: {error}", file=sys.stderr)
        return 2
    finally:
        if arguments.keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernel", action="append", choices=PACKAGES, help="only this one (default: all)")
    parser.add_argument("--shell", action="store_true", help="a shell in the guest instead of the tests; one kernel")
    parser.add_argument("--keep", action="store_true", help="keep the consoles and the environment")
    parser.add_argument("--seconds", type=float, default=DEADLINE, help=f"deadline of the guests ({DEADLINE:g})")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    arguments = parser.parse_args()
    arguments.kernel = arguments.kernel or list(PACKAGES)
    if arguments.shell and len(arguments.kernel) != 1:
        parser.error("--shell needs one --kernel")
    return arguments


def _run(arguments: argparse.Namespace, work: Path) -> int:
    for program, package in NEEDED.items():
        if shutil.which(program) is None:
            raise MatrixError(f"{program} is missing: apt-get install {package}")
    kernels = [fetch(name, CACHE) for name in arguments.kernel]
    accel = accelerator(kernels[-1], work)
    settings = Settings("shell" if arguments.shell else "tests", _prepare(work), shlex.join(arguments.pytest))
    print(
        f"{', '.join(kernel.release for kernel in kernels)}: {'emulated' if accel is EMULATED else 'KVM'}", flush=True
    )
    if arguments.shell:
        return _shell(kernels[0], settings, work, accel)
    outcomes = _tests(kernels, settings, work, accel, arguments.seconds)
    for each in outcomes:
        if not each.ok:
            print(each.why())
    print(table(outcomes))
    return 0 if all(each.ok for each in outcomes) else 1


def _prepare(work: Path) -> Path:
    """The environment of tests/run: the package installed, a copy of the tree, owned by the user of the tests."""
    home = Path(os.environ.get("PSB_WORK") or work / "environment").absolute()
    command = ["bash", str(REPOSITORY / "tests/run"), "--exec", "true"]
    done = subprocess.run(command, env={**os.environ, "PSB_WORK": str(home)}, timeout=PREPARE, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise MatrixError(f"{' '.join(command)} failed: see above")
    return home


def _shell(kernel: Kernel, settings: Settings, work: Path, accel: tuple[str, ...]) -> int:
    guest = Guest(kernel, settings, work / kernel.name, accel)
    try:
        guest.wait(None)
    finally:
        guest.close()
    return 0


def _tests(
    kernels: list[Kernel], settings: Settings, work: Path, accel: tuple[str, ...], seconds: float
) -> list[Outcome]:
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        watchers = stack.enter_context(ThreadPoolExecutor())  # left last: a guest that is closed is not waited for

        def boot(kernel: Kernel, attempt: str = "") -> Guest:
            guest = Guest(kernel, settings, work / f"{kernel.name}{attempt}", accel)
            stack.callback(guest.close)
            return guest

        def run(guest: Guest) -> Outcome:
            seen = _watch(guest, deadline)
            if accel is not EMULATED or not seen.panicked:
                return seen
            print(
                f"UNSTABLE guest {seen.kernel}: its kernel panicked, and it is started once more\n{seen.why()}",
                flush=True,
            )
            return _watch(boot(guest.kernel, ".again"), deadline)

        return list(watchers.map(run, [boot(kernel) for kernel in kernels]))


def _watch(guest: Guest, deadline: float) -> Outcome:
    in_time = guest.wait(max(0.0, deadline - time.monotonic()))
    seconds = time.monotonic() - guest.began
    return outcome(guest.kernel.name, guest.told(), guest.said(), seconds, in_time=in_time)


sys.exit(main())
