"""Files that requests send by their hash alone, of the messages of Generate and Likelihood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lyncean.media.held import HeldMedia, Medium
from lyncean.model.v1 import model_pb2 as model
from model_server import images
from model_server.parts import content

MAX_HELD_BYTES = 256 * 1024 * 1024
"""Default bytes of files that a server holds, or a 16th of its memory if that is less."""
_KINDS = ("image", "audio", "video")

Messages = Sequence[model.Message]


def default_capacity() -> int:
    """Returns the default number of bytes of files that a server holds."""
    return min(MAX_HELD_BYTES, images.memory() // 16)


class HeldFiles(HeldMedia):
    """Files of messages by their SHA-256; see `HeldMedia`."""

    async def complete(self, messages: Messages) -> None:
        """Fills the files of a conversation; see `HeldMedia.fill`."""
        await self.fill(_announced(messages))

    async def complete_batch(self, calls: Iterable[Messages]) -> None:
        """Shares the files of the calls of a Batch; see `HeldMedia.share`."""
        await self.share([medium for messages in calls for medium in _announced(messages)])


def _announced(messages: Messages) -> list[Medium]:
    """Returns the files of a conversation that have a hash."""
    media: Iterable[Medium] = (
        getattr(part, kind) for part in content(messages) if (kind := part.WhichOneof("kind")) in _KINDS
    )
    return [medium for medium in media if medium.sha256]
