"""The null model: answers "B" at once. `ours` through lyncean.rpc, `bare` through grpc.aio alone.

`kept` is `bare` with the one setting of lyncean.rpc that makes gRPC itself faster: freed memory is kept.

With a number of calls after the port file, the model of `ours` calls a tool until it has made that many, and holds
files.

`http` speaks OpenAI's protocol as far as a client notices: it reads each request completely and ignores it.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean.rpc import MAX_MESSAGE_BYTES, Server, ServerConfig, Unsupported, keep_freed_memory
from model_server.batch_rpc import answer_batch

SERVED_BY = model.ServedBy(model_revision="1", boot_id="null")
"""Said in each answer, as our servers do: answers of a server that does not say it wait for a look."""
ANSWER = model.GenerateResponse(
    parts=[model.Part(text="B")],
    finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
    usage=model.Usage(input_tokens=600, output_tokens=1),
    served_by=SERVED_BY,
)
INFO = model.GetModelInfoResponse(
    model_name="null",
    model_revision=SERVED_BY.model_revision,
    boot_id=SERVED_BY.boot_id,
    capabilities=[model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT, model.CAPABILITY_BATCH],
    max_concurrency=32,
)


CALL = model.GenerateResponse(
    parts=[model.Part(tool_call=model.ToolCall(id="call_0", name="ready", arguments="{}"))],
    finish_reason=model.FINISH_REASON_TOOL_CALLS,
    usage=ANSWER.usage,
    served_by=SERVED_BY,
)
HOLDS = model.GetModelInfoResponse(max_held_bytes=1 << 30, capabilities=[model.CAPABILITY_MEDIA_BY_HASH])
TOOLS = [model.CAPABILITY_TOOLS, model.CAPABILITY_MULTI_IMAGE]
CALLING = model.GetModelInfoResponse(
    capabilities=TOOLS, tool_rendering=model.ToolRendering(images=model.TOOL_IMAGES_IN_RESULT)
)


class Null(model_pb2_grpc.ModelServiceServicer):
    """Answers at once.

    Args:
        calls: Requests that an answer takes; None where no tool is called and no file is held.
    """

    _turns = 1
    _info = INFO

    def __init__(self, calls: int | None = None) -> None:
        if calls:
            self._turns = 2 * calls - 1
            self._info = model.GetModelInfoResponse()
            for part in (INFO, HOLDS, CALLING):
                self._info.MergeFrom(part)

    async def GetModelInfo(self, request: Any, context: Any) -> model.GetModelInfoResponse:  # noqa: N802
        """Says what it is."""
        return self._info

    async def Generate(self, request: Any, context: Any) -> model.GenerateResponse:  # noqa: N802
        """Answers "B", once the calls are made."""
        return ANSWER if len(request.messages) >= self._turns else CALL

    async def Likelihood(self, request: Any, context: Any) -> model.LikelihoodResponse:  # noqa: N802
        """Not asked here."""
        raise Unsupported("no_likelihood", "the null model only generates")

    async def Batch(self, request: model.BatchRequest, context: Any) -> AsyncIterator[model.BatchResponse]:  # noqa: N802
        """Answers each call as Generate does."""
        async for response in answer_batch(self, request, context):
            yield response


COMPLETION = json.dumps(
    {
        "id": "null",
        "object": "chat.completion",
        "created": 0,
        "model": "null",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "B"}}],
        "usage": {"prompt_tokens": 600, "completion_tokens": 1, "total_tokens": 601},
    }
).encode()
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(COMPLETION),
    COMPLETION,
)


async def complete(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers the requests of one connection."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            writer.write(REPLY)
            await writer.drain()
    writer.close()


async def main(kind: str, port_file: Path, null: Null) -> None:
    """Serves until it is killed."""
    if kind == "ours":
        server = Server(
            ServerConfig(port_file=port_file),
            "lyncean.model.v1.ModelService",
            lambda s: model_pb2_grpc.add_ModelServiceServicer_to_server(null, s),
        )
        await server.start()
        await server.set_serving()
        await server.run_until_signal()
        return
    if kind == "http":
        http = await asyncio.start_server(complete, "127.0.0.1", 0, limit=1 << 20)
        port_file.write_text(str(http.sockets[0].getsockname()[1]))
        await http.serve_forever()
        return
    if kind == "kept":
        keep_freed_memory()
    bare = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)])
    model_pb2_grpc.add_ModelServiceServicer_to_server(null, bare)
    port = bare.add_insecure_port("127.0.0.1:0")
    await bare.start()
    port_file.write_text(str(port))
    await bare.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), Null(int(sys.argv[3]) if len(sys.argv) > 3 else None)))
