"""Media files that requests may send by hash only: verified on arrival, cached, and filled in again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

from lyncean.lru import LruCache
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.errors import InvalidRequest, NotHeld, Unsupported

_DIGEST_BYTES = 32
_LONG = 256 * 1024
"""Size in bytes from which hashing takes longer than handing over to a thread."""

Medium = model.Image | model.Audio | model.Video


class HeldMedia:
    """An LRU cache of files by SHA-256. Safe for several threads and event loops.

    Args:
        capacity: Bytes of all files together; 0 disables the cache.
        limit: Bytes of all files of one request or Batch, sent by hash or not.
    """

    def __init__(self, capacity: int, limit: int) -> None:
        self.capacity = capacity
        self._limit = limit
        self._files = LruCache[bytes, bytes](capacity)

    async def fill(self, media: Sequence[Medium]) -> None:
        """Fills in the bytes of files sent by hash, and caches files sent with both.

        Afterwards every `sha256` that is set matches the `data` next to it.

        Args:
            media: The files of a request that have a hash.

        Raises:
            InvalidRequest: If a hash does not match its bytes, or the filled-in files exceed the limit.
            NotHeld: If files are not cached; names them.
            Unsupported: If this server caches no files.
        """
        if not media:
            return
        if not self.capacity:
            if not all(medium.data for medium in media):
                raise Unsupported("no_media_by_hash", "files are not held here: send their bytes")
            for medium in media:
                medium.ClearField("sha256")
            return
        brought: dict[bytes, bytes] = {}
        for medium in media:
            if len(medium.sha256) != _DIGEST_BYTES:
                raise InvalidRequest("bad_sha256", f"a sha256 has {len(medium.sha256)} bytes: it has {_DIGEST_BYTES}")
            if data := medium.data:
                if not await self._matches(medium.sha256, data):
                    raise InvalidRequest("hash_mismatch", "the bytes of a file have another SHA-256 than is said")
                brought[medium.sha256] = data
        absent = [medium for medium in media if not medium.data]
        held = {digest: brought.get(digest) or self._files.get(digest) for digest in {file.sha256 for file in absent}}
        if missing := [digest for digest, data in held.items() if data is None]:
            raise NotHeld(missing)
        files = {digest: data for digest, data in held.items() if data is not None}
        _put_in(media, files, self._limit)

    async def share(self, media: Sequence[Medium]) -> None:
        """Fills in files that another call of the same Batch brings.

        Errors of a call are left to `fill`, so that it fails alone.

        Raises:
            InvalidRequest: If the filled-in files exceed the limit.
        """
        absent = [medium for medium in media if not medium.data]
        if not absent or not self.capacity:
            return
        wanted = {medium.sha256 for medium in absent}
        brought = {file.sha256: file.data for file in media if file.data and file.sha256 in wanted}
        files = {digest: data for digest, data in brought.items() if await self._matches(digest, data)}
        _put_in(media, files, self._limit)

    async def _matches(self, digest: bytes, data: bytes) -> bool:
        """Returns True if the hash matches, and then caches the bytes."""
        if self._files.get(digest) == data:
            return True
        computed = await asyncio.to_thread(_digest, data) if len(data) > _LONG else _digest(data)
        if computed == digest:
            self._files.put(digest, data, len(data))
        return computed == digest


def _put_in(media: Sequence[Medium], files: Mapping[bytes, bytes], limit: int) -> None:
    """Fills in media sent by hash only, as far as `files` has them.

    Raises:
        InvalidRequest: If all bytes together would exceed the limit; nothing is filled in then.
    """
    absent = [medium for medium in media if not medium.data and medium.sha256 in files]
    size = sum(len(medium.data) for medium in media) + sum(len(files[medium.sha256]) for medium in absent)
    if size > limit:
        raise InvalidRequest(
            "request_too_large",
            f"the files have {size:,} bytes together, those sent by their hash included; the limit is {limit:,}",
            limit=str(limit),
            value=str(size),
        )
    for medium in absent:
        medium.data = files[medium.sha256]


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
