"""Datagrams: granted flows are relayed (`forwarders`, `relay`), all others are recorded (`lost`)."""
