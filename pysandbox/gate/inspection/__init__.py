"""The inspector: a process that holds nothing, and looks at each request to hosts whose [[host]] block says what may be
asked of them.

START HERE: `__main__` is the process; `channel` what it and the host program say to each other. `pair` serves one
connection: TLS on both `sides` (with certificates of `ca`), between them `exchange`, which reads `heads` and `bodies`
and asks the contract; after a `handshake` it is a `websocket`, whose `frames` are read. `loop` waits. Where what is
sent is scanned for credentials, `scanning` looks at each request before it leaves: at the `places` of its head, and at
its body, which `held_body` keeps until then. Nothing here is imported by the host program but `channel`.

    judge.py, terms.py, passing.py   what a contract says of a request, and how its body goes on
    asking.py                      questions to the callback of the host program
    mirror.py                      which version of HTTP both sides speak
    secrets.py, spellings.py       placeholders into values        leak.py   what the conversation knows of scanning
    serving.py, roots.py, revoked.py   the process around it; the certificates that it trusts, and those taken back
    codings.py, holding.py, room.py, in_flight.py, record_meter.py   bodies: decoded, held back, and how much at once
    scanned_messages.py, grpc_messages.py   messages of a WebSocket, and of gRPC        http2/   HTTP/2
"""
