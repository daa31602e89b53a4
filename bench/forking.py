"""The process without a cage that `floors` compares templates with: it loads modules, and forks when it is told to.

It imports what a template in its cage has, and no more: a larger process would take longer to fork.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import socket
import struct
import sys

from pysandbox.pipeline import inside, worker, zygote
from pysandbox.pipeline.walls import WorkerRules

BYTE, WALLS, CALL, WALLED_CALL = range(4)
CPU = struct.Struct("=d")  # seconds of the child's
NO_NEW_PRIVS = 38  # prctl(2)


def serve(control: socket.socket, modules: list[str]) -> None:
    for name in (*worker.FOR_ANSWERS, *modules):
        importlib.import_module(name)
    around = {name: each for name, each in sys.modules.items() if "." not in name}
    zygote.HELD.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    ruleset = WorkerRules().ruleset("/tmp")
    gc.disable()
    gc.collect()
    gc.freeze()
    while True:
        data, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        with socket.socket(fileno=fds[0]) as sock:
            if not (child := os.fork()):
                answer(sock, data[0], ruleset, around)
        _, _, used = os.wait4(child, 0)
        control.send(CPU.pack(used.ru_utime + used.ru_stime))


def answer(sock: socket.socket, what: int, ruleset: int, around: inside.Names) -> None:
    if what in (WALLS, WALLED_CALL):
        os.setsid()
        if zygote.HELD.syscall(zygote.RESTRICT_SELF, ctypes.c_int(ruleset), 0) < 0:
            os._exit(1)
    if what in (CALL, WALLED_CALL):
        gc.enable()
        inside.answer_call(sock, around)
    else:
        sock.send(b"x")
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
