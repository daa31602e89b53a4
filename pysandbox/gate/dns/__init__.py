"""The DNS door, and the resolver behind it.

door.py      a question of the cage to its answer        names.py     the synthetic addresses of allowed names
message.py   messages (RFC 1035) as bytes                resolver.py  questions to the host's name servers
asked.py     what a cage that is scanned may say in names
"""
