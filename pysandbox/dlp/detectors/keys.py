"""Keys and passwords that are of no single service: what decrypts, signs, or opens a database."""

from __future__ import annotations

from pysandbox.dlp.detector import Detector, filled

BECH32 = b"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

ROWS = (
    Detector(
        "pgp_private_key", (b"-----BEGIN PGP",), rb"-----BEGIN PGP PRIVATE KEY BLOCK-----",
        hits=(b"-----BEGIN PGP " + b"PRIVATE KEY BLOCK-----", b"key:\n-----BEGIN PGP " + b"PRIVATE KEY BLOCK-----\n"),
        misses=(b"-----BEGIN PGP PUBLIC KEY BLOCK-----", b"-----BEGIN PGP MESSAGE-----"),
        never=True, longest=64,
    ),
    Detector(
        "putty_private_key", (b"PuTTY-User-Key-File-",), rb"PuTTY-User-Key-File-[23]: [a-z0-9-]{5,30}",
        hits=(b"PuTTY-User-Key-File-" + b"2: ssh-rsa", b"PuTTY-User-Key-File-" + b"3: ssh-ed25519"),
        misses=(b"PuTTY-User-Key-File-1: ssh-rsa", b"PuTTY-User-Key-File-2"),
        never=True, longest=64,
    ),
    Detector(
        "age_secret_key", (b"AGE-SECRET-KEY-1",), rb"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}",
        hits=(filled(b"AGE-SECRET-KEY-1", 58, BECH32), filled(b"# key\nAGE-SECRET-KEY-1", 58, BECH32[::-1])),
        misses=(filled(b"AGE-SECRET-KEY-1", 57, BECH32), filled(b"AGE-SECRET-KEY-1", 58, b"BIO1")),
        never=True, longest=96,
    ),
    Detector(
        "jwt", (b"eyJ",), rb"eyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,2000}\.[A-Za-z0-9_-]{20,}",
        hits=(filled(filled(b"eyJ", 17) + b".eyJ", 30) + filled(b".", 43),
              filled(filled(b"eyJ", 33) + b".eyJ", 90) + filled(b".", 86)),
        misses=(filled(filled(b"eyJ", 17) + b".", 43), filled(filled(b"eyJ", 17) + b".eyJ", 30) + b".none", b"eyJ"),
        longest=2048,
    ),
    Detector(
        "database_url",
        (b"postgres://", b"postgresql://", b"mysql://", b"mongodb://", b"mongodb+srv://", b"redis://", b"rediss://",
         b"amqp://", b"amqps://"),
        rb"(?:postgres(?:ql)?|mysql|mongodb(?:\+srv)?|rediss?|amqps?)://[^\s:/@\"'<>{}$]{0,64}:[^\s:@/\"'<>{}$]{6,128}@"
        rb"(?!localhost|127\.|\[::1\]|example\.)[A-Za-z0-9.\[_-]{3}",
        hits=(b"postgres://app:" + b"Tr0ub4dor-3@db.acme.internal/app",
              b"redis://:" + b"s3cr3t-w0rd@cache.acme:6379/0"),
        misses=(b"postgres://db.acme.internal/app", b"mysql://root@db/app", b"postgres://u:password@localhost/db",
                b"redis://:$PASSWORD@cache.acme:6379"),
    ),
)  # fmt: skip
