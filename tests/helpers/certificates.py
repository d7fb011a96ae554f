"""Issues the certificates that cert-manager would issue for Certificate manifests."""

from __future__ import annotations

import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

USAGES = {"server auth": ExtendedKeyUsageOID.SERVER_AUTH, "client auth": ExtendedKeyUsageOID.CLIENT_AUTH}


def issue(certificates: list[dict[str, Any]]) -> dict[str, dict[str, bytes]]:
    """Returns Secret name -> its files, all signed by the one that says isCA."""
    (authority,) = (manifest["spec"] for manifest in certificates if manifest["spec"].get("isCA"))
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name(authority["commonName"])
    ca = _builder(ca_name, ca_name, ca_key).add_extension(x509.BasicConstraints(True, None), critical=True)
    ca_pem = _pem(ca.sign(ca_key, hashes.SHA256()))
    secrets = {}
    for spec in (manifest["spec"] for manifest in certificates):
        if spec.get("isCA"):
            continue
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(spec.get("commonName", spec["dnsNames"][0])), ca_name, key)
        names = x509.SubjectAlternativeName([x509.DNSName(name) for name in spec["dnsNames"]])
        usages = x509.ExtendedKeyUsage([USAGES[usage] for usage in spec["usages"]])
        builder = builder.add_extension(names, critical=False).add_extension(usages, critical=False)
        secrets[spec["secretName"]] = {
            "tls.crt": _pem(builder.sign(ca_key, hashes.SHA256())),
            "tls.key": key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            "ca.crt": ca_pem,
        }
    return secrets


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
