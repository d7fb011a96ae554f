"""A model server that does what a test asks of it, as a process: `python engine_server.py FLAGS`.

Its answer to row N is the letter of N modulo 4 (right) or of a digest (--weights other than 1).
Every call that it answers is a line of --log.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean.rpc import (
    InternalFailure,
    InvalidRequest,
    OutOfRange,
    Overloaded,
    Server,
    ServerConfig,
    Unavailable,
    Unsupported,
)
from model_server.batch_rpc import answer_batch

SERVICE = "lyncean.model.v1.ModelService"


class Model(model_pb2_grpc.ModelServiceServicer):
    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.calls: Counter[str] = Counter()
        self.busy = 0
        self.refused = 0.0
        self.log = flags.log.open("a", buffering=1) if flags.log else None
        self.served_by = model.ServedBy(model_revision=flags.weights, boot_id=secrets.token_hex(8))

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        capabilities = [model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT]
        if not self.flags.no_likelihood:
            capabilities.append(model.CAPABILITY_LIKELIHOOD)
        if self.flags.batch:
            capabilities.append(model.CAPABILITY_BATCH)
        return model.GetModelInfoResponse(
            model_name="toy-model",
            model_revision=self.flags.weights,
            capabilities=capabilities,
            max_concurrency=self.flags.concurrency,
            boot_id=self.served_by.boot_id,
        )

    async def Generate(self, request: model.GenerateRequest, context: Any) -> model.GenerateResponse:  # noqa: N802
        text = " ".join(part.text for message in request.messages for part in message.parts)
        match = re.search(r"row (\S+):", text)
        assert match
        row = match[1] + ("/2" if "sure?" in text else "")
        await self._misbehave(row)
        if self.log:
            self.log.write(f"{row}\n")
        answer = model.GenerateResponse(finish_reason=model.FINISH_REASON_END_OF_SEQUENCE, served_by=self.served_by)
        if self.flags.empty and int(match[1]) % self.flags.empty == 0:
            answer.parts.add(text="")
            return answer
        if self.flags.filtered and int(match[1]) % self.flags.filtered == 0:
            answer.finish_reason = model.FINISH_REASON_CONTENT_FILTER
        number = int(match[1]) if match[1].isdigit() else 0
        if number % 3 == 0:
            number = hashlib.sha256(row.encode()).digest()[0]
        answer.usage.CopyFrom(model.Usage(input_tokens=10, output_tokens=1))
        answer.parts.add(text="ABCD"[number % 4])
        return answer

    async def Likelihood(self, request: model.LikelihoodRequest, context: Any) -> model.LikelihoodResponse:  # noqa: N802
        if self.flags.no_likelihood:
            raise Unsupported("no_likelihood", "this server does not score continuations")
        scores = [
            model.ContinuationScore(logprob=-len(continuation) - index / 10, token_count=1)
            for index, continuation in enumerate(request.continuations)
        ]
        return model.LikelihoodResponse(scores=scores, served_by=self.served_by)

    async def Batch(self, request: model.BatchRequest, context: Any) -> AsyncIterator[model.BatchResponse]:  # noqa: N802
        assert len(request.calls) > 1, "a call by itself needs no Batch"
        print(f"Batch of {len(request.calls)}", flush=True)
        how = self.flags.break_batch
        if how == "absent":
            raise Unsupported("no_batch", "this server has no Batch after all")
        async for response in answer_batch(self, request, context):
            yield response
            if how == "abort":
                raise InvalidRequest("broken", "the Batch breaks")
            if how == "short":
                return

    async def _misbehave(self, row: str) -> None:
        flags = self.flags
        self.calls[row] += 1
        draw = hashlib.sha256(f"{row}|{self.calls[row]}".encode()).digest()[0] / 256
        if self.busy >= flags.queue:
            raise Overloaded("queue_full", "the queue is full")
        if self.refused:
            print(f"{time.monotonic() - self.refused:.3f} s after a pause began", flush=True)
            self.refused = 0.0
        elif flags.pause and self.calls.total() % 20 == 0:
            self.refused = time.monotonic()
            raise Overloaded("queue_full", "the queue is full", retry_after=flags.pause)
        self.busy += 1
        try:
            await asyncio.sleep(flags.delay)
        finally:
            self.busy -= 1
        if draw < flags.flaky:
            raise Unavailable("flaky", "try again") if draw < flags.flaky / 2 else InternalFailure("flaky", "oops")
        number = int(row.partition("/")[0]) if row.partition("/")[0].isdigit() else -1
        if flags.too_long and number % flags.too_long == 0:
            raise OutOfRange("context_overflow", "the prompt is beyond the context")
        if flags.broken and number % flags.broken == 0:
            raise InternalFailure("broken", "it never works")
        if number < 0:
            raise InvalidRequest("bad_row", "no number")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--port-file", type=Path)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--weights", default="1")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--flaky", type=float, default=0.0)
    parser.add_argument("--queue", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--too-long", type=int, default=0)
    parser.add_argument("--broken", type=int, default=0)
    parser.add_argument("--empty", type=int, default=0)
    parser.add_argument("--filtered", type=int, default=0)
    parser.add_argument("--no-likelihood", action="store_true")
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--break-batch", choices=("abort", "short", "absent"))
    parser.add_argument("--max-connection-age", type=float)
    parser.add_argument("--token-file", type=Path)
    return parser.parse_args()


async def serve(flags: argparse.Namespace) -> None:
    config = ServerConfig(
        host=flags.host,
        port=flags.port,
        port_file=flags.port_file,
        grace=5.0,
        max_connection_age=flags.max_connection_age,
        token=flags.token_file.read_text() if flags.token_file else None,
    )
    servicer = Model(flags)
    server = Server(config, SERVICE, lambda s: model_pb2_grpc.add_ModelServiceServicer_to_server(servicer, s))
    await server.start()
    await server.set_serving()
    await server.run_until_signal()


if __name__ == "__main__":
    asyncio.run(serve(parse()))
