"""Compiled plans on disk: bytes by key, in the user's own cache directory, believed only when signed.

Whoever could write here could choose the cage of the next command, and a cage that may write to a home directory can.
So an entry is believed for nothing but its signature: BLAKE2b keyed with a secret that is no file (csrc/host/secret.c).
Owner, mode and symlinks are looked at besides. Whatever is wrong with an entry, it is as if it were not there; nothing
here raises. The bytes are marshal's plain data, which no code is executed of, and not looked at before the signature.
Cheap to import.
"""

from __future__ import annotations

import marshal
import os
import stat
from _blake2 import blake2b  # hashlib's own, without OpenSSL

from pysandbox._native import ffi, lib
from pysandbox.launch import native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIGNATURE_SIZE = 32
LARGEST = 1 << 20  # bytes of one entry; they have some 20 KiB
MOST = 64  # entries; then those that were made first go
AT_FDCWD = -100
PLAIN = 2  # of marshal: the last version in which equal values have equal bytes


def place() -> str | None:
    """Where entries are kept: $XDG_CACHE_HOME/pysandbox, else ~/.cache/pysandbox; None without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):  # as the XDG base directory specification says
        base = f"{os.environ.get('HOME', '')}/.cache"
    return f"{base}/pysandbox" if base.startswith("/") else None


def recall(key: Any) -> Any:
    """What was kept under an equal key, or None."""
    secret = _secret()
    folder = _open_folder() if secret else -1
    if folder < 0:
        return None
    try:
        plain = marshal.dumps(key, PLAIN)
        content = _read(folder, _name(plain))
        if content is None or content[:SIGNATURE_SIZE] != _sign(secret, content[SIGNATURE_SIZE:]):
            return None
        kept_key, value = marshal.loads(content[SIGNATURE_SIZE:])
        return value if kept_key == plain else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(folder)


def keep(key: Any, value: Any) -> bool:
    """Keeps plain data (what marshal knows) under a key; False where that cannot be done."""
    secret = _secret()
    folder = _make_folder() if secret else -1
    if folder < 0:
        return False
    try:
        plain = marshal.dumps(key, PLAIN)
        body = marshal.dumps((plain, value), PLAIN)
        if len(body) + SIGNATURE_SIZE > LARGEST:
            return False
        _replace(folder, _name(plain), _sign(secret, body) + body)
        _prune(folder)
    except (OSError, ValueError):
        return False
    finally:
        os.close(folder)
    return True


def _secret() -> bytes:
    """Empty where this kernel, or the container around us, has no keys for us."""
    room = ffi.new("uint8_t[]", lib.PSB_SECRET_SIZE)
    return b"" if lib.psb_secret(room) else bytes(ffi.buffer(room))


def _sign(secret: bytes, body: bytes) -> bytes:
    return blake2b(body, key=secret, digest_size=SIGNATURE_SIZE, person=b"pysandbox plan").digest()


def _name(plain: bytes) -> str:
    return blake2b(plain, digest_size=16).hexdigest()


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
    if _ours(os.fstat(folder)):
        return folder
    os.close(folder)
    return -1


def _make_folder() -> int:
    path = place()
    if path is not None:
        try:
            os.makedirs(path, mode=0o700, exist_ok=True)
        except OSError:
            return -1
    return _open_folder()


def _ours(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _read(folder: int, name: str) -> bytes | None:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not _ours(found) or found.st_size > LARGEST:
            return None
        return os.read(fd, LARGEST)
    finally:
        os.close(fd)


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
