"""The servers of the internet, real ones where there are any, and what they have seen.

`internet(directory)` is the whole of it: namespaces, files, servers; all is gone at its end. What arrived is told by
the servers themselves (`requests`, `questions`) and by the tap (`arrived`), which sees all that is sent.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from _support.internet import places, served
from _support.internet.host import Host
from _support.internet.space import Space, demand, found, space

PATIENCE = 15.0
PROGRAM = Path(__file__).with_name("listeners.py")
LISTENERS = ((places.ECHO, "echo"), (places.ECHO, "udp"), (places.GREET, "greet"), (places.DRAIN, "drain"))
NGINX = """
user root root; daemon off; master_process off; pid %(top)s/nginx.pid; error_log %(top)s/nginx.error;
events { worker_connections 4096; }
http {
  client_body_temp_path %(top)s/n1; proxy_temp_path %(top)s/n2; fastcgi_temp_path %(top)s/n3;
  uwsgi_temp_path %(top)s/n4; scgi_temp_path %(top)s/n5; default_type text/html;
  ssl_session_cache off;
  log_format line '$server_addr $server_port $host $request_uri';
%(servers)s}
"""
SITE = """
  server { listen %(address)s:80 %(default)s; listen %(address)s:443 ssl %(default)s;
    listen %(address)s:%(http2)s ssl http2 %(default)s; listen %(address)s:%(h2c)s http2 %(default)s;
    listen %(address)s:%(clear)s %(default)s; server_name %(names)s;
    access_log %(top)s/%(log)s.log line; root %(top)s/www/%(root)s;
    ssl_certificate %(top)s/tls/%(log)s.crt; ssl_certificate_key %(top)s/tls/%(log)s.key; }
"""


@dataclass(frozen=True)
class Internet:
    """`space` starts programs in it; a Host is asked for cages."""

    space: Space
    top: Path
    listeners: subprocess.Popen[bytes]

    @property
    def ca(self) -> str:
        """The certificate of the CA that its servers have theirs from."""
        return str(self.top / "tls" / "ca.crt")

    @contextmanager
    def host(self) -> Iterator[Host]:
        with Host.start(self.space) as host:
            yield host

    @contextmanager
    def serving(self, argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """One more server, which says "ready" and ends with its stdin; killed at the end."""
        process = self.space.start(argv, serving=True, stdin=subprocess.PIPE)
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()
            process.communicate()

    # ---- what has arrived ---------------------------------------------------------------------------------------

    def requests(self, site: str) -> list[str]:
        """Lines of the web server's own log: "origin" or "denied"."""
        return _lines(self.top / f"{site}.log")

    def questions(self) -> list[str]:
        """Names that the resolver was asked for, in small letters."""
        lines = _lines(self.top / "dnsmasq.log")
        return [line.split("query[")[1].split("] ")[1].split(" from ")[0].lower() for line in lines if "query[" in line]

    def arrived(self) -> list[dict[str, object]]:
        """All that was sent until now: protocol, to, port, data."""
        mark = uuid.uuid4().hex.encode()
        assert self.listeners.stdin is not None
        self.listeners.stdin.write(mark + b"\n")
        self.listeners.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        while (said := (self.top / "tap").read_text()).count(mark.hex()) < len(places.MARKS) or not said.endswith("\n"):
            assert time.monotonic() < deadline, "a tap is silent"
            time.sleep(0.002)
        return [each for each in map(json.loads, said.splitlines()) if each["port"] != places.MARKS[0][1]]

    def arrivals_at(self, *addresses: str) -> list[dict[str, object]]:
        return [each for each in self.arrived() if each["to"] in addresses]

    def forget(self) -> None:
        """Empties the logs, between two tests."""
        for name in ("origin.log", "denied.log", "dnsmasq.log", "tap"):
            with (self.top / name).open("a") as file:
                file.truncate(0)


@contextmanager
def internet(directory: Path, *, tap: bool = True) -> Iterator[Internet]:
    """Skips the test where a server of it is not installed. Without the tap, measurements measure something else."""
    demand("nginx", "dnsmasq", "openssl", "git")
    served.write_pages(directory / "www")
    served.write_git(directory / "www")
    served.write_certificates(directory / "tls")
    with ExitStack() as stack:
        inside = stack.enter_context(space(directory))
        for argv in (_listeners(directory, tap), _dnsmasq(directory), _nginx(directory)):
            stack.enter_context(_running(inside, argv, serving=True))
        listeners = stack.enter_context(_running(inside, _listeners_of_the_host(directory, tap)))
        whole = Internet(inside, directory, listeners)
        _await_all(inside)
        whole.forget()
        yield whole


