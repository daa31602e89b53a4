"""pysandbox: run code that nobody has reviewed, in a cage, without root."""
