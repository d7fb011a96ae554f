"""A real scorer that keeps its connections and answers nothing on a Score stream while the file --silent is there."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from lyncean.rpc import Server, ServerConfig
from lyncean.scorer.v1 import scorer_pb2_grpc
from scorer.metrics import metrics
from scorer.rules import rules
from scorer.scoring import Scorer
from scorer.service import SERVICE, Servicer
from scorer.telemetry import NoTelemetry


class Silent(Servicer):
    def __init__(self, silent: Path) -> None:
        super().__init__(Scorer(rules()), metrics(), (), NoTelemetry())
        self.silent = silent

    async def Score(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        while self.silent.exists():
            await asyncio.sleep(0.05)
        async for response in super().Score(requests, context):
            while self.silent.exists():
                await asyncio.sleep(0.05)
            yield response


async def serve() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    for name in ("--port-file", "--silent"):
        parser.add_argument(name, type=Path)
    flags = parser.parse_args()
    config = ServerConfig(port=flags.port, port_file=flags.port_file, grace=1.0)
    servicer = Silent(flags.silent)
    server = Server(config, SERVICE, lambda s: scorer_pb2_grpc.add_ScorerServiceServicer_to_server(servicer, s))
    await server.start()
    await server.set_serving()
    await server.run_until_signal()


if __name__ == "__main__":
    asyncio.run(serve())
