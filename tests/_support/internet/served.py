"""The files of the web server: pages, a git repository, a pip, an npm and a cargo index. And the certificates, of a CA
that only these tests trust."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from _support.internet import places

QUIET = {"stdin": subprocess.DEVNULL, "capture_output": True, "check": True}
BULK = 1 << 20


def write_pages(top: Path) -> None:
    """Everything below `top`, one directory for each kind of site."""
    site, denied = top / "origin", top / "denied"
    site.mkdir(parents=True)
    denied.mkdir()
    (site / "index.html").write_text(places.PAGE)
    (site / "bulk").write_bytes(os.urandom(BULK))
    (denied / "index.html").write_text(places.SECRET_PAGE)
    _write_pip(top / "pypi")
    _write_pip(top / "pypi.org", files="https://files.pythonhosted.org")
    _write_npm(top / "npm", "npm.example")
    _write_npm(top / "registry", "registry.npmjs.org")
    _write_cargo(top / "cargo", "cargo.example")


def write_git(top: Path) -> None:
    """A repository that the dumb protocol serves: files, and nothing else (gitprotocol-http(5))."""
    work, bare = top / "work", top / "git" / "project.git"
    isolated = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@origin.example", "-c", "init.defaultBranch=main"]
    work.mkdir()
    (work / "README").write_text(places.PAGE)
    for words in (["init", "-q"], ["add", "README"], ["commit", "-q", "-m", "begin"]):
        subprocess.run(["git", *who, *words], cwd=work, env=isolated, **QUIET)  # type: ignore[call-overload]
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], env=isolated, **QUIET)  # type: ignore[call-overload]
    subprocess.run(["git", "update-server-info"], cwd=bare, env=isolated, **QUIET)  # type: ignore[call-overload]


def _write_pip(top: Path, files: str = "") -> None:
    """One wheel, `parcel`, in a simple index (PEP 503), which has its files on another host or on its own."""
    wheel = io.BytesIO()
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: parcel\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("parcel.py", f"TEXT = {places.PAGE!r}\n")
        for name, text in about.items():
            archive.writestr(f"parcel-1.0.dist-info/{name}", text)
    data, name = wheel.getvalue(), "parcel-1.0-py3-none-any.whl"
    digest = hashlib.sha256(data).hexdigest()
    (top / "simple" / "parcel").mkdir(parents=True)
    (top / name).write_bytes(data)
    (top / "simple" / "parcel" / "index.html").write_text(f'<a href="{files}/{name}#sha256={digest}">{name}</a>\n')


def _write_npm(top: Path, host: str) -> None:
    """One package, `parcel`, in a registry of files."""
    data = _packed({
        "package/package.json": '{"name": "parcel", "version": "1.0.0", "main": "index.js"}',
        "package/index.js": f"module.exports = {json.dumps(places.PAGE)}\n",
    })  # fmt: skip
    top.mkdir()
    (top / "parcel-1.0.0.tgz").write_bytes(data)
    dist = {
        "tarball": f"https://{host}/parcel-1.0.0.tgz",
        "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode(),
    }
    version = {"name": "parcel", "version": "1.0.0", "main": "index.js", "dist": dist}
    (top / "parcel").write_text(
        json.dumps({"name": "parcel", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}})
    )


def _write_cargo(top: Path, host: str) -> None:
    """One crate, `parcel`, in a sparse index of files."""
    data = _packed({
        "parcel-1.0.0/Cargo.toml": '[package]\nname = "parcel"\nversion = "1.0.0"\n',
        "parcel-1.0.0/src/lib.rs": f"// {places.PAGE}\n",
    })  # fmt: skip
    (top / "pa" / "rc").mkdir(parents=True)
    (top / "parcel-1.0.0.crate").write_bytes(data)
    (top / "config.json").write_text(json.dumps({"dl": f"https://{host}/{{crate}}-{{version}}.crate"}))
    version = {"name": "parcel", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(data).hexdigest(), "features": {},
               "yanked": False}  # fmt: skip
    (top / "pa" / "rc" / "parcel").write_text(json.dumps(version) + "\n")


def _packed(files: Mapping[str, str]) -> bytes:
    package = io.BytesIO()
    with tarfile.open(fileobj=package, mode="w:gz") as archive:
        for name, text in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(text.encode())
            archive.addfile(about, io.BytesIO(text.encode()))
    return package.getvalue()


def write_certificates(top: Path) -> None:
    """ca.crt, and NAME.crt with NAME.key for the two web servers."""
    top.mkdir()
    _openssl(top, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
             "ca.key", "-out", "ca.crt", "-days", "30", "-subj", "/CN=CA of the tests")  # fmt: skip
    for name, sites in (("origin", (*places.SITES, *places.SERVICES)), ("denied", places.DENIED_SITES)):
        (top / "extensions").write_text("subjectAltName=" + ",".join(f"DNS:{each}" for each in sites) + "\n")
        _openssl(top, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                 f"{name}.key", "-out", "request", "-subj", f"/CN={sites[0]}")  # fmt: skip
        _openssl(top, "x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days",
                 "30", "-extfile", "extensions", "-out", f"{name}.crt")  # fmt: skip


def _openssl(top: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=top, **QUIET)  # type: ignore[call-overload]
