"""The guest's first file system: a cpio archive ("newc", as the kernel's initramfs/buffer-format.rst has it).

Written here byte by byte, so that it needs neither cpio nor a device node on this machine.
"""

from __future__ import annotations

import lzma
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.guests.kernels import Kernel, MatrixError

BUSYBOX = Path("/bin/busybox")
APPLETS = ("cat", "echo", "insmod", "mkdir", "mount", "poweroff", "sh", "switch_root", "umount")
INIT = Path(__file__).with_name("init")
DIRECTORIES = ("bin", "dev", "host", "keep", "lib", "proc", "sys")

# What a guest needs to see its root, in the order they load in: each is only asked of those before it.
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "fuse", "virtiofs",
)  # fmt: skip

Entry = tuple[str, int, bytes]  # name, mode, content


def build(kernel: Kernel, settings: Mapping[str, str]) -> bytes:
    """`settings` become NAME='value' lines of /settings, which `init` and `inside` read."""
    lines = "".join(f"{name}={_quoted(value)}\n" for name, value in settings.items())
    return archive([*_base(), *_modules(kernel), ("settings", stat.S_IFREG | 0o644, lines.encode())])


def archive(entries: list[Entry]) -> bytes:
    return b"".join(_member(number, *entry) for number, entry in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1))


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def _base() -> Iterator[Entry]:
    if not BUSYBOX.exists():
        raise MatrixError(f"{BUSYBOX} is missing: apt-get install busybox-static")
    for name in DIRECTORIES:
        yield name, stat.S_IFDIR | 0o755, b""
    yield "bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes()
    for name in APPLETS:
        yield f"bin/{name}", stat.S_IFLNK | 0o777, b"busybox"
    yield "init", stat.S_IFREG | 0o755, INIT.read_bytes()


def _modules(kernel: Kernel) -> Iterator[Entry]:
    """Numbered files, so that the shell's order is the right one; what is built into the kernel has none."""
    builtin = (kernel.modules / "modules.builtin").read_text()
    for number, name in enumerate(MODULES):
        found = [path for path in kernel.modules.rglob("*.ko*") if path.name.partition(".")[0] == name]
        if found:
            content = found[0].read_bytes()
            yield (
                f"lib/{number}-{name}.ko", stat.S_IFREG | 0o644,
                lzma.decompress(content) if found[0].suffix == ".xz" else content,
            )  # fmt: skip
        elif f"/{name}.ko" not in builtin:
            raise MatrixError(f"{kernel.release} has no module {name}: the guest would not see its root")


def _member(number: int, name: str, mode: int, content: bytes) -> bytes:
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(b"%08X" % value for value in fields) + name.encode() + b"\0"
    return _padded(header) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
