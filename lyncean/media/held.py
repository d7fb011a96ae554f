"""Files that requests send by their hash alone: checked as they arrive, held in so many bytes, put in again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

from lyncean.lru import LruCache
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc.errors import InvalidRequest, NotHeld, Unsupported

_DIGEST_BYTES = 32
_LONG = 256 * 1024
"""Bytes that take longer to hash than a thread costs."""

Medium = model.Image | model.Audio | model.Video


class HeldMedia:
    """Files by their SHA-256, those used last. Safe from several threads and event loops.

    Args:
        capacity: Bytes of all files together; 0 holds none.
        limit: Bytes that the files of one request or Batch may have together, whichever way they are sent.
    """

    def __init__(self, capacity: int, limit: int) -> None:
        self.capacity = capacity
        self._limit = limit
        self._files = LruCache[bytes, bytes](capacity)

    async def fill(self, media: Sequence[Medium]) -> None:
        """Puts in the bytes of files that are sent by their hash, and holds those that announce theirs.

        Afterwards each `sha256` that is set is that of the `data` beside it.

        Args:
            media: Those of a request that have a hash.

        Raises:
            InvalidRequest: If bytes have another hash than is said, or are too many once all are put in.
            NotHeld: If files are missing; names them.
            Unsupported: If no files are held here.
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
        found = {digest: brought.get(digest) or self._files.get(digest) for digest in {each.sha256 for each in absent}}
        if missing := [digest for digest, data in found.items() if data is None]:
            raise NotHeld(missing)
        files = {digest: data for digest, data in found.items() if data is not None}
        _put_in(media, files, self._limit)

    async def share(self, media: Sequence[Medium]) -> None:
        """Puts the bytes of files that any call of a Batch brings into all of its calls.

        What is wrong with a call is left for `fill`, so that it fails alone.

        Raises:
            InvalidRequest: If the bytes are too many once all are put in.
        """
        absent = [medium for medium in media if not medium.data]
        if not absent or not self.capacity:
            return
        wanted = {medium.sha256 for medium in absent}
        brought = {each.sha256: each.data for each in media if each.data and each.sha256 in wanted}
        files = {digest: data for digest, data in brought.items() if await self._matches(digest, data)}
        _put_in(media, files, self._limit)

    async def _matches(self, digest: bytes, data: bytes) -> bool:
        """Returns whether bytes have a hash, and holds them if they do."""
        if self._files.get(digest) == data:
            return True
        computed = await asyncio.to_thread(_digest, data) if len(data) > _LONG else _digest(data)
        if computed == digest:
            self._files.put(digest, data, len(data))
        return computed == digest


def _put_in(media: Sequence[Medium], files: Mapping[bytes, bytes], limit: int) -> None:
    """Puts in the bytes of those that have a hash alone, as far as they are among the files.

    Raises:
        InvalidRequest: If all bytes together would be more than the limit; nothing is put in then.
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
