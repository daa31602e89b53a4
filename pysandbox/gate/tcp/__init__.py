"""Connections: the SOCKS and transparent doors, the sniffed first bytes, the dialled server, the relay of bytes."""
