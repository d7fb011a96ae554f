"""Samples that the boxes of an MP4 or QuickTime file announce, counted before FFmpeg allocates an entry for each.

Boxes are walked like `mov_read_default` in FFmpeg's libavformat/mov.c, which accepts tables in any box, so that every
table that FFmpeg reads is counted. Layouts: ISO/IEC 14496-12.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_CONTAINERS = frozenset(
    b"moov trak mdia minf stbl moof traf mvex edts dinf tref udta sinf schi wave ilst".split()
)  # fmt: skip
_STILL = frozenset((b"iinf", b"iloc", b"iprp"))
_ENTRY_BYTES = {
    b"stts": 8, b"ctts": 8, b"stsc": 12, b"stco": 4, b"co64": 8, b"stss": 4, b"stps": 4, b"sbgp": 8,
}  # fmt: skip
"""Tables -> bytes of an entry."""
_RUNS = (b"stts", b"ctts", b"sbgp")
"""Run-length tables: an entry stands for any number of samples."""
_TABLES = (*_ENTRY_BYTES, b"stsz", b"stz2", b"trun", b"elst")
_MOST_BOXES = 1_000_000
_DEEPEST = 16
_PACKET = 160
"""Smallest number of uncompressed samples that FFmpeg puts into a packet."""
_TRUN_FIELDS = (0x100, 0x200, 0x400, 0x800)
"""Flags of a `trun` for its four-byte fields of each sample."""


@dataclass
class _Track:
    """Sizes that a track's boxes announce.

    Attributes:
        handlers: Its handler types.
        samples: Samples, according to the largest table.
        steps: Entries of its `stts` boxes: counts and durations.
        offsets: Whether it has a `ctts`.
        chunks: Chunks.
        chunk: Samples of a chunk, at most.
        edits: Entries of its edit list, each of which may repeat all samples.
    """

    handlers: set[bytes] = field(default_factory=set)
    samples: int = 0
    steps: list[tuple[int, int]] = field(default_factory=list)
    offsets: bool = False
    chunks: int = 0
    chunk: int = 0
    edits: int = 1

    def entries(self) -> int:
        """Returns the entries of FFmpeg's index: packets of uncompressed audio, else samples."""
        plain = len(self.steps) == 1 and self.steps[0][1] == 1 and self.handlers >= {b"soun"} and not self.offsets
        samples = self.samples
        if plain and b"vide" not in self.handlers:
            samples = self.chunks * (self.chunk // _PACKET + 1)
        return samples * max(1, self.edits)


def announced_samples(data: bytes) -> int:
    """Returns the samples of all tracks and fragments.

    Args:
        data: The file's bytes.

    Raises:
        ValueError: A table is larger than its box, boxes are nested too deeply or too many, the header is compressed,
            or the file is a still image.
    """
    walk = _Walk(memoryview(data))
    walk.boxes(b"root", 0, len(data), 0)
    return sum(track.entries() for track in walk.tracks) + walk.fragmented + walk.fragments * len(walk.tracks)


class _Walk:
    """A walk over a file's boxes.

    Args:
        view: The file's bytes.

    Attributes:
        tracks: Tracks so far; a table belongs to the last one, as in FFmpeg.
        fragmented: Samples of fragments.
        fragments: Fragments, for each of which FFmpeg keeps an entry per track.
    """

    def __init__(self, view: memoryview) -> None:
        self.tracks = [_Track()]
        self.fragmented = self.fragments = 0
        self._view = view
        self._left = _MOST_BOXES

    def boxes(self, parent: bytes, start: int, end: int, depth: int) -> None:
        """Reads the boxes between two offsets of a file."""
        if depth > _DEEPEST:
            raise ValueError("its boxes are nested too deeply")
        for kind, begin, stop in self._children(start, end):
            if kind in (b"trak", b"mdat") and parent not in (b"root", b"moov"):
                return  # misplaced: FFmpeg leaves the parent
            if kind in (b"free", b"hoov") and bytes(self._view[begin + 4 : begin + 8]) in (b"mvhd", b"cmov"):
                kind = b"moov"  # as FFmpeg does
            self._box(kind, begin, stop, depth)

    def _children(self, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
        """Yields type, start and end of each box's content; `end` bounds them."""
        while end - start >= 8:
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"it has more than {_MOST_BOXES:,} boxes")
            size, kind = struct.unpack_from(">I4s", self._view, start)
            begin = start + 8
            if size == 1 and end - begin >= 8:
                size = struct.unpack_from(">Q", self._view, begin)[0] - 8
                begin += 8
            if size and size < 8:
                return
            start = min(begin + size - 8, end) if size else end
            yield kind, begin, start

    def _box(self, kind: bytes, begin: int, stop: int, depth: int) -> None:
        if kind == b"cmov":
            raise ValueError("its header is compressed: write it anew (ffmpeg -i FILE -c copy NEW.mp4)")
        if kind in _STILL:
            raise ValueError("it is a still image")
        if kind == b"stsd":
            self._descriptions(begin, stop)
        elif kind == b"meta":
            offsets = range(begin + 4, stop - 3, 4)
            first = next((offset for offset in offsets if bytes(self._view[offset : offset + 4]) == b"hdlr"), stop + 4)
            self.boxes(kind, first - 4, stop, depth + 1)
        elif kind in _CONTAINERS:
            self.tracks += [_Track()] * (kind == b"trak")
            self.fragments += kind == b"moof"
            self.boxes(kind, begin, stop, depth + 1)
        elif kind == b"hdlr":
            self.tracks[-1].handlers.add(bytes(self._view[begin + 8 : begin + 12]))
        elif kind == b"sidx":
            self.fragments += self._references(begin, stop)
        elif kind in _TABLES:
            self._table(kind, begin, stop)

    def _descriptions(self, begin: int, stop: int) -> None:
        """Refuses sample descriptions that exceed their box or contain a table, which FFmpeg would read."""
        offset = begin + 8
        for _ in range(min(self._number(begin + 4, stop), (stop - begin) // 8)):
            size = self._number(offset, stop)
            offset += size
            if size < 8 or offset > stop:
                raise ValueError("a sample description is larger than its box")
        content = bytes(self._view[begin:stop])
        if any(table in content for table in _TABLES):
            raise ValueError("a table stands in a sample description")

    def _table(self, kind: bytes, begin: int, stop: int) -> None:
        track = self.tracks[-1]
        if kind == b"elst":
            track.edits = max(track.edits, (stop - begin - 8) // (20 if self._is_second(begin) else 12))
        elif kind == b"trun":
            self.fragmented += self._fragment(begin, stop)
        elif kind in (b"stsz", b"stz2"):
            track.samples = max(track.samples, self._sizes(kind, begin, stop))
        else:
            self._entries(kind, begin, stop, track)

    def _entries(self, kind: bytes, begin: int, stop: int, track: _Track) -> None:
        at = begin + 4
        if kind == b"sbgp":  # after the grouping type and, in version 1, its parameter
            at += 8 if self._is_second(begin) else 4
        count, width = self._number(at, stop), _ENTRY_BYTES[kind]
        self._fits(kind, count, count * width, stop - at - 4)
        content = self._view[at + 4 : at + 4 + count * width]
        if kind in _RUNS:
            track.samples = max(track.samples, sum(run for (run,) in struct.iter_unpack(">I4x", content)))
            track.offsets |= kind == b"ctts"
            if kind == b"stts":
                track.steps += struct.iter_unpack(">II", content[:16])
        elif kind == b"stsc":
            track.chunk = max([track.chunk, *(run for (run,) in struct.iter_unpack(">4xI4x", content))])
        elif kind in (b"stco", b"co64"):
            track.chunks = max(track.chunks, count)

    def _sizes(self, kind: bytes, begin: int, stop: int) -> int:
        """Returns the samples of a size table, with one common size or a size each."""
        count, size = self._number(begin + 8, stop), self._number(begin + 4, stop)
        if kind == b"stz2":
            self._fits(kind, count, count * (size & 0xFF) // 8, stop - begin - 12)
        elif not size:
            self._fits(kind, count, count * 4, stop - begin - 12)
        return count

    def _fragment(self, begin: int, stop: int) -> int:
        flags, count = self._number(begin, stop) & 0xFFFFFF, self._number(begin + 4, stop)
        width = 4 * sum(bool(flags & one) for one in _TRUN_FIELDS)
        self._fits(b"trun", count, count * width, stop - begin - 8)
        return count

    def _references(self, begin: int, stop: int) -> int:
        """Returns the number of fragments in a segment index."""
        at = begin + (28 if self._is_second(begin) else 20)
        count = self._number(at, stop) & 0xFFFF
        self._fits(b"sidx", count, count * 12, stop - at - 4)
        return count

    def _is_second(self, begin: int) -> bool:
        """Returns True for a box of version 1, which has wider or more fields than version 0."""
        return bytes(self._view[begin : begin + 1]) == b"\1"

    def _number(self, offset: int, stop: int) -> int:
        if offset + 4 > stop:
            raise ValueError("a table is cut short")
        return int.from_bytes(self._view[offset : offset + 4], "big")

    @staticmethod
    def _fits(kind: bytes, count: int, size: int, room: int) -> None:
        if size > room:
            raise ValueError(f"its table {kind.decode()} announces {count:,} entries, its {room:,} bytes hold fewer")
