"""Datagrams: granted flows are relayed, all others are recorded."""
