"""A judge served by a ModelService: `grpc:HOST:PORT`, or `grpcs:HOST:PORT` over TLS."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any

import grpc

from lyncean.model.v1 import model_pb2, model_pb2_grpc
from lyncean.rpc import CallError, Credentials, Patience, call, dial, patiently
from lyncean.rpc.budget import Budget
from scorer.judges.base import JudgeError, JudgePrompt, Reply, canonical, take
from scorer.judges.chat import ChatPrompt, conversation
from scorer.judges.throttle import Throttle

MAX_OUTPUT_TOKENS = 1024
REACH_SECONDS = 15.0
"""Longest wait for a server that does not accept connections. One that accepts them and still loads its model may
take all of the patience."""
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.DOTALL)


class ModelServiceJudge:
    """Calls Generate with temperature 0; the prompt holds the schema, since Generate has no field for it.

    Args:
        address: `host:port`.
        credentials: TLS and token of the connection.
        budget: Bounds of its cost.
        timeout: Seconds for one call.
        patience: Seconds to wait for a full queue or an absent server.
        concurrency: Most calls in flight.
    """

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        budget: Budget,
        *,
        timeout: float = 120.0,
        patience: float = 600.0,
        concurrency: int = 64,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._budget = budget
        self._call: Any = partial(call, timeout=timeout, metadata=credentials.metadata)
        self._patience = patience
        self._throttle = Throttle(concurrency)
        self._channel: grpc.aio.Channel | None = None
        self._stub: model_pb2_grpc.ModelServiceAsyncStub | None = None
        self._info: model_pb2.GetModelInfoResponse | None = None
        self.waits_for = ""
        self._asking: asyncio.Task[model_pb2.GetModelInfoResponse] | None = None

    @property
    def identity(self) -> str:
        """The model and its revision, after `prepare`; before, the address."""
        info = self._info
        if info is None:
            return canonical({"grpc": self._address})
        return canonical({"model": info.model_name, "revision": info.model_revision, "temperature": 0})

    async def prepare(self) -> None:
        """Fetches the model's name and revision, under which replies are kept.

        Raises:
            JudgeError: If the server cannot be asked.
        """
        if self._info is None:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask_info())
            self._info = await asyncio.shield(self._asking)

    async def _ask_info(self) -> model_pb2.GetModelInfoResponse:
        if self._stub is None:
            self._channel = dial(self._address, self._credentials)
            self._stub = model_pb2_grpc.ModelServiceStub(self._channel)
        try:
            ask = partial(self._call, self._stub.GetModelInfo, model_pb2.GetModelInfoRequest())
            patience = Patience(self._patience, REACH_SECONDS, self._channel)
            info: model_pb2.GetModelInfoResponse = await patiently(ask, patience, self._failed)
            return info
        except CallError:
            raise JudgeError("judge_unreachable", self.waits_for) from None

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Asks one question."""
        await self.prepare()
        assert self._stub is not None
        assert self._info is not None
        generate = partial(self._call, self._stub.Generate, request(prompt))

        async def attempt() -> Any:
            async with self._throttle.slot():
                take(self._budget)
                return await generate()

        try:
            response: model_pb2.GenerateResponse = await patiently(attempt, Patience(self._patience), self._failed)
        except CallError as error:
            reason = "judge_timeout" if error.code is grpc.StatusCode.DEADLINE_EXCEEDED else "judge_error"
            raise JudgeError(reason, self.waits_for) from None
        self._throttle.succeeded()
        self.waits_for = ""
        # Charged before it is read: an unusable reply is paid for, too.
        self._budget.used(*spent(response))
        return read(prompt, response, self._info.model_name)

    def _failed(self, error: CallError, pause: float) -> None:
        self.waits_for = f"the judge at {self._address}: {error}"
        if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            self._throttle.refused(pause)

    async def close(self) -> None:
        """Closes the channel."""
        if self._channel is not None:
            await self._channel.close()


def request(prompt: JudgePrompt) -> model_pb2.GenerateRequest:
    """Returns the request of a prompt: one user message, since not every template has a system role; images first."""
    if isinstance(prompt, ChatPrompt):
        config = model_pb2.GenerationConfig(
            max_output_tokens=prompt.limit or MAX_OUTPUT_TOKENS, temperature=prompt.settings.get("temperature", 0.0)
        )
        return model_pb2.GenerateRequest(messages=conversation(prompt), config=config)
    text = (
        f"{prompt.system}\n\n{prompt.user}\n\nReply with one JSON object and nothing else. "
        f"It must fit this JSON schema:\n{canonical(prompt.schema)}"
    )
    parts = [model_pb2.Part(image=model_pb2.Image(data=image)) for image in prompt.images]
    message = model_pb2.Message(role=model_pb2.ROLE_USER, parts=[*parts, model_pb2.Part(text=text)])
    config = model_pb2.GenerationConfig(max_output_tokens=MAX_OUTPUT_TOKENS, temperature=0.0)
    return model_pb2.GenerateRequest(messages=[message], config=config)


def read(prompt: JudgePrompt, response: model_pb2.GenerateResponse, model: str) -> Reply:
    """Validates the reply of a finished output; raises as `scorer.judges.endpoint.read`."""
    text = "".join(part.text for part in response.parts).strip()
    if response.finish_reason == model_pb2.FINISH_REASON_CONTENT_FILTER:
        raise JudgeError("judge_refused", "the judge declined", text)
    if isinstance(prompt, ChatPrompt):
        return Reply(prompt.read(text), text, model, *spent(response))
    if response.finish_reason == model_pb2.FINISH_REASON_MAX_TOKENS:
        raise JudgeError("judge_truncated", f"the judge's reply was cut at {MAX_OUTPUT_TOKENS} tokens", text)
    fenced = _FENCED.search(text)
    text = fenced.group(1) if fenced else text
    return Reply(prompt.read(text), text, model, *spent(response))


def spent(response: model_pb2.GenerateResponse) -> tuple[int, int]:
    """Returns the input and output tokens of a response, usable or not."""
    return response.usage.input_tokens, response.usage.output_tokens
