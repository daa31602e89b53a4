"""The network gatekeeper: it serves the doors of cages from the host's side, and decides by name who is let through.

START HERE: `gatekeeper.Gatekeeper` is the thread, `cage_session.CageSession` what it knows of one cage, `rules` what
decides; `dns`, `tcp`, `http`, `udp` and `published` are the doors.
"""
