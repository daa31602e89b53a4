"""What this host can do (facts, features) and what the named paths are (paths). Reads; changes nothing."""
