"""Spans of calls, exported to a real collector's endpoint over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, call, dial

pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
from helpers.otlp_collector import collecting

ROOT = Path(__file__).resolve().parents[2]


async def test_spans_reach_the_collector(tmp_path: Path) -> None:
    stack = contextlib.ExitStack()
    collector, port = stack.enter_context(collecting())
    port_file = tmp_path / "port"
    started = subprocess.Popen(
        [sys.executable, "-m", "model_server", "serve", "--port", "0", "--port-file", str(port_file)],
        cwd=ROOT,
        env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "50"},
    )
    try:
        until = time.monotonic() + 300
        while not port_file.exists():
            assert started.poll() is None
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        async with dial(f"127.0.0.1:{int(port_file.read_text())}") as channel:
            stub: Any = model_grpc.ModelServiceStub(channel)
            message = model.Message(role=model.ROLE_USER, parts=[model.Part(text="What is it?")])
            sent = model.GenerateRequest(messages=[message])
            parent = (("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),)
            while True:
                try:
                    await call(stub.Generate, sent, timeout=300, metadata=parent)
                    break
                except CallError:
                    assert time.monotonic() < until
                    await asyncio.sleep(0.05)
            with pytest.raises(CallError):
                await call(stub.Generate, model.GenerateRequest(), timeout=300, metadata=parent)
        while len(collector.spans) < 2:
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        facts = [{a.key: a.value for a in span.attributes} for span in collector.spans]
        assert {span.name for span in collector.spans} == {"Generate"}
        assert {span.trace_id.hex() for span in collector.spans} == {"0af7651916cd43dd8448eb211c80319c"}
        assert any("lyncean.output_tokens" in fact for fact in facts)
        assert any(fact["lyncean.reason"].string_value == "empty_prompt" for fact in facts if "lyncean.reason" in fact)
    finally:
        started.kill()
        started.wait()
        stack.close()
