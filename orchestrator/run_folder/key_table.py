"""A set of keys in 29 bytes each, so that millions of samples fit where Python's dict would not."""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Iterable
from functools import lru_cache

from lyncean.arrays import NDArray, np

_PAIR = struct.Struct("<QQ")
_USED = 0x80
_BLOCK = 1 << 16
_LATEST = 2048
"""Keys whose hash is remembered: a key is looked up five times between its planning and its verdict."""


class KeyTable:
    """Maps keys to a number, a checksum and seven flag bits. Keys are held as 128-bit hashes, never removed.

    Linear probing over flat arrays: a million keys take 44 MB, a dict of the same takes 200.
    Since no key is removed, a probe stops at the first free slot.

    Args:
        expected: Keys for which there is to be room at once.
    """

    def __init__(self, expected: int = 0) -> None:
        self._count = 0
        self._allocate(max(1 << 10, 3 * expected // 2 + 2))

    def __len__(self) -> int:
        return self._count

    def get(self, key: str) -> tuple[int, int] | None:
        """Returns (number, flags) of a key, None if it was never put."""
        slot = self._find(*digest(key))
        flags = self._flags[slot]
        return (self._numbers[slot], flags & ~_USED) if flags else None

    def check(self, key: str) -> int:
        """Returns the checksum of a key, 0 if none was put."""
        return self._checks[self._find(*digest(key))]

    def checks(self, slots: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Returns the checksums of the keys in some slots (`find`), 0 for slot -1."""
        return np.where(slots < 0, 0, np.frombuffer(self._checks, np.uint32)[slots]).astype(np.uint32)

    def find(self, low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns the slot of each key with these hashes, -1 if it was never put; valid until the next `put`."""
        lows, highs = np.frombuffer(self._low, np.uint64), np.frombuffer(self._high, np.uint64)
        flags = np.frombuffer(self._flags, np.uint8)
        size = len(lows)
        slots = (low % np.uint64(size)).astype(np.int64)
        left = np.arange(len(slots))
        # Each round moves all unresolved keys one slot on: as many rounds as the longest probe, not as many as keys.
        while len(left):
            here = slots[left]
            there = flags[here] != 0
            slots[left[~there]] = -1
            left = left[there & ((lows[here] != low[left]) | (highs[here] != high[left]))]
            slots[left] = (slots[left] + 1) % size
        return slots

    def flags(self, slots: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Returns the flags of the keys in some slots (`find`), 0 for slot -1."""
        flags = np.frombuffer(self._flags, np.uint8)
        return np.where(slots < 0, 0, flags[slots] & ~np.uint8(_USED)).astype(np.uint8)

    def mark(self, slots: NDArray[np.int64], flags: int) -> None:
        """Sets flag bits of the keys in some slots."""
        np.frombuffer(self._flags, np.uint8)[slots] |= np.uint8(flags)

    def unset(self, flags: int) -> None:
        """Clears flag bits of all keys."""
        table = np.frombuffer(self._flags, np.uint8)
        table &= np.uint8(~flags & 0xFF)

    def any(self, flags: int, mask: int) -> bool:
        """Returns whether any key's flag bits under `mask` equal `flags`."""
        return bool((np.frombuffer(self._flags, np.uint8) & np.uint8(mask | _USED) == np.uint8(flags | _USED)).any())

    def clear(self, flags: int, mask: int) -> None:
        """Clears the flag bits under `mask` of the keys for which they equal `flags`."""
        table = np.frombuffer(self._flags, np.uint8)
        table[(table & np.uint8(mask)) == np.uint8(flags)] &= np.uint8(~mask & 0xFF)

    def put(
        self, key: str, *, number: int | None = None, check: int | None = None, flags: int, mask: int = 0x7F
    ) -> tuple[int, int] | None:
        """Sets the flag bits under `mask`, and number and checksum if given; adds the key if new.

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
        if check is not None:
            self._checks[slot] = check
        self._flags[slot] = self._flags[slot] & ~mask | flags | _USED
        return before

    def put_all(
        self,
        low: NDArray[np.uint64],
        high: NDArray[np.uint64],
        *,
        numbers: NDArray[np.uint64] | None = None,
        checks: NDArray[np.uint32] | None = None,
        flags: NDArray[np.uint8],
        mask: int = 0x7F,
    ) -> None:
        """Does what `put` does for each key with these hashes in turn; arguments of shape [keys]."""
        slots = self.find(low, high)
        new = slots < 0
        if new.any():
            added = int(np.count_nonzero(new))
            # As `put`, which grows before it adds a key to a table that is two thirds full.
            if 3 * (self._count + added - 1) >= 2 * len(self._low):
                while 3 * (self._count + added - 1) >= 2 * len(self._low):
                    self._grow()
                slots = self.find(low, high)
            slots[new] = self._add(low[new], high[new])
        # Of several values for one slot the last stays.
        if numbers is not None:
            np.frombuffer(self._numbers, np.uint64)[slots] = numbers
        if checks is not None:
            np.frombuffer(self._checks, np.uint32)[slots] = checks
        table = np.frombuffer(self._flags, np.uint8)
        table[slots] = table[slots] & np.uint8(~mask & 0xFF) | flags | np.uint8(_USED)

    def _add(self, low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Adds keys that are not in the table, which has room, and returns their slots; one may be there twice."""
        lows, highs = np.frombuffer(self._low, np.uint64), np.frombuffer(self._high, np.uint64)
        flags = np.frombuffer(self._flags, np.uint8)
        size = len(lows)
        slots = (low % np.uint64(size)).astype(np.int64)
        left = np.arange(len(slots))
        while len(left):
            free = left[flags[slots[left]] == 0]
            # Of several keys that want one slot the first takes it.
            taken, first = np.unique(slots[free], return_index=True)
            lows[taken], highs[taken], flags[taken] = low[free[first]], high[free[first]], _USED
            self._count += len(taken)
            left = left[(lows[slots[left]] != low[left]) | (highs[slots[left]] != high[left])]
            slots[left] = (slots[left] + 1) % size
        return slots

    def _allocate(self, capacity: int) -> None:
        self._low = array("Q", [0]) * capacity
        self._high = array("Q", [0]) * capacity
        self._numbers = array("Q", [0]) * capacity
        self._checks = array("I", [0]) * capacity
        self._flags = bytearray(capacity)

    def _find(self, low: int, high: int) -> int:
        size = len(self._low)
        slot = low % size
        while self._flags[slot] and (self._low[slot] != low or self._high[slot] != high):
            slot = (slot + 1) % size
        return slot

    def _grow(self) -> None:
        old = (self._low, self._high, self._numbers, self._flags)
        checks = self._checks
        self._allocate(2 * len(self._low))
        self._count = 0
        # Block by block: copies of all columns at once would add half of the table's memory.
        for start in range(0, len(old[0]), _BLOCK):
            used = np.flatnonzero(np.frombuffer(old[3], np.uint8)[start : start + _BLOCK]) + start
            low, high, numbers = (np.frombuffer(column, np.uint64)[used] for column in old[:3])
            slots = self._add(low, high)
            np.frombuffer(self._numbers, np.uint64)[slots] = numbers
            np.frombuffer(self._checks, np.uint32)[slots] = np.frombuffer(checks, np.uint32)[used]
            np.frombuffer(self._flags, np.uint8)[slots] = np.frombuffer(old[3], np.uint8)[used]


def digests(keys: Iterable[bytes]) -> NDArray[np.uint64]:
    """Returns the hashes of keys in UTF-8: shape [keys, 2], the low half of each before the high one."""
    joined = b"".join([hashlib.blake2b(key, digest_size=16).digest() for key in keys])
    return np.frombuffer(joined, "<u8").reshape(-1, 2)


@lru_cache(maxsize=_LATEST)
def digest(key: str) -> tuple[int, int]:
    """Returns a key's 128-bit hash as two numbers; the same on every machine."""
    low, high = _PAIR.unpack(hashlib.blake2b(key.encode(), digest_size=16).digest())
    return low, high


def shard_of(key: str, shards: int) -> int:
    """Returns the number of a sample's shard, from 0, by its key alone."""
    return digest(key)[1] % shards
