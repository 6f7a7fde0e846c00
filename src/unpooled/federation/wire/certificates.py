"""Certificates and node keys for a TEST network: one authority, a server on this machine, a key for every SuperNode.

A real consortium brings its own certificates. These are good for a rehearsal on one machine: whoever holds the folder
holds the private key of the authority, and so can pretend to be the server.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any

from ..._base.files import atomic
from ..secure.keys import primitives

DAYS = 90
WARNING = "unpooled TEST network, not for real data"
HOSTS = ("127.0.0.1", "::1", "localhost")


def write_network(folder: Path, hosts: tuple[str, ...] = HOSTS) -> None:
    """ca.crt, server.crt and server.key in the folder; the authority's own key is thrown away once it has signed.

    Nobody can sign another certificate then: for a server of another name make the network again.
    """
    ec = primitives("asymmetric.ec")
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _certificate(f"{WARNING}: authority", authority.public_key(), "authority", authority, ())
    own = _certificate(f"{WARNING}: server", server.public_key(), "authority", authority, hosts)
    _write(folder / "ca.crt", _pem(ca))
    _write(folder / "server.crt", _pem(own))
    _write(folder / "server.key", _private(server, "PKCS8"), private=True)


def write_node_key(folder: Path) -> None:
    """node.key and node.key.pub: how a SuperNode shows the SuperLink who it is (ECDSA on P-384, as Flower wants it)."""
    ec, formats = primitives("asymmetric.ec"), primitives("serialization")
    key = ec.generate_private_key(ec.SECP384R1())
    _write(folder / "node.key", _private(key, "OpenSSH"), private=True)
    public = key.public_key().public_bytes(formats.Encoding.OpenSSH, formats.PublicFormat.OpenSSH)
    _write(folder / "node.key.pub", public + b"\n")


def _certificate(name: str, public: Any, kind: str, signer: Any, hosts: tuple[str, ...]) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def called(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(called(name))
        .issuer_name(called(f"{WARNING}: {kind}"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=not hosts, path_length=None if hosts else 0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(x509, is_authority=not hosts), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_host(x509, host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(signer, primitives("hashes").SHA256())


def _usage(x509: Any, is_authority: bool) -> Any:
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "encipher_only", "decipher_only")
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        **dict.fromkeys(unused, False),
    )


def _host(x509: Any, host: str) -> Any:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Any) -> bytes:
    return bytes(certificate.public_bytes(primitives("serialization").Encoding.PEM))


def _private(key: Any, form: str) -> bytes:
    formats = primitives("serialization")
    return bytes(key.private_bytes(formats.Encoding.PEM, getattr(formats.PrivateFormat, form), formats.NoEncryption()))


def _write(path: Path, content: bytes, private: bool = False) -> None:
    with atomic(path, private=private) as file:
        file.write(content)
