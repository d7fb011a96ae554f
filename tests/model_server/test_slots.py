"""So many calls at a time, and so many that wait."""

from __future__ import annotations

import asyncio

import pytest

from lyncean.rpc import Overloaded
from model_server.batching import Slots
from model_server.metrics import Metrics


@pytest.mark.parametrize("max_queue", [0, 1, 3])
async def test_no_more_wait_than_may_and_a_free_slot_is_always_given(max_queue: int) -> None:
    slots, done = Slots(2, max_queue, Metrics()), asyncio.Event()

    async def call() -> None:
        async with slots.slot():
            await done.wait()

    calls = [asyncio.create_task(call()) for _ in range(2 + max_queue)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match=rf"{max_queue} requests are waiting, the limit is {max_queue}"):
        await call()
    done.set()
    await asyncio.gather(*calls)
    await call()
