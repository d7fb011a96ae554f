"""Identity of an endpoint's engine: queried at the start, on each new connection, and now and then."""

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
"""Share of the answers after which the engine's identity is queried even on a known connection."""
_AGAIN_SECONDS = 5.0
_LONGEST = 200


class _Route(NamedTuple):
    """A route of an engine, from its root, and the fields of its reply that identify the served model."""

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
    """Returns the checkpoint that an endpoint serves by a name, and its engine, by the model's card and the engine.

    "" if neither identifies it, as at a vendor.

    Args:
        client: Connections to the endpoint.
        name: The model's name there.

    Raises:
        openai.OpenAIError: If the list of models cannot be fetched.
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
    """Returns the facts of one route of an engine; an empty list if it has no such route."""
    try:
        reply = await client.get(str(client.base_url.join(f"../{route.path}")), cast_to=object)
    except openai.APIStatusError:
        return []
    answer = reply if isinstance(reply, dict) else {}
    return [word for field in route.fields if (word := _word(answer.get(field)))]


def _word(value: object) -> str:
    return printable(value)[:_LONGEST] if isinstance(value, str) else ""


class Upstream:
    """Compares an endpoint's engine with the one at the start.

    An answer on a connection that was open at the last look comes from the engine that was looked at: an engine that
    ends closes its connections. Looks after a share of the answers also catch a proxy that spreads calls over several
    engines.

    Args:
        name: The model's name there.
        looking: Returns a client for looks, with connections of its own.

    Attributes:
        revision: Its identity at the start; "" if it does not say, and nothing is compared.
        changed: The message about another engine now; "" while it is the same.
    """

    def __init__(self, name: str, looking: Callable[[], openai.AsyncOpenAI]) -> None:
        self.revision = self.changed = ""
        self._name, self._looking = name, looking
        self._client: openai.AsyncOpenAI | None = None
        self._opened = self._confirmed = 0
        self._one_at_a_time = asyncio.Lock()
        self._returning: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Queries the identity for the first time."""
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
        """Queries the identity after an answer, unless it is known.

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
        """Raises Unavailable while the engine differs from the one at the start."""
        if self.changed:
            raise Unavailable("identity_changed", self.changed)

    async def _look(self) -> None:
        opened = self._opened
        self._client = self._client or self._looking()
        try:
            now = await revision_of(self._client, self._name)
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            message = f"the endpoint does not say what it serves any more ({type(error).__name__})"
            raise Unavailable("identity_unknown", message) from error
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
        """Stops looking and closes the connection."""
        if self._returning:
            self._returning.cancel()
        if self._client:
            await self._client.close()


def note_origin(served_by: model.ServedBy, reply: Any) -> None:
    """Sets the model and the endpoint's configuration that a reply names."""
    served_by.endpoint_model = _word(getattr(reply, "model", ""))
    served_by.endpoint_fingerprint = _word(getattr(reply, "system_fingerprint", ""))