def _listeners(top: Path, tap: bool) -> list[str]:
    where = [f"{address}:{port}:{kind}" for address in places.ECHO_AT for port, kind in LISTENERS]
    more = (f"{places.METADATA}:80:echo", f"{places.SIX}:{places.ECHO}:echo", _sink(places.MARKS[1]))
    return [sys.executable, str(PROGRAM), str(top / "tap") if tap else "", places.WIRE, *where, *more]


def _listeners_of_the_host(top: Path, tap: bool) -> list[str]:
    """Services that the host has for itself."""
    where = [f"{address}:{port}:{kind}" for address in places.ECHO_ON_THE_HOST for port, kind in LISTENERS]
    return [sys.executable, str(PROGRAM), str(top / "tap") if tap else "", "lo", *where, _sink(places.MARKS[0])]


def _sink(mark: tuple[str, int]) -> str:
    return f"{mark[0]}:{mark[1]}:sink"


def _dnsmasq(top: Path) -> list[str]:
    """-d: in the foreground, without a change of user, of which there is only one here."""
    names = [f"--host-record={name},{places.ORIGIN}" for name in (*places.SITES, *places.SERVICES)]
    names += [f"--host-record={name},{places.DENIED}" for name in places.DENIED_SITES]
    names += [f"--host-record={name},{address}" for name, address in places.RECORDS.items()]
    names += [f"--host-record={name},{address}" for name, address in places.SIX_RECORDS.items()]
    names += [f"--address=/{name}/{address}" for name, address in places.WILDCARDS.items()]
    names += [f"--txt-record={name},{text}" for name, text in places.TEXTS.items()]
    listen = [f"--listen-address={each}" for each in (places.RESOLVER, places.OTHER_RESOLVER)]
    return [
        str(found("dnsmasq")), "-d", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces",
        f"--pid-file={top}/dnsmasq.pid", "--log-queries", f"--log-facility={top}/dnsmasq.log", "--local-ttl=5",
        "--local=/#/", *listen, *names,
    ]  # fmt: skip


def _nginx(top: Path) -> list[str]:
    roots = {"git.example": "git", "pypi.example": "pypi", "npm.example": "npm", "cargo.example": "cargo",
             "pypi.org": "pypi.org", "files.pythonhosted.org": "pypi", "github.com": "git",
             "registry.npmjs.org": "registry"}  # fmt: skip
    sites = [(places.ORIGIN, name, "origin", roots.get(name, "origin")) for name in (*places.SITES, *places.SERVICES)]
    sites += [(places.DENIED, name, "denied", "denied") for name in places.DENIED_SITES]
    blocks = [
        SITE % {"address": address, "names": name, "log": log, "root": root, "top": top, "http2": places.HTTP2,
                "h2c": places.H2C, "clear": places.CLEAR,
                "default": "default_server" if name in ("origin.example", "denied.example") else ""}
        for address, name, log, root in sites
    ]  # fmt: skip
    (top / "nginx.conf").write_text(NGINX % {"top": top, "servers": "".join(blocks)})
    return [str(found("nginx")), "-p", str(top), "-c", "nginx.conf", "-e", f"{top}/nginx.error"]


@contextmanager
def _running(inside: Space, argv: list[str], *, serving: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    with (inside.directory / f"{Path(argv[0]).name}.out").open("ab") as out:
        process = inside.start(argv, serving=serving, stdin=subprocess.PIPE, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _await_all(inside: Space) -> None:
    """Until each of them answers; what they have said, if one does not."""
    ports = ((places.RESOLVER, 53), (places.ORIGIN, 80), (places.ORIGIN, 443), (places.DENIED, 80),
             (places.ORIGIN, places.ECHO), (places.SIX, places.ECHO), ("127.0.0.1", places.ECHO))  # fmt: skip
    dial = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    script = f"for each in {ports!r}:\n    sys.argv[1:] = map(str, each); exec({dial!r})"
    deadline = time.monotonic() + PATIENCE
    while (done := inside.run([sys.executable, "-c", "import sys\n" + script])).returncode != 0:
        if time.monotonic() > deadline:
            said = "\n".join(path.read_text(errors="replace") for path in inside.directory.glob("*.out"))
            raise AssertionError(f"a server does not listen: {done.stderr.decode()}\n{said}")
        time.sleep(0.02)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()
