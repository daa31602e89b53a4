"""Measurements; see bench/README.md. Nothing of the package imports this."""
