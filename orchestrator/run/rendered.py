"""Prompts as a model server renders them: the text and the tokens that its model is given."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, Credentials
from orchestrator.engine import Endpoint, Pool
from orchestrator.engine.wire import Request, request_of
from orchestrator.errors import ConfigError, IncompleteError
from orchestrator.run.servers import to_stderr
from orchestrator.samples import Call

Render = Callable[[Call], Awaitable[dict[str, Any]]]
_PATIENCE = 60.0
_USAGE = ("input_tokens", "image_tokens", "audio_tokens", "video_tokens")


@contextlib.asynccontextmanager
async def renderer(endpoints: Sequence[Endpoint], credentials: Credentials, timeout: float) -> AsyncIterator[Render]:
    """Connects to a model server; yields what asks it how it renders a call.

    That gives `{"rendered": {"text", "token_ids", "input_tokens", ...}}`, or `{"error": {"reason", "message"}}` where
    the server refuses the request. A generated answer has one token: the prompt does not depend on it.

    Raises:
        ConfigError: If the server does not show what it renders.
        IncompleteError: If it does not answer.
    """
    pool = Pool(endpoints, credentials, patience=_PATIENCE, notify=to_stderr)
    try:
        info = await pool.connect()
        if model.CAPABILITY_RENDERED_PROMPT not in info.capabilities:
            raise ConfigError(
                f"{info.model_name} at {', '.join(map(str, endpoints))} does not show what it renders "
                "(no CAPABILITY_RENDERED_PROMPT): leave out --rendered to see the requests"
            )

        async def render(call: Call) -> dict[str, Any]:
            answer = await pool.ready[0].ask(_request(call), timeout) if pool.ready else None
            if answer is None or (isinstance(answer, CallError) and answer.consequence.retries != 0):
                raise IncompleteError(f"{', '.join(map(str, endpoints))} does not answer: {answer or 'it is gone'}")
            if isinstance(answer, CallError):
                return {"error": {"reason": answer.reason, "message": str(answer)}}
            prompt, usage = answer.prompt, answer.usage
            counts = {name: getattr(usage, name) for name in _USAGE if getattr(usage, name)}
            return {"rendered": {"text": prompt.text, "token_ids": list(prompt.token_ids), **counts}}

        yield render
    finally:
        await pool.close()


def _request(call: Call) -> Request:
    request = request_of(call)
    if request.method == "Likelihood":
        further = model.LikelihoodRequest(return_prompt=True).SerializeToString()
    else:
        short = model.GenerationConfig(max_output_tokens=1) if call.modality != model.MODALITY_IMAGE else None
        further = model.GenerateRequest(return_prompt=True, config=short).SerializeToString()
    return replace(request, chunks=[*request.chunks, further])
