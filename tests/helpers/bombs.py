"""Media files of a few bytes that announce far more than they hold, and archives that unpack to far more."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

LIMIT = 400 << 20
"""Bytes by which a process may grow over what it takes after its imports."""

_CHILD = """
import json, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
{setup}
data = Path(sys.argv[1]).read_bytes()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
try:
    result = {call}
except Exception as error:
    result = f"{{type(error).__name__}}: {{error}}"
print(json.dumps([str(result), peak() - before]))
"""


def grown(path: Path, setup: str, call: str) -> tuple[str, int]:
    """Returns what a call in a process of its own returns or raises of a file, and by how many bytes that grew.

    Args:
        path: The file; `data` is its content, `sys.argv[1]` its path.
        setup: Statements that import what is called.
        call: An expression.
    """
    code = _CHILD.format(setup=setup, call=call)
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result, size = json.loads(done.stdout.splitlines()[-1])
    return result, size


def box(kind: bytes, *content: bytes) -> bytes:
    """Returns a box of an MP4 file."""
    clip = b"".join(content)
    return struct.pack(">I4s", 8 + len(clip), kind) + clip


def full(kind: bytes, *content: bytes) -> bytes:
    """Returns a box with a version and flags of 0."""
    return box(kind, bytes(4), *content)


def u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def mp4(
    *,
    stsz: bytes = u32(1, 10),
    stts: bytes = u32(1, 10, 100),
    stsc: bytes = u32(1, 1, 10, 1),
    edits: bytes = b"",
    tables: bytes = b"",
    handler: bytes = b"vide",
    brand: bytes = b"isom",
    more: bytes = b"",
    spare: int = 16,
) -> bytes:
    """Returns a file of one MPEG-4 video track of ten frames, 64 x 48, whose tables are as given.

    Args:
        stsz: Content of the table of sizes: one byte for each of ten samples.
        stts: Of that of durations.
        stsc: Of that of chunks.
        edits: Of the edit list.
        tables: Further boxes beside them.
        handler: Of the track.
        brand: Of the file.
        more: Boxes after the track.
        spare: Bytes of the file's media data.
    """
    unit = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    seen = bytes(6) + b"\0\1" + bytes(16) + struct.pack(">HH", 64, 48) + u32(0x480000, 0x480000, 0) + b"\0\1"
    entry = box(b"mp4v", seen, bytes(32), b"\0\x18\xff\xff")
    stbl = box(
        b"stbl", full(b"stsd", u32(1), entry), full(b"stts", stts), full(b"stsz", stsz), full(b"stsc", stsc),
        full(b"stco", u32(1, 40)), tables,
    )  # fmt: skip
    minf = box(b"minf", full(b"vmhd", bytes(8)), box(b"dinf", full(b"dref", u32(1), full(b"url "))), stbl)
    mdia = box(b"mdia", full(b"mdhd", u32(0, 0, 1000, 1000, 0)), full(b"hdlr", u32(0), handler, bytes(13)), minf)
    tkhd = box(b"tkhd", u32(7, 0, 0, 1, 0, 1000), bytes(16), unit, u32(64 << 16, 48 << 16))
    edts = box(b"edts", full(b"elst", edits)) if edits else b""
    mvhd = full(b"mvhd", u32(0, 0, 1000, 1000, 0x10000), b"\1", bytes(11), unit, bytes(24), u32(2))
    moov = box(b"moov", mvhd, box(b"trak", tkhd, edts, mdia), more)
    return box(b"ftyp", brand, u32(0), brand) + moov + box(b"mdat", bytes(spare))


def fragmented(samples: int) -> bytes:
    """Returns an MP4 file of one fragment whose samples have default sizes."""
    trex = full(b"trex", u32(1, 1, 1, 10, 0))
    run = box(b"traf", full(b"tfhd", u32(1)), full(b"trun", u32(samples)))
    clip = mp4(stsz=u32(0, 0), stts=u32(0), more=box(b"mvex", trex))
    return clip + box(b"moof", full(b"mfhd", u32(1)), run)


def edited(samples: int, edits: int) -> bytes:
    """Returns an MP4 file whose edit list shows all its samples again and again."""
    listed = u32(edits) + u32(1000 * samples, 0, 0x10000) * edits
    return mp4(stsz=u32(1, samples), stts=u32(1, samples, 1), stsc=u32(1, 1, samples, 1), edits=listed, spare=samples)


def compressed(size: int) -> bytes:
    """Returns a QuickTime file with a compressed header of so many bytes."""
    packed = box(b"cmvd", u32(size), zlib.compress(bytes(size), 9))
    return box(b"ftyp", b"qt  ", u32(0), b"qt  ") + box(b"moov", box(b"cmov", box(b"dcom", b"zlib"), packed))


def still(items: int) -> bytes:
    """Returns an AVIF file of so many items."""
    meta = full(b"meta", full(b"hdlr", u32(0), b"pict", bytes(13)), box(b"iinf", b"\1\0\0\0", u32(items)))
    return box(b"ftyp", b"avif", u32(0), b"avifmif1") + meta


def wave(rate: int, samples: int, *, fact: int = 0) -> bytes:
    """Returns a WAV file of 8 bits, mono."""
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate, 1, 8)
    counted = b"fact" + struct.pack("<II", 4, fact) if fact else b""
    body = b"WAVE" + form + counted + b"data" + struct.pack("<I", samples) + b"\x80" * samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


def flac(samples: int, rate: int = 48_000) -> bytes:
    """Returns a FLAC file that announces so many samples and has none."""
    fields = (rate << 44) | (15 << 36) | samples
    return b"fLaC\x80\0\0\x22" + struct.pack(">HH", 4096, 4096) + bytes(6) + fields.to_bytes(8, "big") + bytes(16)


def announcing(data: bytes, samples: int) -> bytes:
    """Returns a FLAC file that announces another number of samples."""
    fields = int.from_bytes(data[18:26], "big") >> 36 << 36 | samples
    return data[:18] + fields.to_bytes(8, "big") + data[26:]


def gif(width: int, height: int) -> bytes:
    """Returns a GIF with a frame of one pixel."""
    screen = struct.pack("<HH", width, height) + b"\x80\0\0" + b"\0\0\0\xff\xff\xff"
    return b"GIF89a" + screen + b"\x21\xf9\4\0\x0a\0\0\0" + b"\x2c" + struct.pack("<4H", 0, 0, 1, 1) + b"\0\2\2D\1\0;"


def avi(data: bytes, frames: int) -> bytes:
    """Returns an AVI file that announces another number of frames of its first stream."""
    offset = data.index(b"strh") + 8 + 32
    return data[:offset] + struct.pack("<I", frames) + data[offset + 4 :]


def webm(data: bytes, duration: float) -> bytes:
    """Returns a WebM file that announces another duration, in milliseconds."""
    offset = data.index(b"\x44\x89\x88") + 3
    return data[:offset] + struct.pack(">d", duration) + data[offset + 8 :]


def ogg(data: bytes, samples: int) -> bytes:
    """Returns an Ogg file whose last page says another number of samples, with the right checksum."""
    offset = data.rindex(b"OggS")
    page = bytearray(data[offset:])
    page[6:14], page[22:26] = struct.pack("<Q", samples), bytes(4)
    checksum = 0
    for byte in page:
        checksum ^= byte << 24
        for _ in range(8):
            checksum = (checksum << 1 ^ (0x104C11DB7 if checksum >> 31 else 0)) & 0xFFFFFFFF
    page[22:26] = struct.pack("<I", checksum)
    return data[:offset] + page


def element(kind: bytes, content: bytes) -> bytes:
    """Returns an element of EBML, its size in eight bytes."""
    return kind + struct.pack(">Q", len(content) | 1 << 56) + content


def matroska(blocks: int, size: int, *, algorithm: int = 0) -> bytes:
    """Returns a Matroska file whose blocks are compressed by its track and have so many bytes once unpacked."""
    number = lambda kind, value: element(kind, struct.pack(">I", value))  # noqa: E731
    packing = number(b"\x50\x31", 0) + number(b"\x50\x33", 0) + element(b"\x50\x34", number(b"\x42\x54", algorithm))
    encodings = element(b"\x6d\x80", element(b"\x62\x40", packing))
    seen = element(b"\xe0", number(b"\xb0", 64) + number(b"\xba", 48))
    track = number(b"\xd7", 1) + number(b"\x73\xc5", 1) + number(b"\x83", 1) + element(b"\x86", b"V_MPEG4/ISO/ASP")
    tracks = element(b"\x16\x54\xae\x6b", element(b"\xae", track + seen + encodings))
    packet = zlib.compress(bytes(size), 9)
    shown = b"".join(
        element(b"\xa3", b"\x81" + struct.pack(">h", offset) + b"\x80" + packet) for offset in range(blocks)
    )
    cluster = element(b"\x1f\x43\xb6\x75", number(b"\xe7", 0) + shown)
    info = element(b"\x15\x49\xa9\x66", number(b"\x2a\xd7\xb1", 1_000_000))
    head = element(b"\x1a\x45\xdf\xa3", element(b"\x42\x82", b"matroska"))
    return head + element(b"\x18\x53\x80\x67", info + tracks + cluster)
