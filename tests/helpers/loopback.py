"""A real ModelService on loopback whose Generate does what its text says."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lyncean import rpc
from lyncean.model.v1 import model_pb2, model_pb2_grpc

SERVICE = "lyncean.model.v1.ModelService"


class Obedient(model_pb2_grpc.ModelServiceServicer):
    """Answers the text, or fails in the way that the text names."""

    def __init__(self) -> None:
        self.calls = 0
        self.held = asyncio.Event()
        self.released = asyncio.Event()

    async def Generate(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.calls += 1
        text = request.messages[0].parts[0].text if request.messages else ""
        for error in (rpc.InvalidRequest, rpc.OutOfRange, rpc.Unsupported, rpc.Denied, rpc.Overloaded):
            if text == error.__name__:
                raise error("asked_for", f"{text} was asked for", limit="7")
        if text == "defect":
            raise ZeroDivisionError("secret-in-a-message")
        if text.startswith("sleep "):
            await asyncio.sleep(float(text.split()[1]))
        if text == "hold":
            self.held.set()
            await self.released.wait()
        return model_pb2.GenerateResponse(parts=[model_pb2.Part(text=text)])


@pytest.fixture
def served() -> Callable[..., Any]:
    """Serves `Obedient`: `async with served(config) as (server, servicer)`."""

    @asynccontextmanager
    async def serve(config: rpc.ServerConfig | None = None) -> AsyncIterator[tuple[rpc.Server, Obedient]]:
        servicer = Obedient()
        server = rpc.Server(
            config or rpc.ServerConfig(grace=5.0),
            SERVICE,
            lambda s: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, s),
        )
        await server.start()
        await server.set_serving()
        try:
            yield server, servicer
        finally:
            await server.stop()

    return serve


def say(text: str) -> model_pb2.GenerateRequest:
    """Returns a request with one text part."""
    part = model_pb2.Part(text=text)
    return model_pb2.GenerateRequest(messages=[model_pb2.Message(role=model_pb2.ROLE_USER, parts=[part])])


def generate(channel: grpc.aio.Channel) -> Any:
    """Returns the method Generate of a channel."""
    stub: Any = model_pb2_grpc.ModelServiceStub(channel)
    return stub.Generate


class Authority:
    """A certificate authority for tests."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self.path = folder / f"{name.replace(' ', '-')}.pem"
        self.path.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """Writes a certificate for loopback and its key; returns both paths."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(subject, key).add_extension(names, False).sign(self._key, hashes.SHA256())
        paths = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return paths


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A fresh certificate authority."""
    return Authority(tmp_path)
