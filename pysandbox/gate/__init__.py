"""The network gatekeeper: it serves the doors of cages from the host's side, and decides by name who is let through."""
