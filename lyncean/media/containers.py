"""Sizes that a file's container announces, read from its headers before a decoder is called.

A header of a few bytes can announce billions of samples, and FFmpeg allocates an entry for each before it reads one.
Containers with such tables are read here; all others are opened only as formats that have none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lyncean.media.mp4_boxes import announced_samples

MAX_SAMPLES = 192_000 * 3600
"""Limit on the samples that an audio file announces: an hour at 192 kHz."""
RATES = range(100, 1_000_001)
"""Samples per second that audio may have: from others, resampling makes far more than the file holds."""
MAX_FRAME = 36_000_000
"""Limit on the pixels of a video's frame, of which a decoder keeps up to sixteen: 8K."""
MAX_FRAMES = 1_000_000
"""Frames and entries of tables that a file of any size may announce; larger ones have one for each four bytes."""

UNTABLED = "mp3,aac,loas,ac3,eac3,dts,wv,mpeg,mpegts,mpegvideo,h264,hevc,m4v,mjpeg,ivf"
"""FFmpeg's formats that have no signature at their start, and no tables either."""
_SIGNATURES = {
    b"\x1aE\xdf\xa3": "matroska", b"OggS": "ogg", b"fLaC": "flac", b"FORM": "aiff", b"GIF8": "gif", b"FLV": "flv",
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11": "asf", b".snd": "au", b"#!AMR": "amr",
    b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb": "w64",
}  # fmt: skip
_BOXES = frozenset(b"ftyp styp moov moof mdat free skip wide pnot udta uuid junk pict prfl sidx".split())
_MOST_ELEMENTS = 250_000
_RIFF = {b"WAVE": "wav", b"AVI ": "avi", b"AVIX": "avi", b"AVI\x19": "avi", b"AMV ": "avi"}
_SEGMENT, _TRACKS, _TRACK, _ENCODINGS, _ENCODING = 0x18538067, 0x1654AE6B, 0xAE, 0x6D80, 0x6240
_MATROSKA_PATH = (_SEGMENT, _TRACKS, _TRACK, _ENCODINGS, _ENCODING)
_COMPRESSION, _ALGORITHM, _SETTINGS = 0x5034, 0x4254, 0x4255
_STRIPPED, _LONGEST_STRIPPED = 3, 64
"""Header stripping, which omits bytes common to all packets; any other compression may hide a bomb."""


class TooLongError(ValueError):
    """An audio file announces or has more samples than the limit."""


def checked(data: bytes) -> tuple[bytes, str]:
    """Reads a file's headers.

    Args:
        data: The file's bytes.

    Returns:
        The bytes to decode, without leading ID3 tags, and FFmpeg's names of the formats to open them as.

    Raises:
        ValueError: Its tables or its header announce more than its bytes can hold, or cannot be read.
    """
    start = 0
    while data[start : start + 3] == b"ID3" and len(data) > start + 10:
        start += _tag_bytes(data[start : start + 10])
    data = data[start:]
    name = _name(data)
    match name:
        case "mov":
            check_frames(announced_samples(data), len(data), "its tables announce")
        case "wav":
            _check_wave(data)
        case "flac":
            _check_flac(data)
        case "matroska":
            _check_matroska(memoryview(data), 0, len(data), _MATROSKA_PATH)
        case "gif" if len(data) >= 10:
            width, height = struct.unpack_from("<HH", data, 6)
            check_pixels(width * height)
    return data, name or UNTABLED


