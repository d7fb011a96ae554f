"""A set of keys in 25 bytes each, so that millions of samples fit where Python's dict would not."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterable

from lyncean.arrays import NDArray, np

_PAIR = struct.Struct("<QQ")
_USED = 0x80


class KeyTable:
    """Maps keys to a number and seven flag bits. Keys are held as 128-bit hashes, never removed.

    Open addressing over flat arrays: a million keys take 52 MB, a dict of the same takes 200.

    Args:
        expected: Keys for which there is to be room at once.
    """

    def __init__(self, expected: int = 0) -> None:
        self._count = 0
        self._allocate(1 << max(10, (3 * expected // 2).bit_length()))

    def __len__(self) -> int:
        return self._count

    def get(self, key: str) -> tuple[int, int] | None:
        """Returns (number, flags) of a key, None if it was never put."""
        return self.at(*digest(key))

    def at(self, low: int, high: int) -> tuple[int, int] | None:
        """Returns (number, flags) of the key with this hash, None if it was never put."""
        slot = self._find(low, high)
        flags = self._flags[slot]
        return (self._numbers[slot], flags & ~_USED) if flags else None

    def find(self, low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns the slot of each key with these hashes, -1 where it was never put; valid until the next `put`."""
        lows, highs = np.frombuffer(self._low, np.uint64), np.frombuffer(self._high, np.uint64)
        flags = np.frombuffer(self._flags, np.uint8)
        mask = np.uint64(len(lows) - 1)
        slots = (low & mask).astype(np.int64)
        left = np.arange(len(slots))
        while len(left):
            here = slots[left]
            there = flags[here] != 0
            slots[left[~there]] = -1
            left = left[there & ((lows[here] != low[left]) | (highs[here] != high[left]))]
            slots[left] = slots[left] + 1 & np.int64(mask)
        return slots

    def flags(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns the flags of the keys in some slots (`find`), 0 where there is none."""
        flags = np.frombuffer(self._flags, np.uint8)
        return np.where(slots < 0, 0, flags[slots] & ~np.uint8(_USED)).astype(np.uint8)

    def mark(self, slots: NDArray[np.int64], flags: int) -> None:
        """Sets flag bits of the keys in some slots."""
        np.frombuffer(self._flags, np.uint8)[slots] |= np.uint8(flags)

    def put(self, key: str, *, number: int | None = None, flags: int, mask: int = 0x7F) -> tuple[int, int] | None:
        """Sets the flag bits under `mask`, and the number if given; adds the key if new.

        Returns:
            (number, flags) as they were before, None for a new key.
        """
        low, high = digest(key)
        slot = self._find(low, high)
        before = (self._numbers[slot], self._flags[slot] & ~_USED) if self._flags[slot] else None
        if before is None:
            if 3 * self._count >= 2 * len(self._low):
                self._grow()
                slot = self._find(low, high)
            self._low[slot], self._high[slot] = low, high
            self._count += 1
        if number is not None:
            self._numbers[slot] = number
        self._flags[slot] = self._flags[slot] & ~mask | flags | _USED
        return before

    def _allocate(self, capacity: int) -> None:
        self._low = array("Q", [0]) * capacity
        self._high = array("Q", [0]) * capacity
        self._numbers = array("Q", [0]) * capacity
        self._flags = bytearray(capacity)

    def _find(self, low: int, high: int) -> int:
        mask = len(self._low) - 1
        slot = low & mask
        while self._flags[slot] and (self._low[slot] != low or self._high[slot] != high):
            slot = slot + 1 & mask
        return slot

    def _grow(self) -> None:
        old = (self._low, self._high, self._numbers, self._flags)
        self._allocate(2 * len(self._low))
        for low, high, number, flags in zip(*old, strict=True):
            if flags:
                slot = self._find(low, high)
                self._low[slot], self._high[slot] = low, high
                self._numbers[slot], self._flags[slot] = number, flags


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def digests(keys: Iterable[str]) -> bytes:
    """Returns the hashes of keys, 16 bytes each."""
    return b"".join(map(_digest, keys))


def digest(key: str) -> tuple[int, int]:
    """Returns a key's 128-bit hash as two numbers; the same on every machine."""
    low, high = _PAIR.unpack(_digest(key))
    return low, high


def shard_of(key: str, shards: int) -> int:
    """Returns which of `shards` a sample belongs to, from 0, by its key alone."""
    return digest(key)[1] % shards
