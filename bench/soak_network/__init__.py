"""A crowd of connections through one gatekeeper for a while: what leaks, stalls, or ends up with somebody else.

__main__.py   the command: makes an internet, runs `crowd` in it, as an ordinary user
crowd.py      the cages, one thread for each; what they report; the host's own descriptors, threads and memory
client.py     runs in a cage: connections that come and go, every byte of them checked
server.py     the other end: a connection that carries two tokens is cross-talk

A client and the server each print one line of JSON at their end.
"""

from __future__ import annotations

from pathlib import Path

CLIENT, SERVER = (Path(__file__).with_name(name) for name in ("client.py", "server.py"))
PORT = 7207
