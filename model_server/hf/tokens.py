"""Bytes of a tokenizer's tokens."""

from __future__ import annotations

from typing import Any

from transformers.convert_slow_tokenizer import bytes_to_unicode


def token_bytes(tokenizer: Any, number: int) -> bytes:
    """Returns a token's own bytes, which need not be valid UTF-8 by themselves."""
    piece = tokenizer.convert_ids_to_tokens(number)
    return _bytes(piece, added=number in tokenizer.added_tokens_decoder, byte_level=_byte_level(tokenizer))


def vocabulary(tokenizer: Any) -> list[bytes]:
    """Returns the bytes of all tokens, in the order of their numbers; a number without a token has none."""
    size, added = max(tokenizer.get_vocab().values()) + 1, set(tokenizer.added_tokens_decoder)
    pieces, byte_level = tokenizer.convert_ids_to_tokens(list(range(size))), _byte_level(tokenizer)
    return [_bytes(piece, added=number in added, byte_level=byte_level) for number, piece in enumerate(pieces)]


def _bytes(piece: str | None, *, added: bool, byte_level: bool) -> bytes:
    if piece is None or added:
        return (piece or "").encode()
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    if byte_level and all(character in _BYTES for character in piece):
        return bytes(_BYTES[character] for character in piece)
    return piece.replace("▁", " ").encode()


def _byte_level(tokenizer: Any) -> bool:
    known: bool | None = getattr(tokenizer, "_lyncean_byte_level", None)
    if known is None:
        core = getattr(tokenizer, "backend_tokenizer", None)
        known = core is not None and "ByteLevel" in repr(core.decoder)
        tokenizer._lyncean_byte_level = known
    return known


_BYTES = {character: byte for byte, character in bytes_to_unicode().items()}  # type: ignore[no-untyped-call]
"""The byte-level alphabet of GPT-2."""
