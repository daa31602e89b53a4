"""What there is in the internet of the tests. Data alone; the configuration of every server follows from it."""

from __future__ import annotations

ORIGIN = "203.0.113.10"
DENIED = "198.51.100.20"
RESOLVER = "203.0.113.53"
OTHER_RESOLVER = "198.51.100.53"  # answers as well; no cage is to ask it
METADATA = "169.254.169.254"
PRIVATE = "10.20.30.40"
MULTICAST = "224.0.0.251"
SIX = "2001:4860:4860::10"

# Names of the web server on ORIGIN; the last label says what is served there.
SITES = ("origin.example", "www.origin.example", "git.example", "pypi.example", "npm.example")
DENIED_SITES = ("denied.example", "evilorigin.example", "origin.example.evil.test")

# Every other name, with what the resolver says.
RECORDS = {
    "rebind.example": "127.0.0.1",
    "metadata.example": METADATA,
    "private.example": PRIVATE,
    "zero.example": "0.0.0.0",
    "cage.example": "198.18.0.1",
    "xn--bcher-kva.example": ORIGIN,
    "echo.example": ORIGIN,
}
SIX_RECORDS = {"origin.example": SIX, "six.example": SIX}
WILDCARDS = {"tunnel.example": DENIED}  # any name below it
TEXTS = {"origin.example": "a text of the origin", "text.tunnel.example": "a text of the tunnel"}

ADDRESSES = (ORIGIN, DENIED, RESOLVER, OTHER_RESOLVER, METADATA, PRIVATE)

HTTP, HTTPS, REDIS = 80, 443, 6379
ECHO = 7007  # returns what it gets
GREET = 7008  # speaks first, then returns what it gets
DRAIN = 7009  # reads all until the end, then says how much it was
ECHO_AT = (ORIGIN, DENIED, METADATA, PRIVATE, "127.0.0.1")

GREETING = b"220 welcome\r\n"
PAGE = "the page of the origin\n"
SECRET_PAGE = "the page that nobody may see\n"
