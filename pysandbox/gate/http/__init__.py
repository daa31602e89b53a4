"""The HTTP/1.1 forward proxy (h11).

forward.py   one client of the door: its tunnel, or its requests one by one        messages.py   heads, and refusals
asked.py     requests for a tunnel, read once     http2.py   the refusal of HTTP/2 with prior knowledge
"""
