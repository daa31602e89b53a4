"""The command `pysandbox`: main dispatches, one file per command. Nothing below this package may import it."""
