"""Traces of calls, for OpenTelemetry: enabled by OTEL_EXPORTER_OTLP_ENDPOINT."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import StatusError
from model_server.backend import LoadError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


_PROTOCOLS = {"grpc": "grpc", "http/protobuf": "http"}


def _protocol() -> str:
    """Returns the exporter's package of the protocol that the environment names."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name = next((name for name in names if os.environ.get(name)), names[1])
    protocol = os.environ.get(name) or "grpc"
    if protocol not in _PROTOCOLS:
        raise LoadError(f"{name} is {protocol!r}: give {' or '.join(_PROTOCOLS)}")
    return _PROTOCOLS[protocol]


class Tracing:
    """One span a call, a child of the caller's where it sends `traceparent`.

    Args:
        tracer: An OpenTelemetry tracer; None records nothing.
    """

    def __init__(self, tracer: Any = None) -> None:
        self._tracer = tracer

    @classmethod
    def from_environment(cls) -> Tracing:
        """Sets up the exporter that the environment names.

        Raises:
            LoadError: If the extra is not installed, or the environment names a protocol that it does not have.
        """
        if not any(os.environ.get(name) for name in _ENDPOINTS):
            return cls()
        try:
            exporter = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{_protocol()}.trace_exporter")
            sdk = importlib.import_module("opentelemetry.sdk.trace")
            export = importlib.import_module("opentelemetry.sdk.trace.export")
            resources = importlib.import_module("opentelemetry.sdk.resources")
        except ModuleNotFoundError as error:
            raise LoadError(
                f"{_ENDPOINTS[0]} is set and {error.name} is not installed: pip install 'lyncean[otel]'"
            ) from error
        name = os.environ.get("OTEL_SERVICE_NAME", "model-server")
        provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
        provider.add_span_processor(export.BatchSpanProcessor(exporter.OTLPSpanExporter()))
        return cls(provider.get_tracer("lyncean.model_server"))

    @contextmanager
    def call(self, method: str, metadata: Iterable[tuple[str, str | bytes]] | None) -> Iterator[dict[str, Any]]:
        """Records one call; put what it cost into the mapping under "usage"."""
        if self._tracer is None:
            yield {}
            return
        propagate = importlib.import_module("opentelemetry.propagate")
        trace = importlib.import_module("opentelemetry.trace")
        carrier = {key: value for key, value in metadata or () if isinstance(value, str)}
        kind = trace.SpanKind.SERVER
        with self._tracer.start_as_current_span(method, context=propagate.extract(carrier), kind=kind) as span:
            facts: dict[str, Any] = {}
            try:
                yield facts
            except StatusError as error:
                span.set_attribute("lyncean.reason", error.reason)
                span.set_attribute("rpc.grpc.status_code", error.code.value[0])
                raise
            usage: model.Usage | None = facts.get("usage")
            if usage is not None:
                span.set_attribute("lyncean.input_tokens", usage.input_tokens)
                span.set_attribute("lyncean.image_tokens", usage.image_tokens)
                span.set_attribute("lyncean.output_tokens", usage.output_tokens)
                span.set_attribute("lyncean.queue_seconds", usage.queue_time.ToNanoseconds() / 1e9)
                span.set_attribute("lyncean.model_seconds", usage.model_time.ToNanoseconds() / 1e9)
