"""Programs that measure themselves and print a list of nanoseconds; and the server that they talk to.

Each client is given WAY HOST PORT COUNT. `dial` is the same few lines in all of them: no library of a client hides in
the figures, and the way is the only thing that differs.
"""

from __future__ import annotations

ECHO, DRAIN = 7107, 7109  # not the ports of the internet's own servers, which are not made for speed

DIAL = """
import json, os, socket, struct, sys, time
way, host, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def door(number):
    s = socket.create_connection(("198.18.0.1", number))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s

def dial():
    if way == "plain":
        s = socket.create_connection((host, port))
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s
    if way == "socks":
        s = door(1080)
        s.sendall(b"\\5\\1\\0")
        assert s.recv(2) == b"\\5\\0"
        s.sendall(b"\\5\\1\\0\\3" + bytes([len(host)]) + host.encode() + struct.pack("!H", port))
        answer = s.recv(10)
        assert answer[:2] == b"\\5\\0", answer
        return s
    s = door(3128)
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
    answer = b""
    while b"\\r\\n\\r\\n" not in answer:
        answer += s.recv(4096)
    assert b" 200 " in answer.partition(b"\\r\\n")[0], answer
    return s
"""
ROUND_TRIP = (
    DIAL
    + """
s, data, times = dial(), b"x" * 256, []
for _ in range(count):
    t = time.perf_counter_ns()
    s.sendall(data)
    s.recv(256)
    times.append(time.perf_counter_ns() - t)
print(json.dumps(times))
"""
)
# `count` MiB in each of several turns, until the server has said that it has them all: nothing is left in a buffer on
# the way. Each turn is a connection of its own, since how two ends share the processors is settled for each anew. The
# second program tells what both ends have spent of their processors in place of the time it took.
BULK, BULK_SPENT = (
    DIAL
    + """
data, times = bytes(1 << 18), []
for _ in range(12):
    with dial() as s:
        s.sendall(b"!")
        t = time.CLOCK()
        for _ in range(4 * count):
            s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        total, spent = map(int, s.makefile().readline().split())
        assert total == count << 20
        times.append(time.CLOCK() - t + SPENT)
print(json.dumps(times))
""".replace("CLOCK", clock).replace("SPENT", spent)
    for clock, spent in (("perf_counter_ns", "0"), ("process_time_ns", "spent"))
)
# The first does not count, the name is resolved before. Each is used once: a connection is not made before the other
# end has answered.
NEW = (
    DIAL
    + """
times = []
if way == "plain":
    host = socket.gethostbyname(host)
for _ in range(count + 1):
    t = time.perf_counter_ns()
    s = dial()
    s.sendall(b"x\\n")
    s.recv(2)
    times.append(time.perf_counter_ns() - t)
    s.close()
print(json.dumps(times[1:]))
"""
)
# SERVER ADDRESS PORT PORT: echoes on the first port and counts on the second.
SERVER = """
import socket, sys, threading, time

def echo(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := c.recv(65536):
        c.sendall(data)

def drain(c):
    c.recv(1)
    total, buffer, begun = 0, bytearray(1 << 19), time.thread_time_ns()
    while got := c.recv_into(buffer):
        total += got
    c.sendall(b"%d %d\\n" % (total, time.thread_time_ns() - begun))

def one(serve, c):
    with c:
        try:
            serve(c)
        except OSError:
            pass

def all_of(serve, port):
    with socket.create_server((sys.argv[1], port), backlog=4096) as listener:
        while True:
            threading.Thread(target=one, args=(serve, listener.accept()[0]), daemon=True).start()

for serve, port in ((echo, int(sys.argv[2])), (drain, int(sys.argv[3]))):
    threading.Thread(target=all_of, args=(serve, port), daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""
