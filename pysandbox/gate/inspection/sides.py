"""The two sides of an inspected connection, each a non-blocking socket with TLS or without: one interface, three kinds.

Towards the client TLS is pyOpenSSL's, because the ssl module reads a certificate and its key from files alone, and
nothing may be opened here. Towards the server it is the ssl module's, which checks the name.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

from OpenSSL import SSL

from pysandbox.gate.inspection.in_flight import AT_ONCE
from pysandbox.gate.inspection.record_meter import Broken, RecordEnds, RecordMeter
from pysandbox.gate.inspection.revoked import UpstreamContext, verified_chain
from pysandbox.shapes import Protocol

HTTP1, HTTP2 = "http/1.1", "h2"  # as ALPN names them
RECORD = 16384  # bytes that one record holds
RECORD_ADDS = 8192  # bytes that TLS adds to one write at most, with what it had to say already
LITTLE_DRAINED = 4096  # bytes that a read leaves for the socket, if any
UNTRUSTED = ("unknown ca", "bad certificate", "certificate unknown", "unsupported certificate")


class TlsFailed(Exception):
    """`untrusted`: the other side does not accept the certificate that it was shown."""

    def __init__(self, why: str, *, untrusted: bool = False) -> None:
        super().__init__(why)
        self.untrusted = untrusted


class Side(Protocol):
    """`ready`: bytes may be read and written. `writes`: TLS itself waits until it can write."""

    ready: bool
    clean: bool  # the other side has said that it was all
    is_over: bool  # it has said so in TLS: the next read is b"", and no event of the socket will tell

    @property
    def writes(self) -> bool: ...

    @property
    def protocol(self) -> str:
        """Agreed on by ALPN; HTTP/1.1 where nothing was said of it."""

    def fileno(self) -> int: ...
    def handshake(self) -> None:
        """Goes on with it. Raises TlsFailed, or `mirror.NotSpoken`."""

    @property
    def kept(self) -> int:
        """Bytes that TLS has for the socket, which does not take them yet."""

    def read(self, most: int = AT_ONCE) -> bytes | None:
        """What has come, or so much of it; b"" at the end, None where nothing has. Raises Broken."""

    def write(self, said: bytearray) -> int:
        """How much was taken. Raises Broken."""

    def end(self) -> None:
        """Says that this was all."""

    def close(self) -> None: ...


class PlainSide:
    kept, protocol, is_over = 0, HTTP1, False

    def __init__(self, sock: socket.socket, said: bytes = b"") -> None:
        self._sock, self._said = sock, said
        self.ready, self.writes, self.clean = True, False, True

    def fileno(self) -> int:
        return self._sock.fileno()

    def handshake(self) -> None:
        return

    def read(self, most: int = AT_ONCE) -> bytes | None:
        said, self._said = self._said, b""
        if said:
            return said
        try:
            return self._sock.recv(most)
        except BlockingIOError:
            return None
        except OSError as error:
            raise Broken(str(error)) from None

    def write(self, said: bytearray) -> int:
        try:
            return self._sock.send(said)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Broken(str(error)) from None

    def end(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()


class ClientSide:
    """TLS towards a client, who sees us as the server. `said` was read of the socket before: its hello."""

    def __init__(self, sock: socket.socket, context: SSL.Context, said: bytes) -> None:
        self._sock, self._said = sock, said
        self._tls = SSL.Connection(context, None)
        self._tls.set_app_data(b"")
        self._tls.set_accept_state()
        self._out, self._meter, self._ends = bytearray(), RecordMeter(), RecordEnds()
        self._ended, self._is_drained = 0, False  # records that ended in what was received last; none of before is left
        self.ready = self.clean = self.is_over = False

    def agree(self, protocol: bytes) -> None:
        """Before the handshake: what is agreed on by ALPN."""
        self._tls.set_app_data(protocol)

    @property
    def protocol(self) -> str:
        return str(self._tls.get_app_data().decode()) or HTTP1

    @property
    def writes(self) -> bool:
        return bool(self._out)

    @property
    def kept(self) -> int:
        return len(self._out)

    def fileno(self) -> int:
        return self._sock.fileno()

    def handshake(self) -> None:
        self._receive()
        try:
            self._tls.do_handshake()
            self.ready = True
        except SSL.WantReadError:
            pass
        except SSL.Error as error:
            self._send()
            text = _text(error)
            raise TlsFailed(text, untrusted=any(each in text for each in UNTRUSTED)) from None
        self._send()

    def read(self, most: int = AT_ONCE) -> bytes | None:
        got, said = self._receive(min(most, self._meter.most)), []
        records = self._ended if got and self._is_drained else 0
        try:
            while True:  # all that was received: the socket will not tell of it again
                said.append(self._tls.recv(RECORD))
                if len(said) == records:  # each was content: nothing else came, and TLS has nothing to say to it
                    content = said[0] if records == 1 else b"".join(said)
                    self._meter.took(len(got or b""), len(content))
                    return content
        except SSL.WantReadError:
            content, self._is_drained = b"".join(said), True
            self._meter.took(len(got or b""), len(content))
            self._send()
            return content or (b"" if got == b"" else None)
        except SSL.ZeroReturnError:
            self.clean = self.is_over = True
            self._send()
            return b"".join(said)
        except SSL.Error as error:
            self._send()
            raise Broken(_text(error)) from None

    def write(self, said: bytearray) -> int:
        if self._out:
            self._send()
        if self._out:
            return 0
        taken = 0
        try:
            with memoryview(said)[:AT_ONCE] as view:
                while taken < len(view):  # one record each time
                    taken += int(self._tls.send(view[taken : taken + RECORD]))
        except SSL.Error as error:
            raise Broken(_text(error)) from None
        self._send(taken + RECORD_ADDS)
        return taken

    def end(self) -> None:
        with suppress(SSL.Error, Broken):
            self._tls.shutdown()
            self._send()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._sock.close()

    def _receive(self, most: int = AT_ONCE) -> bytes | None:
        """Reads the socket into TLS; b"" at its end, None where nothing has come. Raises Broken, TlsFailed."""
        said, self._said = self._said, b""
        if not said:
            try:
                said = self._sock.recv(most)
            except BlockingIOError:
                return None
            except OSError as error:
                raise (Broken if self.ready else TlsFailed)(str(error)) from None
            if not said:
                if not self.ready:
                    raise TlsFailed("the client hung up in the TLS handshake", untrusted=True)
                self._tls.bio_shutdown()
                return b""
        self._ended = self._ends.came(said)
        self._tls.bio_write(said)
        return said

    def _send(self, most: int = LITTLE_DRAINED) -> None:
        """Writes to the socket what TLS has for it, as far as it goes. `most`: bytes that it is asked for at once."""
        only, drained = b"", False
        with suppress(SSL.WantReadError):
            while not drained:
                said = self._tls.bio_read(most)
                drained = len(said) < most
                if drained and not self._out:
                    only = said
                else:
                    self._out += said
        if only or self._out:
            try:
                _sent(self._sock, only, self._out)
            except OSError as error:
                raise Broken(str(error)) from None


class ServerSide:
    """TLS towards a server, whose certificate has to be right for `name`. `offered` is for it to choose from. It is fed
    from memory: of a socket, OpenSSL would read on for as long as records come that bring nothing. `has_failed`: it has
    said what is no TLS, or that there is to be no more."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, name: str, session: ssl.SSLSession | None,
        offered: Sequence[str] = (HTTP1,),
    ) -> None:  # fmt: skip
        context.set_alpn_protocols(list(offered))  # of the next connection: OpenSSL copies it there
        self._sock, self._meter = sock, RecordMeter()
        self._in, self._written, self._out = ssl.MemoryBIO(), ssl.MemoryBIO(), bytearray()
        self._tls = context.wrap_bio(self._in, self._written, server_hostname=name, session=session)
        self.ready = self.clean = self.is_over = self.has_failed = self._takes_no_more = False

    @property
    def protocol(self) -> str:
        """What it has chosen."""
        return self._tls.selected_alpn_protocol() or HTTP1

    @property
    def resumed(self) -> bool:
        """A session of before was gone on with. It is kept: to read another one copies it, which takes as long as half
        a handshake, and a server that wants no more of it says so by a whole one."""
        return bool(self._tls.session_reused)

    @property
    def session(self) -> ssl.SSLSession | None:
        return self._tls.session

    @property
    def writes(self) -> bool:
        return bool(self._out)

    @property
    def kept(self) -> int:
        return len(self._out)

    def fileno(self) -> int:
        return self._sock.fileno()

    def handshake(self) -> None:
        try:
            self._receive(AT_ONCE)
            self._tls.do_handshake()
            self._look_for_revoked()
            self.ready = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError as error:
            raise TlsFailed(f"its certificate is not accepted: {error.verify_message}", untrusted=True) from None
        except (ssl.SSLError, OSError) as error:
            raise TlsFailed(getattr(error, "reason", None) or str(error)) from None
        finally:
            self._send()  # an alert too

    def _look_for_revoked(self) -> None:
        """Who goes on with a session was looked at in the handshake that it is of."""
        context = self._tls.context
        if isinstance(context, UpstreamContext) and context.lists and not self.resumed:
            why = context.lists.why_refused(verified_chain(self._tls))
            if why:
                raise TlsFailed(f"its certificate is not accepted: {why}", untrusted=True)

    def read(self, most: int = AT_ONCE) -> bytes | None:
        try:
            came = self._receive(min(most, self._meter.most))
        except OSError as error:
            raise Broken(str(error)) from None
        said: list[bytes] = []
        try:
            while self._in.pending or self._in.eof:  # all that was received: the socket will not tell of it again
                part = self._tls.read(AT_ONCE)
                said.append(part)
                if not part:
                    self.clean = self.is_over = True
                    break
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b"".join(said)
        except ssl.SSLError as error:
            self.has_failed = True
            raise Broken(str(error)) from None
        finally:
            self._send()
        content = b"".join(said)
        self._meter.took(came, len(content))
        return content if content or self.is_over else None

    def write(self, said: bytearray) -> int:
        if self._out:
            self._send()
        if self._takes_no_more:
            raise Broken("the server takes no more")
        if self._out:
            return 0
        taken = 0
        try:
            with memoryview(said)[:AT_ONCE] as view:
                while taken < len(view):  # one record each time
                    taken += self._tls.write(view[taken : taken + RECORD])
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise Broken(str(error)) from None
        self._send()
        return taken

    def end(self) -> None:
        return

    def close(self) -> None:
        self._sock.close()

    def _receive(self, most: int) -> int:
        """Reads the socket into TLS; how much. Raises OSError."""
        try:
            said = self._sock.recv(most)
        except BlockingIOError:
            return 0
        if said:
            self._in.write(said)
        else:
            self._in.write_eof()
        return len(said)

    def _send(self) -> None:
        """Writes to the socket what TLS has for it, as far as it goes. One that takes no more may have an answer."""
        said = self._written.read() if self._written.pending else b""
        if self._out:
            self._out += said
        if (said or self._out) and not self._takes_no_more:
            try:
                _sent(self._sock, said, self._out)
            except OSError:
                self._takes_no_more = True
        if self._takes_no_more:
            self._out.clear()


def _sent(sock: socket.socket, said: bytes, kept: bytearray) -> None:
    """Sends what is kept, and where nothing was, what is said; what is not taken is kept. Raises OSError."""
    try:
        if kept:
            del kept[: sock.send(kept)]
        else:
            with memoryview(said) as view:
                kept += view[sock.send(view) :]
    except BlockingIOError:
        if not kept:
            kept += said


def _text(error: SSL.Error) -> str:
    if isinstance(error, SSL.SysCallError):
        return "the connection was lost"
    said = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return "; ".join(str(each[-1]) for each in said) or "TLS failed"
