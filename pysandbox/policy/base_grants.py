"""Generated from recipes/base.toml, where the reasons stand, by `python -m pysandbox.policy.bake`."""

from __future__ import annotations

from pysandbox.policy.option import Grant

ALLOW: tuple[Grant, ...] = (
    Grant("/usr", optional=True),
    Grant("/bin", optional=True),
    Grant("/sbin", optional=True),
    Grant("/lib", optional=True),
    Grant("/lib32", optional=True),
    Grant("/lib64", optional=True),
    Grant("/libx32", optional=True),
    Grant("/etc/ld.so.cache", optional=True),
    Grant("/etc/ld.so.conf", optional=True),
    Grant("/etc/ld.so.conf.d", optional=True),
    Grant("/etc/ld-musl-x86_64.path", optional=True),
    Grant("/etc/ld-musl-aarch64.path", optional=True),
    Grant("/etc/resolv.conf", optional=True),
    Grant("/etc/nsswitch.conf", optional=True),
    Grant("/etc/hosts", optional=True),
    Grant("/etc/services", optional=True),
    Grant("/etc/os-release", optional=True),
    Grant("/etc/ssl", optional=True),
    Grant("/etc/ssl/certs", optional=True),
    Grant("/etc/ssl/cert.pem", optional=True),
    Grant("/etc/ssl/openssl.cnf", optional=True),
    Grant("/etc/ca-certificates", optional=True),
    Grant("/etc/pki/tls/certs", optional=True),
    Grant("/etc/pki/tls/cert.pem", optional=True),
    Grant("/etc/pki/tls/openssl.cnf", optional=True),
    Grant("/etc/pki/ca-trust", optional=True),
    Grant("/etc/crypto-policies", optional=True),
    Grant("/etc/localtime", optional=True),
    Grant("/etc/alternatives", optional=True),
    Grant("/etc/passwd", optional=True),
    Grant("/etc/group", optional=True),
    Grant("/etc/gitconfig", optional=True),
    Grant("/etc/fonts", optional=True),
    Grant("/etc/chromium.d", optional=True),
    Grant("/etc/ImageMagick-6", optional=True),
    Grant("/etc/ImageMagick-7", optional=True),
)
DENY: tuple[Grant, ...] = (
    Grant("/etc/shadow", optional=True),
    Grant("/etc/gshadow", optional=True),
    Grant("/etc/ssl/private", optional=True),
)
