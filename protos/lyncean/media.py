"""The media type of an encoded image, read off its first bytes; nothing is decoded."""

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
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for sign, name in _SIGNATURES if data.startswith(sign)), "application/octet-stream")
