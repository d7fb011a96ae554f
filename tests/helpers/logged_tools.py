"""`tool-server` that logs each call which it answered: `python tests/helpers/logged_tools.py LOG serve FILE.py ...`.

A line has the hash of the call with its history, and how many earlier calls were made again for it.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import tool_server.serve
from lyncean.tool.v1 import tool_pb2 as pb
from tool_server.cli import main
from tool_server.service import Servicer

LOG = Path(sys.argv.pop(1))


class Logged(Servicer):
    async def CallTool(self, request: pb.CallToolRequest, context: Any) -> pb.CallToolResponse:  # noqa: N802
        response = await super().CallTool(request, context)
        images = [hashlib.sha256(image.data).hexdigest() for image in request.images]
        call = repr(
            (request.name, request.arguments, images, [earlier.SerializeToString() for earlier in request.history])
        )
        with LOG.open("a") as log:
            log.write(f"{hashlib.sha256(call.encode()).hexdigest()} {response.replayed}\n")
        return response


if __name__ == "__main__":
    tool_server.serve.Servicer = Logged  # type: ignore[misc]
    main()
