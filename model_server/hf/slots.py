"""Keys, values and recurrent states of rows that run together: one slot per row, so that rows join and leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin, DummyLayer, DynamicLayer, LinearAttentionLayer

from model_server.hf.family import Prefill

_CHUNK = 64
"""Tokens by which slots grow; each growth copies them."""


@dataclass
class _Next:
    """The position of each row's next token.

    Attributes:
        rows: Number of running rows.
        width: Keys of the longest row, its next token included.
        places: The index of each row's next token: [rows].
    """

    rows: int = 0
    width: int = 0
    places: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))


class Slots:
    """The caches of the running rows, each from the beginning of its slot, so that none is padded on the left.

    There are as many slots as rows, no longer than the longest row will become: the size that `TokenBudget` counts.

    Attributes:
        lengths: Tokens in each row's slot.
        cache: The cache that the model reads and writes, one token of each row at a time.
    """

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.cache: Any = None
        self._most: list[int] = []
        self._next = _Next()

    def add(self, state: Prefill, rows: Sequence[int], most: Sequence[int]) -> None:
        """Copies rows of a prefilled batch of prompts into slots.

        Args:
            state: The prompts. Their cache is emptied layer by layer, so that little is held twice.
            rows: Indices of the rows in the batch.
            most: Maximum tokens that each row will have.

        Raises:
            TypeError: The model's cache has layers of another kind: windows, or images apart from the text.
        """
        read, padded = state.cache.layers, state.mask.shape[1]
        new = [_slots_for(layer, padded, self._next) for layer in read]
        if self.cache is None:
            self.cache = Cache(layers=new)
        first, lengths = len(self.lengths), state.mask.sum(-1).tolist()
        self.lengths += [lengths[row] for row in rows]
        self._most += most
        shape = self._shape()
        begins = [padded - lengths[row] for row in rows]
        for layer, old in zip(self.cache.layers, read, strict=True):
            if isinstance(layer, _StateLayer):
                layer.add(old, rows, first)
            elif isinstance(layer, _SlotLayer):
                layer.make_room(*shape, old.keys, old.values)
                for slot, (row, begin) in enumerate(zip(rows, begins, strict=True), first):
                    layer.put(slot, old.keys[row, :, begin:], old.values[row, :, begin:])
            old.reset()

    def remove(self, row: int) -> int:
        """Frees a row's slot and moves the last row into it; returns that row's index."""
        last = len(self.lengths) - 1
        for layer in self.cache.layers:
            if not isinstance(layer, DummyLayer):
                layer.remove(row, last)
        if row != last:
            self.lengths[row], self._most[row] = self.lengths[last], self._most[last]
        self.lengths.pop()
        self._most.pop()
        return last

    def next_token(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Makes room for one more token of each row.

        Returns:
            The mask of the keys that each token sees, [rows, 1, width], bool; the number of tokens before each token,
            [rows, 1], and before each key, [1, width].
        """
        shape = self._shape()
        for layer in self.cache.layers:
            if isinstance(layer, _SlotLayer):
                layer.make_room(*shape)
        there = self._next
        there.rows, there.width, there.places = len(self.lengths), max(self.lengths) + 1, torch.tensor(self.lengths)
        there.places = there.places.to(device)
        self.lengths = [length + 1 for length in self.lengths]
        keys = torch.arange(there.width, device=device)
        return keys[None, None] <= there.places[:, None, None], there.places[:, None], keys[None]

    def _shape(self) -> tuple[int, int, int]:
        """Returns the slots that one more token per row needs: their number, least length, and length to grow to."""
        width = max(self.lengths) + 1
        return len(self.lengths), width, max(width, min(-(-width // _CHUNK) * _CHUNK, max(self._most)))


def _slots_for(layer: Any, padded: int, there: _Next) -> Any:
    """Returns empty slots for a layer that has read prompts of `padded` tokens each, padding included."""
    if type(layer) is LinearAttentionLayer:
        return _StateLayer(layer.number_of_states)
    if type(layer) is DummyLayer:
        return DummyLayer()  # type: ignore[no-untyped-call]
    if type(layer) is not DynamicLayer or layer.keys is None or layer.keys.shape[2] != padded:
        raise TypeError(f"a layer ({type(layer).__name__}) does not hold one token for each of the prompt's")
    return _SlotLayer(there)


class _StateLayer(LinearAttentionLayer):
    """A recurrent layer: states are [slots, ...]; the model sees those of the running rows."""

    def __init__(self, number_of_states: int) -> None:
        super().__init__(number_of_states)
        self._slots: dict[tuple[str, int], torch.Tensor] = {}

    def add(self, read: LinearAttentionLayer, rows: Sequence[int], first: int) -> None:
        """Appends the states of prefilled rows to those of the first rows, which are running."""
        count = first + len(rows)
        for index in range(self.number_of_states):
            self.has_previous_state[index] = read.has_previous_state[index]
            self.conv_kernel_size[index] = read.conv_kernel_size[index]
            self.is_conv_states_initialized[index] = read.is_conv_states_initialized[index]
            self.is_recurrent_states_initialized[index] = read.is_recurrent_states_initialized[index]
            for name in ("conv_states", "recurrent_states"):
                if (states := getattr(read, name)[index]) is not None:
                    self._put(name, index, states[list(rows)], first)
        self.device, self.dtype = read.device, read.dtype
        self._show(count)

    def _put(self, name: str, index: int, states: torch.Tensor, first: int) -> None:
        slots = self._slots.get((name, index))
        if slots is None or slots.shape[0] < first + len(states):
            larger = states.new_empty((first + len(states), *states.shape[1:]))
            if slots is not None:
                larger[:first] = slots[:first]
            slots = self._slots[name, index] = larger
        slots[first : first + len(states)] = states

    def remove(self, row: int, last: int) -> None:
        """Overwrites a row's states by the last row's."""
        for slots in self._slots.values():
            if row != last:
                slots[row] = slots[last]
        self._show(last)

    def _show(self, rows: int) -> None:
        """Lets the model read and write, in place, the states of so many rows."""
        for (name, index), slots in self._slots.items():
            getattr(self, name)[index] = slots[:rows]


class _SlotLayer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer: keys and values are [slots, heads, capacity, dimension], zero where no token was written."""

    is_sliding = False
    keys: Any
    values: Any

    def __init__(self, there: _Next) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._next = there

    def put(self, row: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Writes a prompt, [heads, tokens, dimension], into a slot."""
        for slots, new in ((self.keys, keys), (self.values, values)):
            slots[row, :, : new.shape[1]] = new
            slots[row, :, new.shape[1] :] = 0  # stale slots may hold NaN, and masking does not remove NaN

    def remove(self, row: int, last: int) -> None:
        """Overwrites a row's slot by the last row's."""
        if row != last:
            self.keys[row], self.values[row] = self.keys[last], self.values[last]

    def make_room(self, rows: int, width: int, capacity: int, *like: torch.Tensor) -> None:
        """Reallocates the slots if they are fewer than the rows or shorter than the width.

        Args:
            rows: Number of running rows.
            width: Tokens of the longest row, its next token included.
            capacity: Tokens of a reallocated slot.
            like: Keys and values, [batch, heads, tokens, dimension], whose shape and dtype the first slots take.
        """
        if self.keys is None:
            self.keys, self.values = (example.new_zeros((0, example.shape[1], 0, example.shape[3])) for example in like)
        if rows > self.keys.shape[0] or width > self.keys.shape[2]:
            self.keys = _resized(self.keys, rows, capacity)
            self.values = _resized(self.values, rows, capacity)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes one token of each row; returns keys and values up to the end of the longest row."""
        there = self._next
        if key_states.shape[0] != there.rows or key_states.shape[2] != 1:
            raise ValueError(f"slots take one token of each row, not {tuple(key_states.shape)}")
        rows, places = torch.arange(there.rows, device=key_states.device), there.places.to(key_states.device)
        self.keys[rows, :, places] = key_states[:, :, 0]
        self.values[rows, :, places] = value_states[:, :, 0]
        return self.keys[: there.rows, :, : there.width], self.values[: there.rows, :, : there.width]

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Does nothing: `add` has allocated the slots."""

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Returns the number of keys that a mask covers, and the first one's index."""
        return self._next.width, 0

    def get_seq_length(self) -> int:
        """Returns the number of tokens before the next one in the longest row."""
        return max(0, self._next.width - 1)

    def get_max_length(self) -> int:
        """Returns -1: slots grow as needed."""
        return -1


def _resized(value: torch.Tensor, rows: int, capacity: int) -> torch.Tensor:
    resized = value.new_zeros((rows, value.shape[1], capacity, value.shape[3]))
    kept, tokens = min(rows, value.shape[0]), min(capacity, value.shape[2])
    resized[:kept, :, :tokens] = value[:kept, :, :tokens]
    return resized
