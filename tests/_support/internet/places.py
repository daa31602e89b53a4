"""What there is in the internet of the tests. Data alone; the configuration of every server follows from it."""

from __future__ import annotations

# The two ends of the wire: a host of pysandbox, and the way to everything else.
WIRE = "wire"
HOST, GATEWAY = "192.0.32.2", "192.0.32.1"
HOST_SIX, GATEWAY_SIX = "2001:500:88::2", "2001:500:88::1"

ORIGIN = "93.184.216.10"
DENIED = "192.0.43.20"
RESOLVER = "199.43.135.53"
OTHER_RESOLVER = "199.43.133.53"  # answers as well; no cage is to ask it
METADATA = "169.254.169.254"
PRIVATE = "10.20.30.40"
OTHER_PRIVATE = "10.20.31.40"
HOST_PRIVATE = "10.20.40.1"  # of the host itself
MULTICAST = "224.0.0.251"
SIX = "2001:4860:4860::10"

# Names of the web server on ORIGIN; the last label says what is served there.
SITES = ("origin.example", "www.origin.example", "git.example", "pypi.example", "npm.example", "cargo.example")
DENIED_SITES = ("denied.example", "evilorigin.example", "origin.example.evil.test")

# Names of services that shipped recipes are for, on the same server: stand-ins, which only these tests trust.
SERVICES = (
    "pypi.org", "files.pythonhosted.org", "index.crates.io", "static.crates.io", "crates.io", "auth.docker.io",
    "registry-1.docker.io", "hub.docker.com", "production.cloudflare.docker.com", "github.com", "api.github.com",
    "uploads.github.com", "codeload.github.com", "raw.githubusercontent.com", "objects.githubusercontent.com",
    "release-assets.githubusercontent.com", "huggingface.co", "cdn-lfs.huggingface.co", "cdn-lfs-us-1.hf.co",
    "cas-bridge.xethub.hf.co", "registry.npmjs.org", "api.openai.com", "api.anthropic.com", "slack.com",
    "files.slack.com", "hooks.slack.com", "api.stripe.com", "files.stripe.com", "s3.amazonaws.com", "sts.amazonaws.com",
    "iam.amazonaws.com", "s3.eu-central-1.amazonaws.com", "claude.ai", "console.anthropic.com", "platform.claude.com",
    "auth.openai.com", "chatgpt.com", "api.githubcopilot.com", "copilot-proxy.githubusercontent.com", "opencode.ai",
)  # fmt: skip

# Every other name, with what the resolver says.
RECORDS = {
    "rebind.example": "127.0.0.1",
    "metadata.example": METADATA,
    "private.example": PRIVATE,
    "zero.example": "0.0.0.0",
    "self.example": HOST,
    "cage.example": "198.18.0.1",
    "xn--bcher-kva.example": ORIGIN,
    "echo.example": ORIGIN,
}
SIX_RECORDS = {"origin.example": SIX, "six.example": SIX}
WILDCARDS = {"tunnel.example": DENIED}  # any name below it
TEXTS = {"origin.example": "a text of the origin", "text.tunnel.example": "a text of the tunnel"}

ADDRESSES = (ORIGIN, DENIED, RESOLVER, OTHER_RESOLVER, METADATA, PRIVATE, OTHER_PRIVATE)

HTTP, HTTPS, REDIS = 80, 443, 6379
HTTP2, GRPC = 8445, 8446  # the same web server in HTTP/2; one of gRPC, where a test starts it
CLEAR, H2C = 8448, 8447  # the same without TLS, in HTTP/1.1 and in HTTP/2
ECHO = 7007  # returns what it gets
GREET = 7008  # speaks first, then returns what it gets
DRAIN = 7009  # reads all until the end, then says how much it was
ECHO_AT = (ORIGIN, DENIED, METADATA, PRIVATE, OTHER_PRIVATE)
ECHO_ON_THE_HOST = ("127.0.0.1", HOST, HOST_PRIVATE)

GREETING = b"220 welcome\r\n"
PAGE = "the page of the origin\n"
SECRET_PAGE = "the page that nobody may see\n"
# Where a datagram shows how far the taps have come: over the loopback of the host, and over the wire.
MARKS = (("127.0.0.1", 9), (ORIGIN, 9))
