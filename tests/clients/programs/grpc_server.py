"""A server of gRPC on TLS: python grpc_server.py ADDRESS:PORT CERTIFICATE KEY. It says "ready"; what it was asked, it
says too. Messages are bytes. /test.Echo/Say returns one, /test.Echo/Count counts in a stream, /test.Echo/Talk returns
each as it comes, with a trailer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc


def say(message: bytes, context: Any) -> bytes:
    context.set_trailing_metadata((("x-said", str(len(message))),))
    return message


def count(message: bytes, context: Any) -> Iterator[bytes]:
    for number in range(int(message)):
        yield b"%d" % number


def talk(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
    for message in messages:
        yield message.upper()


HANDLERS = {
    "Say": grpc.unary_unary_rpc_method_handler(say),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Talk": grpc.stream_stream_rpc_method_handler(talk),
}


def main(address: str, certificate: str, key: str) -> None:
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", HANDLERS),))
    with open(certificate, "rb") as chain, open(key, "rb") as private:
        said = grpc.ssl_server_credentials([(private.read(), chain.read())])
    server.add_secure_port(address, said)
    server.start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
