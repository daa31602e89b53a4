"""Connections: the SOCKS and transparent doors, the sniffed first bytes, the dialled server, the relay of bytes.

streams.py     a door: clients in, each served by one of socks_door.py (socks.py), transparent.py and gate/http
stream.py      one socket, read and written     listeners.py   doors where nothing redirects
target.py      what is asked for, and whether it may be     dial.py, parent.py   the connection to it
proxying.py    one connection from its first byte to its end; first_bytes.py, sniff.py, sni.py, second_hello.py
passing.py, offered.py   clients that are served without a task of their own: redirected ones; of SOCKS and HTTP
inspected.py   one that the inspector serves    relay.py   the C half, which moves the bytes
refused.py     connections that the kernel has refused
"""
