"""Continuous batching: a row that has ended leaves the batch at once, and a waiting one joins.

Prompts are prefilled in groups of one signature; afterwards rows of different tilings, clips and texts run together.
Used where `model_server.hf.selfcheck` has compared it with the library's loop at load; else `hf.generate` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from model_server.hf.batch import Features, prefill
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.family import attention
from model_server.hf.inputs import Prompt
from model_server.hf.rows import RowDecoder, SamplingRow
from model_server.hf.shared import places
from model_server.hf.slots import Slots

_PREFILL_TOKENS = 8192
"""Maximum tokens of prompts that are prefilled together, padding included; a single prompt may have more."""


@dataclass
class Entry:
    """A prompt and the row that continues it.

    Attributes:
        prompt: The prompt.
        row: The state of its decoding, with the request to answer.
        last: The next token to enter the cache.
        position: Its position.
    """

    prompt: Prompt
    row: SamplingRow
    last: int = 0
    position: int = 0


class Continuous:
    """Decodes rows together, each from its own position.

    Args:
        checkpoint: The model.
        features: Returns the replacement of some prompts' image inputs, if vision features are cached.
    """

    def __init__(self, checkpoint: Checkpoint, features: Features = lambda prompts: None) -> None:
        self._checkpoint = checkpoint
        self._decoder = RowDecoder(checkpoint.tokenizer, checkpoint.ends)
        self._features = features

    @torch.inference_mode()
    def run(self, entries: Sequence[Entry], join: Callable[[], Sequence[Entry]] = lambda: ()) -> None:
        """Runs rows, and those that join them, until none is left; answers each as it ends.

        Args:
            entries: The first rows.
            join: Returns rows that may join now; called after each token.
        """
        slots, running = Slots(), list[Entry]()
        waiting: Sequence[Entry] = entries
        while waiting or running:
            slots = slots if running else Slots()  # frees the memory of the last rows before the next prompts are read
            for group in self._groups(waiting):
                self._read(group, slots, running)
            if running:
                self._step(slots, running)
            waiting = join()

    def _read(self, group: Sequence[Entry], slots: Slots, running: list[Entry]) -> None:
        """Prefills each prompt once; rows that continue after their first token join those that run."""
        where = places([entry.prompt for entry in group])
        first = [where.index(number) for number in range(max(where) + 1)]
        prompts = [group[index].prompt for index in first]
        state = prefill(self._checkpoint, [prompt.inputs for prompt in prompts], self._features(prompts))
        for index, entry in enumerate(group):
            if first[where[index]] != index:
                entry.row.call.cached_tokens = len(entry.prompt.ids)
        chosen = self._decoder.choose([entry.row for entry in group], state.last[where].float())
        positions = state.next_position[where].tolist()
        for entry, token, position in zip(group, chosen, positions, strict=True):
            entry.last, entry.position = token, position
            self._advance(entry)
        going = [index for index, entry in enumerate(group) if not entry.row.over]
        if going:
            joining = [group[index] for index in going]
            most = [len(entry.prompt.ids) + entry.row.config.max_output_tokens for entry in joining]
            slots.add(state, [where[index] for index in going], most)
            running += joining

    def _step(self, slots: Slots, running: list[Entry]) -> None:
        """Feeds one token of each row and chooses the next."""
        device = self._checkpoint.device
        ids = torch.tensor([[entry.last] for entry in running], device=device)
        positions = torch.tensor([[entry.position] for entry in running], device=device)
        net = self._checkpoint.model
        mask = attention(net, *slots.next_token(device))
        logits = self._checkpoint.family.forward_text(net, slots.cache, ids, positions, mask)
        chosen = self._decoder.choose([entry.row for entry in running], logits[:, -1].float())
        for entry, token in zip(running, chosen, strict=True):
            entry.last, entry.position = token, entry.position + 1
            self._advance(entry)
        for index in range(len(running) - 1, -1, -1):
            if running[index].row.over:
                running[index] = running[slots.remove(index)]
                running.pop()

    def _advance(self, entry: Entry) -> None:
        if not entry.row.over:
            self._decoder.advance(entry.row, entry.last)

    def _groups(self, entries: Sequence[Entry]) -> Iterator[list[Entry]]:
        """Divides prompts into groups to prefill together: of one signature and similar length."""
        alike: dict[tuple[Any, ...], list[list[Entry]]] = {}
        for rows in self._by_prompt(entries):
            alike.setdefault(rows[0].prompt.signature, []).append(rows)
        for same in alike.values():
            group: list[list[Entry]] = []
            for rows in sorted(same, key=lambda rows: len(rows[0].prompt.ids)):
                length = len(rows[0].prompt.ids)
                padded = group and length - len(group[0][0].prompt.ids) > max(16, length // 4)
                if padded or (group and (len(group) + 1) * length > _PREFILL_TOKENS):
                    yield list(chain.from_iterable(group))
                    group = []
                group.append(rows)
            yield list(chain.from_iterable(group))

    @staticmethod
    def _by_prompt(entries: Sequence[Entry]) -> Iterable[list[Entry]]:
        """Returns the rows of each prompt; rows that share a prompt are outputs of one request."""
        by_prompt: dict[int, list[Entry]] = {}
        for entry in entries:
            if entry.row.call.over:
                entry.row.end()  # nobody waits for it any more
            else:
                by_prompt.setdefault(id(entry.prompt), []).append(entry)
        return by_prompt.values()
