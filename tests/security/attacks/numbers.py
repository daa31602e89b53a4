"""What a host does for a caller that dies meanwhile, and whose number another process of the host has then.

    unshare --user --map-current-user --keep-caps --pid --fork --mount-proc python3 numbers.py HOST CAGED KIND DIRECTORY

HOST and CAGED are programs: a host that runs CAGED in a cage on its own standard streams. CAGED makes one call of its
kind in a child for each line that it reads, and says in a line of its own what has been received. The host's threads
are traced. In round k the one that has received the call is stopped before its k-th system call; the caller is killed,
and as soon as its number is free, a process is forked that has it (ns_last_pid, which is why all this is in a PID
namespace of its own). Then the host goes on. Says for each round what has become of that process.
"""

# mypy: ignore-errors
import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

ADDRESS = 0x2000_0000_0000  # of the caller's data, and of the other's
SECRET = b"of another process"
SEIZE, INTERRUPT, SYSCALL, SYSCALL_INFO = 0x4206, 0x4207, 24, 0x420E
OPTIONS = 1 | 8  # PTRACE_O_TRACESYSGOOD, PTRACE_O_TRACECLONE
RECV, SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_*
WALL = 0x40000000
MOST = 200  # system calls of one round
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
IOCTL = {"x86_64": 16, "aarch64": 29}[os.uname().machine]


def ptrace(request, tid, address=0, data=0):
    return libc.ptrace(request, tid, address, data)


def read_memory(pid, address, size):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        return os.pread(file.fileno(), size, address)


class Other:
    """The process that has the number next: the same page as the caller's, a descriptor 9, and a directory."""

    def __init__(self, number, directory):
        for _ in range(20):
            told, tell = os.pipe()
            with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                file.write(str(number - 1))
            self.pid = os.fork()
            if not self.pid:
                self._live(tell, directory)
            os.close(tell)
            os.read(told, 1)
            os.close(told)
            if self.pid == number:
                return
            self.end()
        raise RuntimeError("the number was taken")

    def _live(self, tell, directory):
        drop_capabilities()
        libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24))  # none that the host lacks
        assert libc.mmap(ADDRESS, 4096, 3, 0x22 | 0x10, -1, 0) == ADDRESS
        ctypes.memmove(ADDRESS, SECRET * 200, 18 * 200)
        os.dup2(os.open(f"{directory}/secret", os.O_RDONLY), 9)
        os.chdir(directory)
        os.write(tell, b"!")
        while True:
            signal.pause()

    def is_untouched(self):
        return read_memory(self.pid, ADDRESS, 18 * 200) == SECRET * 200

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Round:
    """One call of the cage's; `at`: the system call of the host's before which the caller is replaced."""

    def __init__(self, host, lines, at, directory):
        self.host, self.lines, self.at, self.directory = host, lines, at, directory
        self.server = self.caller = None
        self.count, self.other, self.asked, self.answered = 0, None, {}, False

    def run(self):
        self.host.stdin.write(b"\n")
        self.host.stdin.flush()
        reply, since = None, None
        while not (reply is not None and (self.answered or time.monotonic() - since > 0.3)):
            tid, status = self._wait()
            if tid:
                self._step(tid, status)
            elif reply is None and select.select([self.lines], [], [], 0.0005)[0]:
                reply, since = self.lines.readline(), time.monotonic()
                if not reply:
                    raise RuntimeError("the cage has ended")
        return json.loads(reply)

    def _wait(self):
        return os.waitpid(-1, WALL | os.WNOHANG)

    def _step(self, tid, status):
        if not os.WIFSTOPPED(status):
            if tid == self.host.pid:
                raise RuntimeError("the host has ended")
            return
        number = os.WSTOPSIG(status)
        if number == signal.SIGTRAP | 0x80:
            self._look(tid)
            number = 0
        elif status >> 16:
            number = 0
        ptrace(SYSCALL, tid, 0, number)

    def _look(self, tid):
        info = ctypes.create_string_buffer(88)
        ptrace(SYSCALL_INFO, tid, 88, ctypes.addressof(info))
        if info.raw[0] == 1:  # entry
            call, _, request, argument = struct.unpack_from("<4Q", info.raw, 24)
            self.asked[tid] = (call, request & 0xFFFFFFFF, argument)
            if tid == self.server and not self.answered:
                self._count(call, request & 0xFFFFFFFF)
        elif self.server is None and self.asked.get(tid, ())[:2] == (IOCTL, RECV) and not any(info.raw[24:32]):
            self.caller = struct.unpack_from("<I", read_memory(tid, self.asked[tid][2], 16), 8)[0]
            self.server = tid

    def _count(self, call, request):
        self.answered = (call, request) == (IOCTL, SEND)
        self.count += 1
        if self.count == self.at and not self.answered:
            self._replace()

    def _replace(self):
        os.kill(self.caller, signal.SIGKILL)
        while os.path.exists(f"/proc/{self.caller}"):
            time.sleep(0.0005)
        self.other = Other(self.caller, self.directory)


def attach(pid):
    for tid in os.listdir(f"/proc/{pid}/task"):
        if ptrace(SEIZE, int(tid), 0, OPTIONS) == 0:
            ptrace(INTERRUPT, int(tid))


def drop_capabilities():
    libc.prctl(47, 4, 0, 0, 0)  # PR_CAP_AMBIENT_CLEAR_ALL


def main():
    host_program, caged, kind, directory = sys.argv[1:]
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    asked.bind(f"{directory}/s")
    asked.setblocking(False)
    with open(f"{directory}/secret", "wb") as file:
        file.write(SECRET)
    host = subprocess.Popen(
        [sys.executable, "-c", host_program, caged, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=drop_capabilities,
    )  # fmt: skip
    lines = os.fdopen(os.dup(host.stdout.fileno()), "rb", buffering=0)
    for _ in range(2):  # the host has loaded then what it needs
        host.stdin.write(b"\n")
        host.stdin.flush()
        json.loads(lines.readline())
    attach(host.pid)
    at, rounds = 1, []
    while at < MOST:
        each = Round(host, lines, at, directory)
        got = each.run()
        if each.other is None:
            break
        try:
            received = asked.recv(100).decode("latin-1")
        except BlockingIOError:
            received = None
        by_number = read_memory(each.caller, ADDRESS, 18) == SECRET
        rounds.append({"at": at, "got": got, "by_number": by_number, "untouched": each.other.is_untouched(),
                       "received": received})  # fmt: skip
        each.other.end()
        at += 1
    print(json.dumps({"rounds": rounds, "calls": each.count, "got": got}), flush=True)
    os.kill(host.pid, signal.SIGKILL)


main()
