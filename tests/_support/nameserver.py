"""A name server on loopback for tests, over UDP and TCP: it answers from a table, and notes what it was asked.

It shares no code with the parser that is tested against it.
"""

from __future__ import annotations

import socket
import struct
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

A, CNAME, TXT, AAAA = 1, 5, 16, 28
PACKED = {A: socket.AF_INET, AAAA: socket.AF_INET6}


@dataclass
class NameServer:
    """`records` maps (name, type) to answers: addresses, the target of an alias, or bytes. Other names do not exist."""

    records: dict[tuple[str, int], list[str]]
    ttl: int = 300
    truncate: bool = False  # over UDP, so that the question comes again over TCP
    code: int | None = None  # answered to everything
    silent: bool = False
    noise: list[bytes] = field(default_factory=list)  # sent before each answer; b"ID" stands for the question's id
    asked: list[tuple[str, int, str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._udp, self._tcp = _one_port_of_both()
        self._tcp.listen()
        self._threads = [threading.Thread(target=each) for each in (self._serve_udp, self._serve_tcp)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        for each in (self._udp, self._tcp):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # UDP is not connected; its reader wakes all the same
        for thread in self._threads:
            thread.join()
        self._udp.close()
        self._tcp.close()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._udp.getsockname()[1]}"

    def _serve_udp(self) -> None:
        while True:
            asked, peer = self._udp.recvfrom(4096)
            if not asked:
                return
            for each in self.noise:
                self._udp.sendto(each.replace(b"ID", asked[:2]), peer)
            answer = self._answer(asked, "udp")
            if answer is not None:
                self._udp.sendto(answer, peer)

    def _serve_tcp(self) -> None:
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            with connection:
                size = connection.recv(2)
                answer = self._answer(connection.recv(int.from_bytes(size, "big")), "tcp") if size else None
                if answer is not None:
                    connection.sendall(len(answer).to_bytes(2, "big") + answer)

    def _answer(self, asked: bytes, way: str) -> bytes | None:
        name, end = _name(asked)
        (kind,) = struct.unpack_from("!H", asked, end)
        self.asked.append((name, kind, way))
        if self.silent:
            return None
        records = self._records(name, kind)
        exists = bool(records) or any(each == name for each, _ in self.records)
        code = self.code if self.code is not None else 0 if exists else 3
        cut = self.truncate and way == "udp"
        count = 0 if code or cut else len(records)
        flags = 0x8180 | code | (0x200 if cut else 0)
        header = asked[:2] + struct.pack("!5H", flags, 1, count, 0, 0)
        return header + asked[12 : end + 4] + (b"".join(records) if count else b"")

    def _records(self, name: str, kind: int) -> list[bytes]:
        alias = self.records.get((name, CNAME))
        if alias is not None:
            return [self._record(name, CNAME, _written(alias[0])), *self._records(alias[0], kind)]
        return [self._record(name, kind, self._data(kind, each)) for each in self.records.get((name, kind), [])]

    def _data(self, kind: int, value: str) -> bytes:
        return socket.inet_pton(PACKED[kind], value) if kind in PACKED else value.encode()

    def _record(self, name: str, kind: int, data: bytes) -> bytes:
        return _written(name) + struct.pack("!HHIH", kind, 1, self.ttl, len(data)) + data


def _one_port_of_both() -> tuple[socket.socket, socket.socket]:
    """The kernel chooses a port of TCP; that of UDP may be somebody else's."""
    for _ in range(100):
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        try:
            tcp.bind(("127.0.0.1", 0))
            udp.bind(tcp.getsockname())
            return udp, tcp
        except OSError:
            tcp.close()
            udp.close()
    raise RuntimeError("no port is free for both TCP and UDP")


def _written(name: str) -> bytes:
    return b"".join(bytes([len(each)]) + each.encode() for each in name.split(".")) + b"\0"


def _name(asked: bytes) -> tuple[str, int]:
    labels, place = [], 12
    while asked[place]:
        labels.append(asked[place + 1 : place + 1 + asked[place]].decode("latin-1"))
        place += 1 + asked[place]
    return ".".join(labels).lower(), place + 1
