"""Cluster DNS for the pods: A records over UDP, from a table that stdin replaces, a JSON object a line."""

import asyncio
import json
import random
import struct
import sys

_A, _NO_SUCH_NAME = 1, 3
table: dict[str, list[str]] = {}


def answer(query: bytes) -> bytes:
    """Returns the answer to one query; a name without an address of the wanted kind has no records."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
        at += 1 + query[at]
    question = query[12 : at + 5]
    (kind,) = struct.unpack_from("!H", query, at + 1)
    name = ".".join(labels).lower()
    addresses = list(table.get(name, ())) if kind == _A else []
    random.shuffle(addresses)
    flags = 0x8580 | (0 if name in table else _NO_SUCH_NAME)
    head = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
    records = b"".join(
        b"\xc0\x0c" + struct.pack("!HHIH4B", _A, 1, 1, 4, *map(int, address.split("."))) for address in addresses
    )
    return head + question + records


class Server(asyncio.DatagramProtocol):
    """Answers each query that arrives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the socket."""
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answers."""
        self.transport.sendto(answer(data), addr)  # type: ignore[attr-defined]


async def main() -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(Server, local_addr=(sys.argv[1], 53))
    lines = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    async for line in lines:
        table.clear()
        table.update(json.loads(line))


asyncio.run(main())
