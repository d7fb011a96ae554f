"""The kubelet's gRPC probe, asked over stdin and answered over stdout, a JSON object a line."""

import asyncio
import json
import sys

from lyncean.rpc import dial, is_serving


async def main() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    tasks = set()

    async def probe(asked: dict[str, object]) -> None:
        channel = dial(str(asked["address"]))
        try:
            well = await is_serving(channel, str(asked["service"]), timeout=float(str(asked["timeout"])))
        finally:
            await channel.close()
        print(json.dumps({"id": asked["id"], "well": well}), flush=True)

    async for line in lines:
        task = asyncio.create_task(probe(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
