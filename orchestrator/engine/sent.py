"""Files that a replica holds, as far as the client knows: they are sent by their hash alone."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError
from lyncean.rpc.errors import NOT_HELD
from orchestrator.engine.wire import Request

LEAST_BYTES = 8 * 1024
"""Smaller files are always sent: their bytes cost no more than a reference and its look-up (decision 69)."""
_ARRIVAL_SECONDS, _ARRIVAL_RATE = 0.05, 20e6
"""A file counts as there so many seconds after it was sent, and one more for so many bytes."""
_MOST_FILES = 1024
"""So many are remembered, in 0.3 MB: there may be a thousand replicas, and a file mostly comes again soon."""
_MISSES = 8
"""Refusals tolerated before files are always sent with their bytes."""
_HITS_FOR_A_MISS = 4


class SentFiles:
    """The files that one start of a replica was sent, those used last, as it holds them itself.

    It may be wrong either way: the replica then refuses, and gets the bytes. Where it refuses often, by being small,
    shared or several servers at one address, nothing is sent by its hash any more.

    Args:
        info: The replica's description.
        clock: Seconds, as `time.monotonic`.
    """

    def __init__(self, info: model.GetModelInfoResponse, clock: Callable[[], float] | None = None) -> None:
        claimed = model.CAPABILITY_MEDIA_BY_HASH in info.capabilities
        self._capacity = info.max_held_bytes if claimed else 0
        self._clock = clock or time.monotonic
        self._files: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._size = 0
        self._tries = self._misses = 0

    @property
    def capacity(self) -> int:
        """Bytes that the replica holds; 0 where files are always sent."""
        return self._capacity if self._misses <= _MISSES + self._tries // _HITS_FOR_A_MISS else 0

    def holds(self, sha256: bytes) -> bool:
        """Returns whether a file should be there by now."""
        return sha256 in self._files and self._files[sha256][1] <= self._clock()

    def sending(self, request: Request) -> set[bytes]:
        """Counts a request that is sent now; returns which of its files go by their hash alone."""
        held = set()
        now = self._clock()
        for sha256, size in request.files:
            if self.holds(sha256):
                held.add(sha256)
                self._files.move_to_end(sha256)
            elif sha256 not in self._files and size <= self._capacity:
                self._files[sha256] = size, now + _ARRIVAL_SECONDS + size / _ARRIVAL_RATE
                self._size += size
        while self._size > self._capacity or len(self._files) > _MOST_FILES:
            self._size -= self._files.popitem(last=False)[1][0]
        self._tries += bool(held)
        return held

    def answered(self, request: Request) -> None:
        """Counts the files of a request that was answered as there: the next call of a trajectory follows at once."""
        now = self._clock()
        for sha256, size in request.files if self._files else ():
            if sha256 in self._files and self._files[sha256][1] > now:
                self._files[sha256] = size, now

    def refused(self, error: CallError, request: Request) -> None:
        """Forgets the files that a replica says it does not hold; all of a request's where it names none of them."""
        self._misses += 1
        named = set(error.metadata.get("sha256", "").split(","))
        files = {sha256 for sha256, _ in request.files}
        for sha256 in {digest for digest in files if digest.hex() in named} or files:
            self._size -= self._files.pop(sha256, (0, 0.0))[0]


def not_held(error: CallError) -> bool:
    """Returns whether a replica refused a request because it does not hold its files."""
    return error.reason == NOT_HELD
