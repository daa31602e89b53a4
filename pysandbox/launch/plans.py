"""Kept plans on disk: one file by key, in the user's own cache directory, believed only when signed.

Whoever could write here could choose the cage of the next command, and a cage that may write to a home directory can.
So an entry is believed for nothing but its signature: HMAC-SHA-256 with a secret that is no file
(csrc/host/spawn/secret.c). Who believes it is the launcher (csrc/launcher/recall.c); here entries are written. Whatever
goes wrong, nothing is kept; nothing here raises.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from pysandbox._native import ffi, lib
from pysandbox.launch import native
from pysandbox.launch.private import is_private, make_private
from pysandbox.probe import kernel
from pysandbox.sha256 import hmac_sha256, sha256

MOST = 64  # entries; then those that were made first go
AT_FDCWD = -100
NAME_BYTES = 16  # of the key's hash
HEEDED = (b"PYTHON", b"LD_", b"GCONV_", b"OPENSSL_")  # they lead a start of Python to other code, so another package
KEY = "pysandbox key"  # what is signed with the same secret, an entry, begins with its ABI


def place() -> str | None:
    """Where entries are kept: $XDG_CACHE_HOME/pysandbox, else ~/.cache/pysandbox; None without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # as the XDG base directory specification says
        base = f"{os.environ.get('HOME', '')}/.cache"
    return f"{base}/pysandbox" if base.startswith("/") else None


def key_of(launcher: str, flags: Sequence[str], program: str, *, at_a_terminal: bool) -> bytes | None:
    """What is the same whenever an entry is to be found, sealed with the secret that ends with this boot: who reads it
    learns nothing of what was typed. csrc/launcher/key.c makes the same bytes. None where it cannot be told: the
    directory is gone, a security module hides the namespaces, /proc is of other processes (the long way refuses that),
    or the kernel has no keys for us."""
    secret = _secret()
    try:
        spaces = [os.stat(f"/proc/self/ns/{name}").st_ino for name in ("user", "mnt", "pid")]
        directory = os.getcwd()
    except OSError:
        return None
    if not secret or kernel.has_foreign_proc():
        return None
    heeded = sorted(name + b"=" + value for name, value in os.environb.items() if name.startswith(HEEDED))
    parts: list[object] = [
        KEY,
        launcher,
        os.uname().release,
        os.geteuid(),
        os.getegid(),
        *spaces,  # a container shares the cache, and can do less; so can who has the /proc of other processes
        max(0, int(lib.psb_landlock_abi())),
        directory,
        int(at_a_terminal),
        len(heeded),
        *heeded,
        len(flags),
        *flags,
        program,
    ]
    return sign(
        secret, b"".join(os.fsencode(each if isinstance(each, str | bytes) else str(each)) + b"\0" for each in parts)
    )


def save(key: bytes, content: bytes) -> bool:
    """Keeps what `KeptFile.content` has made under a key; False where that cannot be done."""
    secret = _secret()
    folder = _make_folder() if secret else -1
    if folder < 0:
        return False
    try:
        whole = sign(secret, content) + content
        if len(whole) > lib.PSB_KEPT_LARGEST:
            return False
        _replace(folder, name_of(key), whole)
        _prune(folder)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def sign(secret: bytes, content: bytes) -> bytes:
    return hmac_sha256(secret, content)


def name_of(key: bytes) -> str:
    """The file's name."""
    return str(sha256(key).digest()[:NAME_BYTES].hex())


def _secret() -> bytes:
    """Empty where this kernel, or the container around us, has no keys for us."""
    room = ffi.new("uint8_t[]", lib.PSB_SECRET_SIZE)
    return b"" if lib.psb_secret(room) else bytes(ffi.buffer(room))


def _open_folder() -> int:
    """A descriptor, or -1 for a directory that is not ours alone. No symlink is followed, at no place of the path."""
    path = place()
    if path is None:
        return -1
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY
        folder = native.open_inside(AT_FDCWD, path, flags, resolve=native.RESOLVE_NO_SYMLINKS)
    except OSError:
        return -1
    if is_private(os.fstat(folder)):
        return folder
    os.close(folder)
    return -1


def _make_folder() -> int:
    path = place()
    if path is not None:
        try:
            make_private(path)
        except OSError:
            return -1
    return _open_folder()


def _replace(folder: int, name: str, content: bytes) -> None:
    """All or nothing, whoever reads meanwhile. Not synced: what a crash leaves half written has no signature."""
    new = f".{os.getpid()}-{os.urandom(4).hex()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        try:
            whole = os.write(fd, content) == len(content)
        finally:
            os.close(fd)
        if not whole:
            raise OSError("the disk is full")
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(new, dir_fd=folder)
        raise


def _prune(folder: int) -> None:
    names = os.listdir(folder)
    if len(names) > MOST:
        by_age = sorted(names, key=lambda name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime_ns)
        for name in by_age[: len(names) - MOST]:
            os.unlink(name, dir_fd=folder)
