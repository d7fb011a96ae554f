"""Files that are announced by a hash: of every size their bytes are held against it."""

from __future__ import annotations

import hashlib
import os

import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, NotHeld
from model_server.held import HeldFiles

SIZES = (9_000, 256 * 1024, 256 * 1024 + 1, 3 << 20)
"""Those above 256 KiB are hashed in a thread."""


def message(data: bytes, digest: bytes) -> model.Message:
    return model.Message(parts=[model.Part(image=model.Image(data=data, sha256=digest))])


@pytest.mark.parametrize("size", SIZES)
async def test_bytes_under_another_hash_are_refused_and_not_held(size: int) -> None:
    held, data = HeldFiles(64 << 20, 64 << 20), os.urandom(size)
    wrong = hashlib.sha256(b"other").digest()
    with pytest.raises(InvalidRequest, match="another SHA-256"):
        await held.complete([message(data, wrong)])
    sent = message(b"", wrong)
    await held.complete_batch([[message(data, wrong)], [sent]])
    assert not sent.parts[0].image.data, "nor does another call of the Batch get them"
    with pytest.raises(NotHeld):
        await held.complete([message(b"", wrong)])


@pytest.mark.parametrize("size", SIZES)
async def test_bytes_under_their_hash_are_held(size: int) -> None:
    held, data = HeldFiles(64 << 20, 64 << 20), os.urandom(size)
    digest = hashlib.sha256(data).digest()
    await held.complete([message(data, digest)])
    sent = message(b"", digest)
    await held.complete([sent])
    assert sent.parts[0].image.data == data
