"""The kubelet's probes, gRPC and HTTP, asked over stdin and answered over stdout, a JSON object a line."""

import asyncio
import json
import sys
import urllib.request
from typing import Any

from lyncean.rpc import dial, is_serving


def get(url: str, timeout: float) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return 200 <= answer.status < 400
    except OSError:
        return False


async def well(request: dict[str, Any]) -> bool:
    timeout = float(request["timeout"])
    if "url" in request:
        return await asyncio.to_thread(get, request["url"], timeout)
    channel = dial(request["address"])
    try:
        return await is_serving(channel, request["service"], timeout=timeout)
    finally:
        await channel.close()


async def main() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    tasks = set()

    async def probe(request: dict[str, Any]) -> None:
        print(json.dumps({"id": request["id"], "well": await well(request)}), flush=True)

    async for line in lines:
        task = asyncio.create_task(probe(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
