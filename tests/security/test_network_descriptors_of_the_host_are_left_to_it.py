"""Claim: whatever comes in at the ports and doors of its cages, a host program opens its own files and the next cage.

The host is a program of its own with the usual soft limit of 1024 descriptors.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from .harness import host_script

LIMIT = 1024
HOST = """
import json, os, resource, socket, subprocess, sys, time
from subprocess import PIPE
from pysandbox import Cage, Policy
from pysandbox.events import Event
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
before = len(os.listdir("/proc/self/fd"))
CLIENT = '''
import resource, socket, sys, time
resource.setrlimit(7, (min(4096, resource.getrlimit(7)[1]), resource.getrlimit(7)[1]))
kept = []
for _ in range(700):
    try: s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
    except OSError: break
    try: s.sendall(b"x")
    except OSError: pass
    kept.append(s)
print("connected", flush=True); time.sleep(60)
'''
SERVER = '''
import socket
s = socket.create_server(('127.0.0.1', 8000), backlog=4096); print('up', flush=True)
k = []
while True: k.append(s.accept())
'''
def patiently(open_one):
    # Whoever adds a user replaces /etc/group, and a cage that is being made just then is refused: ESTALE, "try again".
    for _ in range(9):
        try: return open_one()
        except OSError as error:
            if error.errno != 116: raise
    return open_one()
def besieged(n):
    port = 18777 + n
    if WAY == "published ports":
        cage = patiently(Cage(Policy(ports=[f"{port}:8000"], open_files=4096)).__enter__)
        s = cage.spawn(["python3", "-c", SERVER], stdout=PIPE, cwd="/tmp"); s.stdout.readline()
        client = subprocess.Popen([sys.executable, "-c", CLIENT, "127.0.0.1", str(port)], stdout=PIPE)
    else:
        cage = patiently(Cage(Policy(egress="proxy-only", hosts=["a.example"], open_files=4096)).__enter__)
        s = cage.spawn(["python3", "-c", CLIENT, "198.18.0.1", "1080"], stdout=PIPE, cwd="/tmp"); client = s
    return cage, s, client
WAY, COUNT = sys.argv[1], int(sys.argv[2])
all_of = [besieged(n) for n in range(COUNT)]
for _, _, client in all_of:
    client.stdout.readline()
time.sleep(1)
opened = 0
for _ in range(50):
    try: held = [open("/etc/hostname") for _ in range(100)]; opened += 1
    except OSError: pass
    held = None
try: following = patiently(lambda: Cage().run(["true"]).exit_code)
except OSError as error: following = str(error)
taken = len(os.listdir("/proc/self/fd")) - before
print(json.dumps({"opened": opened, "following": following, "taken": taken}), flush=True)
for cage, s, client in all_of:
    client.kill(); client.wait(); s.kill(); cage.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "cages"), [("published ports", 1), ("published ports", 4), ("doors", 6)])
def test_the_host_opens_its_files_and_the_next_cage(way: str, cages: int) -> None:
    told = answer(way, cages)

    assert told["opened"] == 50
    assert told["following"] == 0
    assert told["taken"] < LIMIT // 2 + 40 * cages  # what a cage itself is made of was the host's own wish


def answer(way: str, cages: int) -> dict[str, Any]:
    with host_script(HOST, way, str(cages)) as host:
        assert host.stdout is not None
        line = host.stdout.readline()
        assert line, "the host has ended"
        host.wait(60)  # it ends its clients itself
        told: dict[str, Any] = json.loads(line)
        return told
