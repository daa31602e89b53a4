"""A certificate that an authority has signed, as a public server has one, and the certificate of that authority."""

from __future__ import annotations

import datetime
from pathlib import Path

LASTS = datetime.timedelta(days=2)


def write_chain(directory: Path, name: str) -> tuple[str, str]:
    """The file of the certificate with its key, and the one of the authority's certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    issuer, subject = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in ("a test's CA", name)
    )
    now, made = datetime.datetime.now(datetime.UTC), []
    for whose, key, is_authority in ((issuer, keys[0], True), (subject, keys[1], False)):
        built = (
            x509.CertificateBuilder().subject_name(whose).issuer_name(issuer).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - LASTS).not_valid_after(now + LASTS)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )  # fmt: skip
        if not is_authority:
            built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        made.append(built.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both, authority = directory / "server.both.pem", directory / "authority.pem"
    both.write_bytes(made[1] + private)
    authority.write_bytes(made[0])
    return str(both), str(authority)
