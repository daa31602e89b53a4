"""What a client is answered when its request is refused, in a form that it can read: text, JSON where it asks for
that, or the status of gRPC where it speaks that. Pure.

    contract-refused       415, 413   a column of the [[host]] block refuses it; with the block that would allow it
    policy-blocked         403        it names another host than its connection is for
    bad-request            400, 408   it is no request, or one with two readings
    upgrade-refused        501        it asks for a version of WebSocket that is not looked at
    secret-refused         451        a placeholder of a secret is where it is not replaced by the value
    dlp-blocked            451        a credential is in it that may not go there, or it cannot be scanned
    secret-unreadable      502        the server compressed its answer, in which a secret could not be seen
    upstream-unreachable   502        the server hung up, or does not speak HTTP
    upstream-tls           502        the server's certificate was not accepted
    upstream-timeout       504        the server did not answer in time
    parent-refused         502        the parent proxy does not connect
    parent-timeout         504        the parent proxy did not answer in time
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus

ERROR, RULE = b"x-pysandbox-error", b"x-pysandbox-rule"


GRPC = b"application/grpc"
GRPC_CODES = {403: 7, 413: 8, 415: 7, 451: 7, 501: 12, 502: 14, 504: 4}  # of status codes; all else is 3, bad argument
AS_IT_IS = bytes(set(range(0x20, 0x7F)) - {0x25})

Fields = list[tuple[bytes, bytes]]


def answer(
    status: int, code: str, text: str, *, rule: str = "", patch: str = "", as_json: bool = False, bare: bool = False,
    fields: Sequence[tuple[bytes, bytes]] = (),
) -> bytes:  # fmt: skip
    """The whole response in HTTP/1.1, after which the connection ends. `bare`: to HEAD, which gets no body."""
    said, body = told(code, text, rule=rule, patch=patch, as_json=as_json, fields=fields)
    lines = [
        b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode()), *(b"%s: %s" % each for each in said),
        b"Connection: close", b"", b"",
    ]  # fmt: skip
    return b"\r\n".join(lines) + (b"" if bare else body)


def told(
    code: str, text: str, *, rule: str = "", patch: str = "", as_json: bool = False,
    fields: Sequence[tuple[bytes, bytes]] = (),
) -> tuple[Fields, bytes]:  # fmt: skip
    """The fields and the body of a refusal."""
    if as_json:
        said = {"error": code, "rule": rule, "message": text, "patch": patch}
        kind, body = b"application/json", json.dumps({name: each for name, each in said.items() if each}).encode()
    else:
        indented = "".join(f"\n    {line}" for line in patch.splitlines())
        fix = f"This in the policy would allow it:{indented}\n" if patch else ""
        kind, body = b"text/plain; charset=utf-8", f"pysandbox: {text}\n{fix}".encode()
    found = [(b"Content-Type", kind), (b"Content-Length", b"%d" % len(body)), *_named(code, rule), *fields]
    return found, body


def grpc(
    status: int, code: str, text: str, *, rule: str = "", patch: str = "", fields: Sequence[tuple[bytes, bytes]] = ()
) -> Fields:
    """The fields of a refusal for a client of gRPC, which reads no other: they are all of it (trailers alone)."""
    said = f"pysandbox: {text}" + (f"; this in the policy would allow it: {' '.join(patch.split())}" if patch else "")
    message = "".join(chr(each) if each in AS_IT_IS else f"%{each:02X}" for each in said.encode()).encode()
    return [
        (b"Content-Type", GRPC), (b"grpc-status", b"%d" % GRPC_CODES.get(status, 3)), (b"grpc-message", message),
        *_named(code, rule), *fields,
    ]  # fmt: skip


def _named(code: str, rule: str) -> Fields:
    return [(ERROR, code.encode()), *([(RULE, rule.encode())] if rule else [])]
