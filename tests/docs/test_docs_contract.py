"""The grpcurl and check lines of docs/contract.md and the pages in docs/contract/, sent as grpcurl sends them.

Those are ModelService.Generate.md, ModelService.GetModelInfo.md, ModelService.Likelihood.md,
ScorerService.ListRules.md and ToolService.ListTools.md.

grpcurl itself is a Go program that few test machines have. In its place stands what it does with these words: it asks
the server's reflection for the method, makes the request of the JSON, and prints the response as JSON.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from helpers.engine_cluster import Server, wait_for
from helpers.page_commands import ROOT, commands
from helpers.page_typist import Typist

DOCS = ROOT / "docs"
MODEL, SCORER, TOOLS = "127.0.0.1:50051", "127.0.0.1:50052", "127.0.0.1:50053"
WRITTEN = [
    line
    for page in (DOCS / "contract.md", *sorted((DOCS / "contract").iterdir()))
    for line in commands(page)
    if line.startswith("grpcurl ")
]


def grpcurl(line: str, servers: dict[str, Server]) -> Any:
    """Returns what grpcurl prints for a line: names, a descriptor, or a response."""
    program, plain, *args = shlex.split(line)
    assert (program, plain) == ("grpcurl", "-plaintext")
    body = args.pop(1) if args[0] == "-d" else "{}"
    address, *rest = [word for word in args if word != "-d"]
    with grpc.insecure_channel(servers[address].address) as channel:
        known = ProtoReflectionDescriptorDatabase(channel)
        if rest == ["list"]:
            return list(known.get_services())
        pool = DescriptorPool(known)
        if rest[0] == "describe":
            return [method.name for method in pool.FindServiceByName(rest[1]).methods]
        service, _, name = rest[0].partition("/")
        method = pool.FindServiceByName(service).FindMethodByName(name)
        call = channel.unary_unary(
            f"/{service}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        request = json_format.ParseDict(json.loads(body), GetMessageClass(method.input_type)())
        return json_format.MessageToDict(call(request, timeout=300))


@pytest.fixture(scope="module")
def servers(
    demo: Server, shared_scorer: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Server]]:
    command = [sys.executable, "-m", "tool_server", "serve", str(ROOT / "examples" / "counter_tools.py")]
    tools = Server(tmp_path_factory.mktemp("tools"), command).start()
    try:
        wait_until_ready(demo, "lyncean.model.v1.ModelService")
        wait_until_ready(shared_scorer, "lyncean.scorer.v1.ScorerService")
        wait_until_ready(tools, "lyncean.tool.v1.ToolService")
        yield {MODEL: demo, SCORER: shared_scorer, TOOLS: tools}
    finally:
        tools.kill()


def wait_until_ready(server: Server, service: str) -> None:
    """Waits for the service itself: the server's own health, "", is SERVING before anything is loaded."""
    with grpc.insecure_channel(server.address) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        request = health_pb2.HealthCheckRequest(service=service)
        wait_for(lambda: check(request, timeout=60).status == health_pb2.HealthCheckResponse.SERVING)


def test_every_line_is_answered(servers: dict[str, Server]) -> None:
    replies = {line.rpartition(" ")[2]: grpcurl(line, servers) for line in WRITTEN}
    assert len(WRITTEN) == 9
    assert "lyncean.model.v1.ModelService" in replies["list"]
    assert {"Generate", "Likelihood", "Batch", "GetModelInfo"} <= set(replies["lyncean.model.v1.ModelService"])
    assert replies["grpc.health.v1.Health/Check"] == {"status": "SERVING"}
    assert replies["lyncean.model.v1.ModelService/GetModelInfo"]["modelName"] == "demo-no-weights"
    assert replies["lyncean.model.v1.ModelService/Generate"]["parts"][0]["text"]
    assert len(replies["lyncean.model.v1.ModelService/Likelihood"]["scores"]) == 2
    assert replies["lyncean.tool.v1.ToolService/ListTools"]["stateful"]
    assert "choice" in [rule["name"] for rule in replies["lyncean.scorer.v1.ScorerService/ListRules"]["rules"]]


def test_a_server_is_checked(servers: dict[str, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = [line for line in commands(DOCS / "contract.md") if line not in WRITTEN and "protoc " not in line]
    typist = Typist(tmp_path, servers[MODEL], servers[SCORER], {MODEL: servers[MODEL].address})
    assert "passed" in typist.type(line, "--only", "info_is_stable")
    assert (tmp_path / "check.xml").is_file()