def check_frames(count: float, size: int, source: str = "its header announces") -> None:
    """Checks a count of frames or table entries against the size of the file.

    Raises:
        ValueError: The count is too large for a file of this size.
    """
    most = max(MAX_FRAMES, size // 4)
    if count > most:
        raise ValueError(f"{source} {count:,.0f} samples, the limit for a file of {size:,} bytes is {most:,}")


def check_pixels(count: int) -> None:
    """Checks the pixels of a video frame against the limit.

    Raises:
        ValueError: There are more.
    """
    if count > MAX_FRAME:
        raise ValueError(f"its frames have {count:,} pixels, the limit is {MAX_FRAME:,}")


def check_sound(rate: int, samples: float, most: int = MAX_SAMPLES) -> None:
    """Checks the announced rate and length of audio against the limits.

    Args:
        rate: Samples per second.
        samples: Samples of a channel; 0 if unknown.
        most: Limit on `samples`.

    Raises:
        TooLongError: There are more.
        ValueError: The rate is not among `RATES`.
    """
    if rate not in RATES:
        raise ValueError(f"its rate is {rate:,} Hz, {RATES.start:,} to {RATES.stop - 1:,} Hz are read")
    if samples > most:
        raise TooLongError(f"its header announces {samples:,.0f} samples, the limit is {most:,}")


def _name(data: bytes) -> str:
    if data[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64"):
        return _RIFF.get(data[8:12], "")
    if data[4:8] in _BOXES:
        return "mov"
    return next((name for sign, name in _SIGNATURES.items() if data.startswith(sign)), "")


def _tag_bytes(header: bytes) -> int:
    """Returns the size of an ID3v2 tag, encoded as four times seven bits."""
    size = sum((byte & 0x7F) << shift for byte, shift in zip(header[6:], (21, 14, 7, 0), strict=True))
    return 10 + size + 10 * bool(header[5] & 0x10)


def _check_wave(data: bytes) -> None:
    order, align, start, left = ">" if data[:4] == b"RIFX" else "<", 1, 12, _MOST_ELEMENTS
    while start + 8 <= len(data):
        left = _counted(left)
        name, size = struct.unpack_from(f"{order}4sI", data, start)
        if name == b"fmt " and start + 22 <= len(data):
            rate, align = struct.unpack_from(f"{order}4xI4xH", data, start + 8)
            check_sound(rate, 0)
        elif name == b"data":
            check_sound(RATES.start, min(size, len(data) - start) / max(1, align))
        start += 8 + size + size % 2


def _counted(left: int) -> int:
    if not left:
        raise ValueError(f"it has more than {_MOST_ELEMENTS:,} parts")
    return left - 1


def _check_flac(data: bytes) -> None:
    """Checks STREAMINFO: 20 bits of rate, 8 bits of channels and sample size, 36 bits of sample count."""
    if len(data) >= 26:
        fields = int.from_bytes(data[18:26], "big")
        check_sound(fields >> 44, fields & (1 << 36) - 1)


def _check_matroska(view: memoryview, start: int, end: int, path: tuple[int, ...]) -> None:
    for kind, begin, stop in _elements(view, start, end):
        if path and kind == path[0]:
            _check_matroska(view, begin, stop, path[1:])
        elif not path and kind == _COMPRESSION:
            held = {kind: bytes(view[first:last]) for kind, first, last in _elements(view, begin, stop)}
            algorithm = int.from_bytes(held.get(_ALGORITHM, b"")[:8], "big")
            if algorithm != _STRIPPED or len(held.get(_SETTINGS, b"")) > _LONGEST_STRIPPED:
                raise ValueError("a track is compressed: write it anew (ffmpeg -i FILE -c copy NEW.mkv)")


def _elements(view: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields id, start and end of each EBML element's content; an unknown size extends to the end."""
    left = _MOST_ELEMENTS
    while start < end and view[start]:
        left = _counted(left)
        width = 9 - view[start].bit_length()
        offset = start + width
        if offset >= end or not view[offset]:
            return
        length = 9 - view[offset].bit_length()
        size = int.from_bytes(view[offset : offset + length], "big") & (1 << 7 * length) - 1
        begin = offset + length
        stop = end if size == (1 << 7 * length) - 1 else min(begin + size, end)
        yield int.from_bytes(view[start:offset], "big"), begin, stop
        start = stop
