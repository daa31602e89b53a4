"""fill.py HOW DIRECTORY MIB: writes so much below a directory, in one of the ways there are, then says that it did."""

import ctypes
import fcntl
import mmap
import os
import signal
import struct
import sys
import threading
import time

HOW, PLACE, AMOUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
MIB = 1 << 20
BLOCK = os.urandom(MIB)
PIECE = 8  # MiB in a file
PR_SET_DUMPABLE, SYS_EXIT = 4, {"x86_64": 60, "aarch64": 93}[os.uname().machine]
FS_IOC_RESVSP = 0x40305828


def made(name, flags=0):
    return os.open(f"{PLACE}/{name}", os.O_RDWR | os.O_CREAT | flags, 0o600)


def files(flags=0):
    for number in range(0, AMOUNT, PIECE):
        fd = made(number, flags)
        yield fd
        os.close(fd)


def write():
    for fd in files():
        for _ in range(PIECE):
            os.write(fd, BLOCK)


def slowly():
    for number in range(AMOUNT):
        os.write(made(number), BLOCK)
        time.sleep(0.005)


def by_children(wait=True, orphans=False):
    for number in range(AMOUNT):
        child = os.fork()
        if not child:
            if orphans and os.fork():
                os._exit(0)
            os.write(made(number), BLOCK)
            os._exit(0)
        if wait:
            os.waitpid(child, 0)
        else:
            time.sleep(0.004)
    time.sleep(0.5)


def unwaited():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    by_children(wait=False)


def in_relay():
    """Nobody waits for any child, and whenever one has ended the next writes as much: as if it had been told of it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    turn, end = os.pipe()
    os.close(end)
    for number in range(0, AMOUNT, PIECE):
        following, end = os.pipe()
        if not os.fork():
            os.read(turn, 1)  # until the one before ends
            time.sleep(0.02)  # it has gone
            fd = made(number)
            for _ in range(PIECE):
                os.write(fd, BLOCK)
            time.sleep(0.1)  # it is seen
            os._exit(0)
        os.close(end)
        os.close(turn)
        turn = following
    os.read(turn, 1)


def hidden():
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    slowly()


def leaderless():
    def go():
        slowly()
        os._exit(0)

    threading.Thread(target=go).start()
    ctypes.CDLL(None).syscall(SYS_EXIT, 0)


def mapped():
    for fd in files():
        os.ftruncate(fd, PIECE * MIB)
        with mmap.mmap(fd, PIECE * MIB) as memory:
            for at in range(0, PIECE * MIB, MIB):
                memory[at : at + MIB] = BLOCK


def allocated():
    for fd in files():
        os.posix_fallocate(fd, 0, PIECE * MIB)


def reserved():
    for fd in files():
        fcntl.ioctl(fd, FS_IOC_RESVSP, struct.pack("hhxxxxqqiI16x", 0, 0, 0, PIECE * MIB, 0, 0))


def source():
    fd = made("source")
    for _ in range(PIECE):
        os.write(fd, BLOCK)
    return fd


def sent():
    origin = source()
    for fd in files():
        for _ in range(PIECE):
            os.sendfile(fd, origin, 0, MIB)


def copied():
    origin = source()
    for fd in files():
        os.copy_file_range(origin, fd, PIECE * MIB, 0, 0)


def spliced():
    out, into = os.pipe()
    for fd in files():
        for _ in range(PIECE * 16):
            os.write(into, BLOCK[:65536])
            os.splice(out, fd, 65536)


def directly():
    memory = mmap.mmap(-1, MIB)
    memory[:] = BLOCK
    for fd in files(os.O_DIRECT):
        for _ in range(PIECE):
            os.writev(fd, [memory])


WAYS = {
    "write": write, "slowly": slowly, "children": by_children, "orphans": lambda: by_children(orphans=True),
    "unwaited": unwaited, "relay": in_relay, "hidden": hidden, "leaderless": leaderless,
    "mapped": mapped, "allocated": allocated,
    "reserved": reserved, "sent": sent, "copied": copied, "spliced": spliced, "directly": directly,
}  # fmt: skip
WAYS[HOW]()
print("done", flush=True)
