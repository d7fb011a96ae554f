"""A stand-in for vLLM over several nodes: the leader serves an OpenAI-compatible API once its workers have joined."""

import asyncio
import os
import socket
import sys

from aiohttp import web

PORT = 29501
options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
assert (options["nnodes"], options["node-rank"]) == (os.environ["LWS_GROUP_SIZE"], os.environ["LWS_WORKER_INDEX"])


def work() -> None:
    """Joins the leader, and ends with it."""
    while True:
        try:
            connection = socket.create_connection((options["master-addr"], PORT), 5)
            break
        except OSError as error:
            print(error, flush=True)
    print("joined", flush=True)
    connection.settimeout(None)
    sys.exit(f"the leader has ended: {connection.recv(1)!r}")


async def lead() -> None:
    """Serves while all workers are there."""
    joined, left = asyncio.Semaphore(0), asyncio.Event()

    async def join(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        joined.release()
        await reader.read()
        left.set()

    async with await asyncio.start_server(join, "0.0.0.0", PORT):
        for _ in range(int(options["nnodes"]) - 1):
            await joined.acquire()

        async def complete(_: web.Request) -> web.Response:
            choice = {"index": 0, "message": {"role": "assistant", "content": "A"}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            head = {"id": "1", "object": "chat.completion", "created": 0, "model": options["model"]}
            return web.json_response({**head, "choices": [choice], "usage": usage})

        async def models(_: web.Request) -> web.Response:
            card = {"id": options["model"], "object": "model", "created": 0, "owned_by": "vllm"}
            return web.json_response({"object": "list", "data": [card]})

        async def health(_: web.Request) -> web.Response:
            return web.Response()

        app = web.Application(client_max_size=2**28)
        app.router.add_get("/health", health)
        app.router.add_get("/v1/models", models)
        app.router.add_post("/v1/chat/completions", complete)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, options["host"], int(options["port"])).start()
        await left.wait()
    sys.exit("a worker has ended")


if "headless" in options:
    work()
else:
    asyncio.run(lead())
