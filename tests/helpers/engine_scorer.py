"""A scorer that is still loading, as a process: it says so to ListRules for as long as the file --loading is there.

Each call of ListRules is a line of --log.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

from lyncean.rpc import Server, ServerConfig, Unavailable
from lyncean.scorer.v1 import scorer_pb2 as scorer, scorer_pb2_grpc

SERVICE = "lyncean.scorer.v1.ScorerService"


class Loading(scorer_pb2_grpc.ScorerServiceServicer):
    def __init__(self, flags: argparse.Namespace) -> None:
        self.loading: Path = flags.loading
        self.log = flags.log.open("a", buffering=1)

    async def ListRules(self, request: Any, context: Any) -> scorer.ListRulesResponse:  # noqa: N802
        self.log.write("asked\n")
        if self.loading.exists():
            raise Unavailable("loading", "the rules are being loaded")
        return scorer.ListRulesResponse(scorer_version="loaded")


async def serve() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    for name in ("--port-file", "--loading", "--log"):
        parser.add_argument(name, type=Path)
    flags = parser.parse_args()
    config = ServerConfig(port=flags.port, port_file=flags.port_file, grace=1.0)
    servicer = Loading(flags)
    server = Server(config, SERVICE, lambda s: scorer_pb2_grpc.add_ScorerServiceServicer_to_server(servicer, s))
    await server.start()
    await server.run_until_signal()


if __name__ == "__main__":
    asyncio.run(serve())
