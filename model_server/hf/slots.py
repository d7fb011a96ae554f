"""Keys, values and recurrent states of rows that run together: a slot for each, so that rows come and go one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin, DummyLayer, DynamicLayer, LinearAttentionLayer

from model_server.hf.family import Prefill

_CHUNK = 64
"""Tokens by which slots grow: each growth copies them."""


@dataclass
class _Next:
    """Where the next tokens go.

    Attributes:
        rows: How many rows run.
        width: Keys that the longest row has, the next token among them.
        places: The index of each row's next token: [rows].
    """

    rows: int = 0
    width: int = 0
    places: torch.Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))


class Slots:
    """The caches of the rows that run, each from the beginning of its slot, so that none is padded on the left.

    Slots are as many as rows, and no longer than the row that will be the longest: what `TokenBudget` counts.

    Attributes:
        lengths: Tokens in each row's slot.
        cache: What the model reads and writes, one token of each row at a time.
    """

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self.cache: Any = None
        self._most: list[int] = []
        self._next = _Next()

    def add(self, state: Prefill, rows: Sequence[int], most: Sequence[int]) -> None:
        """Takes rows of a prompt batch that the model has read.

        Args:
            state: The prompts. Their cache is emptied layer by layer, so that little is held twice.
            rows: Which of them.
            most: Most tokens that each will have.

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
                for place, (row, begin) in enumerate(zip(rows, begins, strict=True), first):
                    layer.put(place, old.keys[row, :, begin:], old.values[row, :, begin:])
            old.reset()

    def remove(self, row: int) -> int:
        """Frees a row's slot and moves the last row into it; returns which row that was."""
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
            What each sees, [rows, 1, width], bool; how many tokens are before each, [rows, 1], and before each of
            those that it may see, [1, width].
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
        """Returns what slots need for one more token of each row: how many, how long at least, and how long anew."""
        width = max(self.lengths) + 1
        return len(self.lengths), width, max(width, min(-(-width // _CHUNK) * _CHUNK, max(self._most)))


def _slots_for(layer: Any, padded: int, there: _Next) -> Any:
    """Returns empty slots for what a layer has read, prompts of so many tokens with their padding."""
    if type(layer) is LinearAttentionLayer:
        return _StateLayer(layer.number_of_states)
    if type(layer) is DummyLayer:
        return DummyLayer()  # type: ignore[no-untyped-call]
    if type(layer) is not DynamicLayer or layer.keys is None or layer.keys.shape[2] != padded:
        raise TypeError(f"a layer ({type(layer).__name__}) does not hold one token for each of the prompt's")
    return _SlotLayer(there)


class _StateLayer(LinearAttentionLayer):
    """A recurrent layer: its states, [slots, ...], of which the model sees those of the rows that run."""

    def __init__(self, number_of_states: int) -> None:
        super().__init__(number_of_states)
        self._slots: dict[tuple[str, int], torch.Tensor] = {}

    def add(self, read: LinearAttentionLayer, rows: Sequence[int], first: int) -> None:
        """Puts the states of rows that were read behind those of the first rows, which run."""
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
        """Moves the last row's states into another's place."""
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
            slots[row, :, new.shape[1] :] = 0  # what was there may be no number, which no mask hides

    def remove(self, row: int, last: int) -> None:
        """Moves the last row's slot into another's place."""
        if row != last:
            self.keys[row], self.values[row] = self.keys[last], self.values[last]

    def make_room(self, rows: int, width: int, capacity: int, *like: torch.Tensor) -> None:
        """Makes anew, of so many rows and so much capacity, slots that are fewer, or shorter than the width.

        Args:
            rows: Rows that run.
            width: Tokens of the longest, with the next.
            capacity: Tokens of a slot that is made anew.
            like: Keys and values, [batch, heads, tokens, dimension], by whose form the first slots are made.
        """
        if self.keys is None:
            self.keys, self.values = (each.new_zeros((0, each.shape[1], 0, each.shape[3])) for each in like)
        if rows > self.keys.shape[0] or width > self.keys.shape[2]:
            self.keys = _resized(self.keys, rows, capacity)
            self.values = _resized(self.values, rows, capacity)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes one token of each row, and returns all up to the longest row's end."""
        there = self._next
        if key_states.shape[0] != there.rows or key_states.shape[2] != 1:
            raise ValueError(f"slots take one token of each row, not {tuple(key_states.shape)}")
        rows, places = torch.arange(there.rows, device=key_states.device), there.places.to(key_states.device)
        self.keys[rows, :, places] = key_states[:, :, 0]
        self.values[rows, :, places] = value_states[:, :, 0]
        return self.keys[: there.rows, :, : there.width], self.values[: there.rows, :, : there.width]

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Does nothing: a prompt comes first."""

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Returns how many tokens a mask covers, and from which on."""
        return self._next.width, 0

    def get_seq_length(self) -> int:
        """Returns the tokens before the one that is read, in the longest row."""
        return max(0, self._next.width - 1)

    def get_max_length(self) -> int:
        """Returns -1: slots grow as they need."""
        return -1


def _resized(value: torch.Tensor, rows: int, capacity: int) -> torch.Tensor:
    resized = value.new_zeros((rows, value.shape[1], capacity, value.shape[3]))
    kept, tokens = min(rows, value.shape[0]), min(capacity, value.shape[2])
    resized[:kept, :, :tokens] = value[:kept, :, :tokens]
    return resized
