"""OpenTelemetry: a `gen_ai` span for each call, with a `gen_ai.evaluation.result` event for its verdict.

The exporter's own variables set the target: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL (`grpc`, or
`http/protobuf`) and so on.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

from lyncean_interop import facts
from orchestrator import ConfigError
from orchestrator.run_folder import Item, Run, epoch

try:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context
except ImportError as error:
    raise ConfigError("--format opentelemetry needs its SDK: pip install 'lyncean[otel]'") from error

_BATCH = 500
_PROTOCOLS = {"grpc": "grpc", "http/protobuf": "http"}
_REQUEST = {
    "max_output_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
}


def send(run: Run) -> str:
    """Sends a run's calls and returns the trace's id.

    Raises:
        ConfigError: The endpoint does not accept them.
    """
    exporter = _exporter()
    try:
        return _send(run, exporter)
    finally:
        exporter.shutdown()


def _exporter() -> SpanExporter:
    """Returns the exporter of the protocol that the environment names.

    Raises:
        ConfigError: The protocol is unknown, or its package is missing.
    """
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name = next((name for name in names if os.environ.get(name)), names[1])
    protocol = os.environ.get(name) or "grpc"
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"{name} is {protocol!r}: --format opentelemetry sends {' or '.join(_PROTOCOLS)}")
    try:
        module = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{_PROTOCOLS[protocol]}.trace_exporter")
    except ImportError as error:
        raise ConfigError(f"{name} is {protocol!r}, which needs its exporter: pip install 'lyncean[otel]'") from error
    exporter: SpanExporter = module.OTLPSpanExporter()
    return exporter


def _send(run: Run, exporter: SpanExporter) -> str:
    provider = TracerProvider(resource=Resource.create({"service.name": "lyncean", "lyncean.run": run.name}))
    waiting = _Waiting()
    provider.add_span_processor(waiting)
    tracer = provider.get_tracer("lyncean", facts.library(run))
    begun = int(epoch(run.manifest.get("created")) * 1e9)
    root = tracer.start_span(
        f"evaluation {run.name}", start_time=begun, attributes={"gen_ai.request.model": run.model_name}
    )
    inside, end = set_span_in_context(root), begun
    for item in run:
        start = int(epoch(item.response.get("started")) * 1e9) or begun
        last = start + int(float(item.response.get("seconds") or 0.0) * 1e9)
        span = tracer.start_span(
            f"chat {run.model_name}", inside, SpanKind.CLIENT, attributes=_attributes(run, item), start_time=start
        )
        if error := item.response.get("error"):
            span.set_status(StatusCode.ERROR, str(error.get("reason", "")))
        if item.verdict:
            span.add_event("gen_ai.evaluation.result", _verdict(item), timestamp=last)
        span.end(last)
        end = max(end, last)
        if len(waiting.spans) >= _BATCH:
            waiting.flush(exporter)
    root.end(end)
    waiting.flush(exporter)
    return format(root.get_span_context().trace_id, "032x")


class _Waiting(SpanProcessor):
    """Collects ended spans, since the SDK's own batches drop spans that do not fit their queue."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)

    def flush(self, exporter: SpanExporter) -> None:
        """Sends the spans.

        Raises:
            ConfigError: The endpoint does not accept them.
        """
        if self.spans and exporter.export(self.spans) is not SpanExportResult.SUCCESS:
            raise ConfigError("the spans could not be sent: check OTEL_EXPORTER_OTLP_ENDPOINT and its server")
        self.spans = []


def _attributes(run: Run, item: Item) -> dict[str, Any]:
    answer = item.response.get("response") or {}
    config = (item.response.get("request") or {}).get("config") or {}
    usage = answer.get("usage") or {}
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "lyncean",
        "gen_ai.request.model": run.model_name,
        "gen_ai.response.model": run.model_name,
        "gen_ai.conversation.id": item.sample,
        "lyncean.key": item.key,
        "lyncean.task": item.task,
        "server.address": str(item.response.get("replica") or ""),
        **{name: config[setting] for setting, name in _REQUEST.items() if setting in config},
    }
    if usage:
        attributes["gen_ai.usage.input_tokens"] = int(usage.get("input_tokens", 0))
        attributes["gen_ai.usage.output_tokens"] = int(usage.get("output_tokens", 0))
    if reason := answer.get("finish_reason"):
        attributes["gen_ai.response.finish_reasons"] = [str(reason).removeprefix("FINISH_REASON_").lower()]
    if error := item.response.get("error"):
        attributes["error.type"] = str(error.get("reason") or "error")
    return attributes


def _verdict(item: Item) -> Mapping[str, Any]:
    attributes: dict[str, Any] = {"gen_ai.evaluation.name": str(item.verdict.get("rule") or item.task)}
    if (score := item.score_all) is not None:
        attributes["gen_ai.evaluation.score.value"] = score
    right = "correct" if (item.score or 0.0) >= 1 else "incorrect"
    attributes["gen_ai.evaluation.score.label"] = right if item.outcome == "scored" else item.outcome
    if reason := item.verdict.get("reason"):
        attributes["gen_ai.evaluation.explanation"] = str(reason)
    return attributes
