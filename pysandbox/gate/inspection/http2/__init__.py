"""HTTP/2 (RFC 9113) on an inspected connection: each stream of the client's is one request, judged as one of HTTP/1.1
is (`judge`), and one stream to the server.

`conversation` is the whole of it, `side` one of its two ends, `streams` what may go of each stream; `stream` has what
waits of one request and its answer. `frames` cuts what comes into frames, and counts those that cost something and
bring nothing; `fields` makes a head of a list of fields. The frames themselves, HPACK and the windows are the
library's (h2).
"""
