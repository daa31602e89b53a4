"""The clients: how each is called, and by which ways out it can go.

A way is what the client knows of proxies: `http` leaves it the variables of a cage as they are, `socks` makes them name
the other door; `none` takes all of them away, so that only the transparent door is left. `{at}` is the host name that
is asked for, and every client prints, or ends with 0 having checked, the page that is there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from _support.internet import places

PAGE = places.PAGE.strip()
VARIABLES = "http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY"
WAYS = {
    "http": ":",
    "socks": f"for each in {VARIABLES}; do export $each=socks5h://198.18.0.1:1080; done",
    "none": f"unset {VARIABLES}",
}  # fmt: skip

ALL = ("http", "socks", "none")
PYTHON = sys.executable


@dataclass(frozen=True)
class Client:
    """`script` is for sh. `allowed` and `denied` are the names it asks for; `marker` what it prints of the page."""

    name: str
    script: str
    ways: Sequence[str] = ALL
    needs: Sequence[str] = ()  # programs
    modules: Sequence[str] = ()  # of Python
    allowed: str = "origin.example"
    marker: str = PAGE
    policy: Mapping[str, int] = field(default_factory=dict)  # what else it needs of a cage


CRATE = (  # that asks for another one
    'mkdir -p asks/src && cd asks && touch src/lib.rs && printf \'[package]\\nname = "asks"\\nversion = "0.1.0"\\n'
    '[dependencies]\\nparcel = {{ version = "1", registry = "here" }}\\n\' > Cargo.toml'
)


def python(source: str) -> str:
    return f"{PYTHON} -c '{source}' {{at}}"


CLIENTS = (
    Client("curl", "curl -sSf https://{at}/", needs=["curl"]),
    Client("curl, http", "curl -sSf http://{at}/", needs=["curl"]),
    Client("wget", "wget -q -t 1 -O - --ca-certificate=$SSL_CERT_FILE https://{at}/", ["http", "none"], ["wget"]),
    Client("wget, http", "wget -q -t 1 -O - http://{at}/", ["http", "none"], ["wget"]),
    Client("requests", python('import requests, sys; print(requests.get(f"https://{{sys.argv[1]}}/").text)'),
           modules=["requests", "socks"]),
    Client("httpx", python('import httpx, sys; print(httpx.get(f"https://{{sys.argv[1]}}/").text)'),
           modules=["httpx", "socksio"]),
    Client("aiohttp", f"{PYTHON} {{programs}}/by_aiohttp.py https://{{at}}/", ["http", "none"], modules=["aiohttp"]),
    Client("urllib", python('import urllib.request as u, sys; print(u.urlopen(f"https://{{sys.argv[1]}}/").read())'),
           ["http", "none"]),
    Client("asyncio streams", f"{PYTHON} {{programs}}/streams.py {{at}}", ["none"]),
    Client("node fetch", "node -e 'fetch(process.argv[1]).then(a => a.text()).then(console.log)' https://{at}/",
           ["none"], ["node"], policy={"address_space_gb": 0}),  # its parser is WebAssembly, which reserves 10 GiB
    Client("git", "git clone -q https://{at}/project.git /tmp/clone && cat /tmp/clone/README", needs=["git"],
           allowed="git.example"),
    Client("git, http", "git clone -q http://{at}/project.git /tmp/clone && cat /tmp/clone/README", ["none"],
           needs=["git"], allowed="git.example"),
    Client("pip", f"{PYTHON} -m pip install -q --no-input --retries 0 --target /tmp/t -i https://{{at}}/simple parcel "
           "&& cat /tmp/t/parcel.py", modules=["pip", "socks"], allowed="pypi.example"),
    Client("pip download", f"cd /tmp && {PYTHON} -m pip download -q --no-input --retries 0 -i https://{{at}}/simple "
           "parcel && ls", ["none"], modules=["pip"], allowed="pypi.example", marker="parcel-1.0-py3-none-any.whl"),
    Client("npm", "cd /tmp && npm install --silent --no-audit --no-update-notifier --fetch-retries 0 "
           "--registry https://{at}/ parcel && cat node_modules/parcel/index.js", ["http", "none"], ["npm"],
           allowed="npm.example"),
    Client("npm view", "npm view --no-update-notifier --fetch-retries 0 --registry https://{at}/ parcel version",
           ["none"], ["npm"], allowed="npm.example", marker="1.0.0"),
    # Until 1.68 an index of single files was behind a flag, which a stable cargo takes with RUSTC_BOOTSTRAP alone.
    Client("cargo", f"cd $HOME && {CRATE} && CARGO_HOME=$HOME/cargo CARGO_NET_RETRY=0 RUSTC_BOOTSTRAP=1 "
           "CARGO_REGISTRIES_HERE_INDEX=sparse+https://{at}/ cargo -Z sparse-registry fetch -q && "
           "cat $HOME/cargo/registry/src/*/parcel-1.0.0/src/lib.rs", needs=["cargo"], allowed="cargo.example"),
    Client("openssl", "printf 'GET / HTTP/1.0\\r\\nHost: {at}\\r\\n\\r\\n' | openssl s_client -quiet "
           "-verify_return_error -CAfile $SSL_CERT_FILE -servername {at} -connect {at}:443 -ign_eof "
           "${{HTTPS_PROXY:+-proxy}} ${{HTTPS_PROXY#http://}}", ["http", "none"], ["openssl"]),
    Client("java", "java -Xshare:auto -XX:TieredStopAtLevel=1 -cp {built} Fetch https://{at}/", ["http", "none"],
           ["java", "javac"]),
    Client("go", "for each in HTTP_PROXY HTTPS_PROXY http_proxy https_proxy; do "
           "eval value=\\$$each; [ -z \"$value\" ] || export $each=$(echo $value | sed s/^socks5h:/socks5:/); done; "
           "{built}/fetch https://{at}/", needs=["go"]),
    Client("dig", "dig +short +tries=1 {at}", ["none"], ["dig"], marker="198.18."),
    Client("dig, TCP", "dig +short +tcp +tries=1 {at}", ["none"], ["dig"], marker="198.18."),
)  # fmt: skip
TRIED = [(client, way) for client in CLIENTS for way in client.ways]


def environment(ca: str) -> dict[str, str]:
    """What makes each of them trust the CA of this internet. Nothing about proxies."""
    names = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
             "PIP_CERT", "npm_config_cafile", "CARGO_HTTP_CAINFO")  # fmt: skip
    return {**dict.fromkeys(names, ca), "HOME": "/tmp", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUTF8": "1"}
