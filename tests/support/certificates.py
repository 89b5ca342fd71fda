"""Certificates of an authority that only tests trust."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec import Struct


class Certificates(Struct, frozen=True):
    """The files, in PEM, of an authority's certificate, of a server's, and of that one's key."""

    authority: Path
    chain: Path
    key: Path


def new_certificates(folder: Path, hosts: Sequence[x509.GeneralName]) -> Certificates:
    """Write the certificates for a server with these names and addresses, valid for a day, to a folder."""
    authority_key, host_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority for tests")])
    now = datetime.now(UTC)

    def begun(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder(authority, subject, key.public_key(), x509.random_serial_number())
        return builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))

    root = begun(authority, authority_key).add_extension(x509.BasicConstraints(True, None), critical=True)
    leaf = begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A server for tests")]), host_key).add_extension(
        x509.SubjectAlternativeName(hosts), critical=False
    )
    files = Certificates(folder / "authority.pem", folder / "server.pem", folder / "server-key.pem")
    for file, builder in ((files.authority, root), (files.chain, leaf)):
        file.write_bytes(builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    files.key.write_bytes(
        host_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files
