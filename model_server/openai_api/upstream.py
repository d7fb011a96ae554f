"""Identity of the engine behind an endpoint: asked at the start, on each new connection, and now and then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import openai

from lyncean.errors import printable
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Unavailable

log = logging.getLogger(__name__)
_LOOK_SHARE = 1 / 16
"""Share of the answers after which the engine is asked who it is, also on a connection that is known."""
_AGAIN_SECONDS = 5.0
_LONGEST = 200


class _Route(NamedTuple):
    """A route of an engine that names what it serves, from its root, and the fields that do."""

    path: str
    fields: tuple[str, ...]


_ROUTES: Mapping[str, tuple[_Route, ...]] = {
    "vllm": (_Route("version", ("version",)),),
    "sglang": (_Route("get_model_info", ("model_path", "weight_version")), _Route("get_server_info", ("version",))),
    "llamacpp": (_Route("props", ("model_path", "build_info")),),
}
"""By the `owned_by` of a model's card: https://docs.vllm.ai, https://docs.sglang.io/basic_usage/native_api.html and
tools/server/README.md of llama.cpp."""


async def revision_of(client: openai.AsyncOpenAI, name: str) -> str:
    """Returns which checkpoint an endpoint serves by a name, and with what: as its card and its engine say.

    "" where they say neither, as of a vendor.

    Args:
        client: Connections to the endpoint.
        name: The model's name there.

    Raises:
        openai.OpenAIError: If the list of models cannot be had.
        ValueError: If it cannot be read.
    """
    cards = [card async for card in client.models.list() if str(card.id) == name]
    card: Any = cards[0] if cards else None
    owner = _word(getattr(card, "owned_by", "")).lower()
    root = _word(getattr(card, "root", ""))
    facts = [root] if (root and root != name) or (owner in _ROUTES and root) else []
    for route in _ROUTES.get(owner, ()):
        facts += await _facts(client, route)
    return f"{', '.join(dict.fromkeys(facts))} ({owner})" if facts else ""


async def _facts(client: openai.AsyncOpenAI, route: _Route) -> list[str]:
    """Returns what one route of an engine says; nothing where it has no such route."""
    try:
        reply = await client.get(str(client.base_url.join(f"../{route.path}")), cast_to=object)
    except openai.APIStatusError:
        return []
    said = reply if isinstance(reply, dict) else {}
    return [word for field in route.fields if (word := _word(said.get(field)))]


def _word(value: object) -> str:
    return printable(value)[:_LONGEST] if isinstance(value, str) else ""


class Upstream:
    """Holds the engine behind an endpoint against what it was at the start.

    An answer that came on a connection of before the last look is of the engine that was looked at: an engine that ends
    takes its connections along. A proxy that spreads calls over several engines is met by looks after some answers.

    Args:
        name: The model's name there.
        looking: Returns a client for looks, with connections of its own.

    Attributes:
        revision: What it was at the start; "" where it does not say, and nothing is held against it.
        changed: Why it is another one now, "" while it is not.
    """

    def __init__(self, name: str, looking: Callable[[], openai.AsyncOpenAI]) -> None:
        self.revision = self.changed = ""
        self._name, self._looking = name, looking
        self._client: openai.AsyncOpenAI | None = None
        self._opened = self._confirmed = 0
        self._one_at_a_time = asyncio.Lock()
        self._returning: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Looks for the first time."""
        client = self._looking()
        with contextlib.suppress(openai.OpenAIError, ValueError, AttributeError, TypeError):  # it has no list of models
            self.revision = await revision_of(client, self._name)
        await client.close()

    async def watch(self, request: Any) -> None:
        """Counts the connections that a request opens: a hook of the HTTP client."""
        request.extensions["trace"] = self._trace

    async def _trace(self, event: str, _: Mapping[str, Any]) -> None:
        if event.endswith("connect_tcp.complete"):
            self._opened += 1

    async def confirm(self) -> None:
        """Looks who gave an answer that has just come, where that is not known.

        Raises:
            Unavailable: If it is another engine than at the start, or does not say.
        """
        if not self.revision:
            return
        due = self._opened
        known = self._confirmed >= due
        if known and random.random() >= _LOOK_SHARE:
            return
        async with self._one_at_a_time:
            if known or self._confirmed < due:
                await self._look()
        self.verify()

    def verify(self) -> None:
        """Raises Unavailable while it is another engine than at the start."""
        if self.changed:
            raise Unavailable("identity_changed", self.changed)

    async def _look(self) -> None:
        opened = self._opened
        self._client = self._client or self._looking()
        try:
            now = await revision_of(self._client, self._name)
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            words = f"the endpoint does not say what it serves any more ({type(error).__name__})"
            raise Unavailable("identity_unknown", words) from error
        if now == self.revision:
            self._confirmed, self.changed = opened, ""
            return
        self.changed = (
            f"the endpoint serves {now or 'what it does not name'} now, and served {self.revision} when this server "
            "was started: start it again for the new one, and use a new run folder"
        )
        log.error(self.changed)
        if self._returning is None or self._returning.done():
            self._returning = asyncio.create_task(self._wait_for_return())

    async def _wait_for_return(self) -> None:
        while self.changed:
            await asyncio.sleep(_AGAIN_SECONDS)
            try:
                async with self._one_at_a_time:
                    await self._look()
            except Unavailable:
                continue

    async def close(self) -> None:
        """Ends looking."""
        if self._returning:
            self._returning.cancel()
        if self._client:
            await self._client.close()


def note_origin(served_by: model.ServedBy, reply: Any) -> None:
    """Takes down which model a reply says that it is of, and with which configuration of the endpoint."""
    served_by.endpoint_model = _word(getattr(reply, "model", ""))
    served_by.endpoint_fingerprint = _word(getattr(reply, "system_fingerprint", ""))
