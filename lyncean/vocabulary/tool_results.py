"""Results of tools in containers: their bounds, and the hash that a repeated call must reproduce."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

MAX_TOOLS = 128
"""Tools of a server, and further bounds of the contract:"""
MAX_ARGUMENTS = 1_048_576
MAX_HISTORY = 1024
MAX_PARTS = 64
MAX_TEXT = 1_048_576
MAX_IMAGES = 33_554_432
MAX_FACTS = 32

REPLAY_DIFFERS = "replay_differs"
"""Reason of ABORTED when a replayed call gives another result than before."""
OTHER_REVISION = "other_revision"
"""Reason of FAILED_PRECONDITION when the tools are not those with which the run began."""


def result_sha256(content: Iterable[str | bytes], is_error: bool) -> bytes:
    """Returns the hash of a result, as `EarlierCall.result_sha256` of the contract describes it.

    Args:
        content: Texts and encoded images, in their order.
        is_error: Whether it is an error message.
    """
    digest = hashlib.sha256()
    for piece in content:
        kind, data = (b"T", piece.encode()) if isinstance(piece, str) else (b"I", piece)
        digest.update(kind + hashlib.sha256(data).digest())
    digest.update(b"1" if is_error else b"0")
    return digest.digest()
