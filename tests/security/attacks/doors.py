"""Put behind the prelude by `network.attack`: how a program in a cage talks to each of its doors, byte by byte.

Every entrance takes the name as bytes and gives what the door said: "reached" when the echo server behind it has
answered, else the door's own words. Nothing is encoded, folded or checked on the way. A door that cannot be entered has
refused nothing: that is "no door", which no test takes for a refusal but one that says so.
"""

# ruff: noqa: F821
# mypy: ignore-errors
import socket
import struct

PATIENCE = 8.0
RESOLVER = "198.18.0.1"
SOCKS = "198.18.0.1", 1080
QUESTION = 0x1234
NO_NAME = {getattr(socket, name): name for name in dir(socket) if name.startswith("EAI_")}


class NoDoor(Exception):
    """What was to refuse is not there."""


def enter(address):
    try:
        return socket.create_connection(address, PATIENCE)
    except OSError as error:
        raise NoDoor(f"{address}: {error}") from error


def exactly(s, size):
    """So many bytes, and none of what follows them; fewer where it was closed."""
    said = b""
    while len(said) < size and (more := s.recv(size - len(said))):
        said += more
    return said


def head(s):
    """To the end of an HTTP head, and nothing behind it."""
    said = b""
    while not said.endswith(b"\r\n\r\n") and (more := s.recv(1)):
        said += more
    return said


def door(variable):
    if variable not in os.environ:
        raise NoDoor(variable)
    address, _, port = os.environ[variable].rpartition("/")[2].rpartition(":")
    return address, int(port)


def echoes(s):
    s.settimeout(PATIENCE)
    s.sendall(b"is anybody there?\n")
    return "reached" if s.recv(100) else "closed"


def direct(address, port, kind=socket.SOCK_STREAM, family=socket.AF_INET):
    with socket.socket(family, kind) as s:
        s.settimeout(PATIENCE)
        s.connect((address, port))
        return echoes(s)


def through_socks(name, port, kind=3, command=1):
    """A connection that the SOCKS door was asked to make, and the door's answer: what the server says may follow it."""
    s = enter(SOCKS)
    s.sendall(b"\5\1\0")
    assert exactly(s, 2) == b"\5\0"
    length = bytes([len(name)]) if kind == 3 else b""
    s.sendall(b"\5" + bytes([command, 0, kind]) + length + name + struct.pack("!H", port))
    said = exactly(s, 4)
    return s, said + exactly(s, {1: 6, 4: 18}[said[3]] if len(said) == 4 else 0)


def socks(name, port, kind=3, command=1):
    s, said = through_socks(name, port, kind, command)
    with s:
        if said[:2] != b"\5\0":
            return f"SOCKS {said[1]}" if len(said) > 1 else "closed"
        return echoes(s)


def status_of(answer):
    return answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/1.1 ") else "closed"


def http(head, body=b""):
    """The status of what the HTTP door answers to these bytes."""
    with enter(door("HTTP_PROXY")) as s:
        s.sendall(head + body)
        answer = s.recv(4096)
        return status_of(answer)


def through_connect(authority, port):
    """Asks the HTTP door for the connection; returns the status of its answer as well."""
    s = enter(door("HTTPS_PROXY"))
    target = authority + b":%d" % port
    s.sendall(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
    return s, status_of(head(s))


def connect(authority, port):
    s, status = through_connect(authority, port)
    with s:
        return echoes(s) if status == "200" else status


def encoded(name):
    return b"".join(bytes([len(each)]) + each for each in name.split(b".") if each) + b"\0"


def dns(name, kind=1, at=None, tcp=False, raw=False):
    """[rcode, addresses or texts] of one question; `raw`: the name is encoded already."""
    question = (
        struct.pack("!6H", QUESTION, 0x100, 1, 0, 0, 0) + (name if raw else encoded(name)) + struct.pack("!2H", kind, 1)
    )
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(PATIENCE)
        s.connect((at or RESOLVER, 53))
        s.sendall(struct.pack("!H", len(question)) + question if tcp else question)
        answer = s.recv(4096)
    answer = answer[2:] if tcp else answer
    if len(answer) < 12:
        return ["closed"]
    count = struct.unpack("!H", answer[6:8])[0]
    return [answer[3] & 15, *([socket.inet_ntoa(answer[-4:])] if count and kind == 1 else [count] if count else [])]


def says(name, action, *arguments):
    """As `attempt`; a timeout, a reset and what libc says of a name are answers too."""
    try:
        say(name, action(*arguments))
    except (ConnectionResetError, BrokenPipeError):
        say(name, "reset")
    except NoDoor:
        say(name, "no door")
    except socket.gaierror as error:
        say(name, NO_NAME[error.errno])
    except OSError as error:
        say(name, word_of(error))
