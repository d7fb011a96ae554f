"""Rows that join and leave a batch: what they say, when they say it, and where their keys stand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from lyncean.model.v1 import model_pb2 as model
from model_server.metrics import Metrics

torch = pytest.importorskip("torch")
from helpers.model_passes import count_forwards  # noqa: E402
from transformers import Cache, DynamicCache  # noqa: E402
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer  # noqa: E402

from model_server.hf.family import Prefill  # noqa: E402
from model_server.hf.slots import Slots  # noqa: E402


async def test_short_answers_come_and_go_beside_a_long_one(
    served: Any, hf: Any, ask: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Images of three tilings and a text meet; the library's loop would run each for as long as the longest."""
    shown = [picture(1, (28, 56)), picture(2, (90, 28)), picture(3, (56, 56))]
    messages = [ask(shown[0], "What is it?"), *(ask(shown[n % 3], f"Is it {n}?") for n in range(7)), ask("Say it.")]
    tokens = [60, 1, 2, 9, 3, 5, 4, 7, 2]
    sent = [
        model.GenerateRequest(messages=[message], config=model.GenerationConfig(max_output_tokens=count))
        for message, count in zip(messages, tokens, strict=True)
    ]
    metrics = Metrics()
    backend = hf("llava_next", metrics=metrics, max_batch=3, batch_wait=0.2)
    async with served(backend) as server:
        info = await server.info()
        assert info.properties["generate_batching"] == "continuous"
        alone = [await server.send(request) for request in sent]
        passes = count_forwards(backend, monkeypatch)
        ended: list[int] = []

        async def send(number: int) -> Any:
            reply = await server.send(sent[number])
            ended.append(number)
            return reply

        # The first three are a full batch, which starts at once, and none may join the end of the batch before.
        backend._batcher.wait = 60.0
        await asyncio.wrap_future(backend._batcher._thread.submit(int))
        together = await asyncio.gather(*map(send, range(len(sent))))
    assert [reply.parts for reply in together] == [reply.parts for reply in alone]
    assert [reply.usage.output_tokens for reply in together] == tokens
    assert ended[-1] == 0, "the long one ends last"
    assert len(passes) <= 59 + len(sent), "a pass for each prompt, and one for each token of the longest"


KEYS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(1, 90), min_size=1, max_size=3)),
        st.tuples(st.just("remove"), st.integers(0, 9)),
        st.tuples(st.just("next"), st.integers(1, 40)),
    ),
    max_size=12,
)


@settings(max_examples=40)
@given(KEYS)
def test_slots_hold_what_each_row_has_read(moves: list[tuple[str, Any]]) -> None:
    """Against a list of tensors for each row, with rows before them whose numbers are none."""
    generator = torch.Generator().manual_seed(0)
    slots, most = Slots(), 0
    rows: list[torch.Tensor] = []  # [tokens, dimension], keys of the second layer
    limits: list[int] = []  # tokens that each may have, the last of which is never read

    def drawn(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator)

    for move, argument in moves:
        if move == "add":
            padded, cache = max(argument), DynamicCache()
            mask = torch.tensor([[0] * (padded - length) + [1] * length for length in argument])
            keys = [drawn(len(argument), 2, padded, 3) for _ in range(4)]
            for layer in range(2):
                cache.update(keys[2 * layer], keys[2 * layer + 1], layer)
            state = Prefill(drawn(len(argument), 5), cache, mask, mask.sum(-1), {})
            kept = list(range(0, len(argument), 2))
            slots.add(state, kept, [argument[row] + 50 for row in kept])
            most = max([most, *(argument[row] + 50 for row in kept)])
            rows += [keys[2][row, 0, padded - argument[row] :] for row in kept]
            limits += [argument[row] + 50 for row in kept]
        elif move == "remove" and rows:
            slot = argument % len(rows)
            slots.cache.layers[1].keys[slot] = float("nan")
            last = slots.remove(slot)
            rows[slot], limits[slot] = rows[last], limits[last]
            rows.pop()
            limits.pop()
        elif move == "next" and rows:
            left = min(limit - 1 - len(row) for limit, row in zip(limits, rows, strict=True))
            for _ in range(min(argument, left)):
                visible, here, before = slots.next_token(torch.device("cpu"))
                keys = [drawn(len(rows), 2, 1, 3) for _ in range(2)]
                for layer in range(2):
                    seen, _ = slots.cache.update(*keys, layer)
                assert not seen.isnan().any()
                rows = [torch.cat([row, keys[0][slot, 0]]) for slot, row in enumerate(rows)]
                for slot, row in enumerate(rows):
                    assert torch.equal(seen[slot, 0, : len(row)], row)
                    assert visible[slot, 0].tolist() == [token < len(row) for token in range(seen.shape[2])]
                    assert (here[slot].tolist(), before.shape[1]) == ([len(row) - 1], seen.shape[2])
            assert slots.cache.layers[1].keys.shape[2] <= max(most, *map(len, rows)), "no longer than a row may become"


@settings(max_examples=25)
@given(st.lists(st.one_of(st.integers(1, 3), st.integers(-9, -1)), max_size=12))
def test_slots_hold_the_state_of_each_row(moves: list[int]) -> None:
    """A recurrent layer beside one of attention: rows join, change their states in place, and leave."""
    generator, slots, rows = torch.Generator().manual_seed(0), Slots(), list[torch.Tensor]()
    for move in moves:
        if move > 0:
            cache = Cache(layers=[LinearAttentionLayer(), DynamicLayer()])
            states = torch.rand((move, 4, 3), generator=generator)
            cache.update_conv_state(states, 0)
            cache.update_recurrent_state(states + 1, 0)
            cache.update(states[:, None], states[:, None], 1)
            state = Prefill(states, cache, torch.ones((move, 4)).long(), torch.full((move,), 4), {})
            kept = [move - 1, *range(move - 1)]
            slots.add(state, kept, [90] * move)
            rows += [states[row].clone() for row in kept]
        elif rows:
            slot = move % len(rows)
            rows[slot] = rows[slots.remove(slot)]
            rows.pop()
        if rows:
            for shown, more in ((slots.cache.get_conv_state(0), 0), (slots.cache.get_recurrent_state(0), 1)):
                assert torch.equal(shown, torch.stack(rows) + more)
                shown += 1  # as the model's next token
            rows = [row + 1 for row in rows]
