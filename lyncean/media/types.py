"""The media types of encoded files, read off their first bytes; nothing is decoded."""

from typing import Literal

Kind = Literal["audio", "video"]
UNKNOWN = "application/octet-stream"

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)


def media_type(data: bytes) -> str:
    """Returns the media type of an encoded image, "application/octet-stream" if unknown."""
    for sign, name in _SIGNATURES:
        if data.startswith(sign):
            return name
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else UNKNOWN


_CLIPS = {
    "audio": (
        (b"ID3", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"OggS", "audio/ogg"),
        (b"\x1aE\xdf\xa3", "audio/webm"),
        (b"FORM", "audio/aiff"),
    ),
    "video": ((b"\x1aE\xdf\xa3", "video/webm"), (b"OggS", "video/ogg"), (b"GIF8", "image/gif"), (b"G", "video/mp2t")),
}


def clip_type(kind: Kind, data: bytes) -> str:
    """Returns the media type of an encoded audio or video file, "application/octet-stream" if unknown."""
    if data[:4] == b"RIFF":
        return {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}.get(data[8:12], UNKNOWN)
    if data[4:8] == b"ftyp":
        return "video/quicktime" if data[8:10] == b"qt" else f"{kind}/mp4"
    if kind == "audio" and len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0:
        return "audio/mpeg"
    return next((name for sign, name in _CLIPS[kind] if data.startswith(sign)), UNKNOWN)
