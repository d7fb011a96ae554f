"""Tries escapes in a server's sandbox, each in a conversation of its own, over the client that a run has.

    python escaping.py '{"address": "127.0.0.1:50053", "secret": FILE, "open": FILE, "server": PID, "names": [...]}'

Prints what is wrong by the names of escapes, as JSON: {} if all were refused. Needs nothing of pytest, so that it runs
in the network of a pod.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from helpers.escapes import ESCAPES, SECRET
from lyncean.rpc import Credentials
from lyncean.vocabulary.tool_results import result_sha256
from orchestrator.engine.resolve import parse_endpoints
from orchestrator.engine.tool_server import ToolServer
from orchestrator.tools.types import Picture, RemoteCall

CHARACTERS = 2000
OPTIONS = (
    "--seconds=0.2", "--wall-seconds=15", "--memory=128", f"--max-characters={CHARACTERS}", "--max-images=2",
    "--max-pixels=1048576", "--max-sessions=100",
)  # fmt: skip
"""Options of the sandbox that the attempts are written for."""


class Conversation:
    """One conversation with a sandbox."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._history: list[tuple[RemoteCall, int, bytes]] = []

    async def run(self, code: str) -> tuple[str, bool]:
        """Returns the text of a call, with "<image>" for each image, and whether it is an error."""
        call = RemoteCall(0, "python", json.dumps({"code": code}))
        async with self._server.slots:
            output = await self._server.make(call, (), self._history)
        pieces = [part.data if isinstance(part, Picture) else part.text for part in output.content]
        self._history.append((call, 0, result_sha256(pieces, output.is_error)))
        return "".join(piece if isinstance(piece, str) else "<image>" for piece in pieces), output.is_error


async def tried(address: str, secret: str, open: str, server: int, names: Sequence[str]) -> dict[str, str]:
    """Returns what is wrong, by escape.

    Args:
        address: The server's.
        secret: A file that its user alone may read, where it runs.
        open: A file that everybody may read and write.
        server: Its process, as it is numbered there.
        names: The escapes.
    """
    tools = ToolServer(*parse_endpoints([address]), Credentials(), timeout=120, patience=60, notify=print)
    await tools.connect()
    victim = Conversation(tools)
    await victim.run(
        f"secret = {SECRET!r}; open('mine.txt', 'w').write(secret); Image.new('L', (9, 9)).save('mine.png')"
    )
    # A result has the folder by another name.
    (about, _) = await victim.run("print(os.getpid(), os.getcwd()[::-1])")
    process, backwards = about.split()
    places = {"secret": secret, "open": open, "server": server, "other": process, "folder": backwards[::-1]}

    async def attempt(name: str) -> str:
        escape, attacker = ESCAPES[name], Conversation(tools)
        await attacker.run("kept = 1")
        text, is_error = await attacker.run(escape.written(2, **places))
        kept, _ = await attacker.run("'kept' in globals()")
        return escape.wrong(name, text, is_error, kept, CHARACTERS)

    failures = dict(zip(names, await asyncio.gather(*map(attempt, names)), strict=True))
    after, _ = await victim.run("print(os.getpid(), secret, open('mine.txt').read())")
    if after.split() != [process, SECRET, SECRET]:
        failures["the other session"] = after
    await tools.close()
    return {name: failure for name, failure in failures.items() if failure}


if __name__ == "__main__":
    request: dict[str, Any] = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(tried(**request))))
