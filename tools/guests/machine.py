"""One virtual machine: started, watched, and ended at its deadline at the latest.

KVM is used where a kernel really boots under it (`accelerator` tries); everywhere else the processor is emulated, which
takes 15 times as long for plain computing and about 50 times for starting a process.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tools.guests import initramfs
from tools.guests.kernels import Kernel, MatrixError
from tools.guests.share import DIE_WITH_ME, Share

# Without cmpxchg16b, which QEMU 7.2 emulates badly: once in some hours the flags come back as half of RAX, and then
# the kernel's allocator takes what another holds: a panic. A kernel does without it where the processor has none.
EMULATED = ("-accel", "tcg,thread=multi", "-cpu", "max,-cx16")
ACCELERATED = ("-accel", "kvm", "-cpu", "host")
MEMORY = "3G"  # the suite allocates two of them; what is not used costs this machine nothing
KVM_PATIENCE = 10.0  # seconds a kernel may take to show that it boots under KVM
# no_timer_check: on a busy machine an emulated timer may be late, which an early check takes for a broken one.
COMMAND_LINE = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a guest is told, in its initramfs; the names it knows them by are in `shell`."""

    do: str  # "tests" | "shell" | "probe"
    work: Path  # the prepared environment: tree/, venv/, tmp/, home/
    arguments: str = ""  # of pytest, quoted for the shell

    def shell(self, kernel: Kernel) -> dict[str, str]:
        owner = (self.work / "tree").stat() if self.do != "probe" else os.stat("/")
        return {
            "PSB_DO": self.do, "PSB_GUEST": kernel.name, "PSB_WORK": str(self.work), "PSB_KERNEL": str(kernel.root),
            "PSB_UID": str(owner.st_uid), "PSB_GID": str(owner.st_gid), "PSB_ARGUMENTS": self.arguments,
        }  # fmt: skip


class Guest:
    """A machine with one processor. `console` has what people read, `report` what the guest told in JSON."""

    def __init__(self, kernel: Kernel, settings: Settings, work: Path, accel: tuple[str, ...]) -> None:
        work.mkdir(parents=True)
        self.kernel = kernel
        self.console, self.report = work / "console", work / "report"
        self._log = work / "qemu.log"
        initrd = work / "initrd"
        initrd.write_bytes(initramfs.build(kernel, settings.shell(kernel)))
        self._share = Share(work) if settings.do != "probe" else None
        try:
            self._machine = self._boot(initrd, accel, interactive=settings.do == "shell")
        except BaseException:
            self._close_share()
            raise
        self.began = time.monotonic()

    def _boot(self, initrd: Path, accel: tuple[str, ...], *, interactive: bool) -> subprocess.Popen[bytes]:
        command = [
            *DIE_WITH_ME, "qemu-system-x86_64", *accel, "-smp", "1", "-m", MEMORY, "-nodefaults", "-display", "none",
            "-no-reboot", "-monitor", "none", "-kernel", str(self.kernel.image), "-initrd", str(initrd),
            "-append", COMMAND_LINE,
            "-object", f"memory-backend-memfd,id=memory,size={MEMORY},share=on", "-numa", "node,memdev=memory",
            "-serial", "stdio" if interactive else f"file:{self.console}", "-serial", f"file:{self.report}",
        ]  # fmt: skip
        if self._share is not None:
            command += ["-chardev", f"socket,id=files,path={self._share.socket}"]
            command += ["-device", "vhost-user-fs-pci,chardev=files,tag=host"]
        streams = None if interactive else subprocess.DEVNULL
        try:
            with self._log.open("wb") as log:
                return subprocess.Popen(command, stdin=streams, stdout=streams, stderr=log)
        except FileNotFoundError:
            raise MatrixError("setpriv is missing: apt-get install util-linux") from None

    def wait(self, seconds: float | None) -> bool:
        """Whether the guest has switched itself off in time."""
        try:
            self._machine.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def told(self) -> str:
        return self.report.read_text(errors="replace") if self.report.exists() else ""

    def said(self) -> str:
        """The console; where the machine did not get as far as that, what QEMU said."""
        console = self.console.read_text(errors="replace").replace("\r", "") if self.console.exists() else ""
        return console or self._log.read_text(errors="replace")

    def close(self) -> None:
        self._machine.kill()
        self._machine.wait()
        self._close_share()

    def _close_share(self) -> None:
        if self._share is not None:
            self._share.close()


def accelerator(kernel: Kernel, work: Path) -> tuple[str, ...]:
    """KVM, if this kernel gets as far as its first process under it. Some hosts have a /dev/kvm that cannot do that."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return EMULATED
    guest = Guest(kernel, Settings("probe", Path("/")), work / "kvm", ACCELERATED)
    try:
        guest.wait(KVM_PATIENCE)
        return ACCELERATED if "alive" in guest.told() else EMULATED
    finally:
        guest.close()
