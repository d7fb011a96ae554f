"""The client of all harnesses' models: sends requests to one ModelService and returns the responses in order."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc

from lyncean.errors import UserError
from lyncean.media import media_type
from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc as model_grpc
from lyncean.rpc import CallError, Credentials, Patience, call, client_credentials, dial, patiently, refused_user
from lyncean.vocabulary import Outcome
from lyncean_harnesses.library.requests import png

T = TypeVar("T")
Request = model.GenerateRequest | model.LikelihoodRequest
SERVER_SIDE = ("batch_size", "max_batch_size", "device")
"""Arguments that harnesses give to every model, and that are settings of the model server here."""
_REACH_SECONDS = 5.0
"""Seconds until an address must first be reached. A server that is reached and still loads is waited for."""
_SECONDS = {"timeout": 600.0, "patience": 600.0}
_FILES = ("tls_ca", "tls_cert", "tls_key", "token_file")
_ARGUMENTS = ("endpoint", "model", "tls", "tls_server_name", *_FILES, *_SECONDS, "concurrency")
_WORDS = {"true": True, "false": False, "1": True, "0": False}


class ModelError(UserError):
    """A model that cannot be asked, or a request that it does not answer; names the model, the problem and a fix."""


@dataclass
class Client:
    """A client of one ModelService.

    Args:
        endpoint: `host:port`.
        credentials: TLS and token for the connection.
        timeout: Seconds for one call.
        patience: Seconds to wait for a full queue or an absent server.
        concurrency: Maximum of calls in flight; 0 takes the number that the server states.
        expected: The name that the served model must have; "" takes any.
        known: The model's description if it is known already.
    """

    endpoint: str
    credentials: Credentials
    timeout: float
    patience: float
    concurrency: int
    expected: str
    known: model.GetModelInfoResponse | None = None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Client:
        """Returns the client that a harness's model arguments describe.

        Raises:
            ModelError: An argument is unknown, missing or wrong.
            SecurityError: A token or TLS file cannot be used.
        """
        values = {name: value for name, value in arguments.items() if value is not None}
        if unknown := sorted(values.keys() - set(_ARGUMENTS)):
            raise ModelError(f"unknown model argument {unknown[0]!r}", fix=f"there are {', '.join(_ARGUMENTS)}")
        if ":" not in str(values.get("endpoint", "")):
            raise ModelError("the model server's address is missing", fix="give endpoint=HOST:PORT")
        if reason := refused_user(str(values["endpoint"])):
            raise ModelError(f"endpoint={reason}")
        numbers: dict[str, float] = {}
        for name, default in {**_SECONDS, "concurrency": 0.0}.items():
            try:
                numbers[name] = float(values.get(name, default))
            except (TypeError, ValueError):
                numbers[name] = -1.0
            if not (0 < numbers[name] < 1e8 or numbers[name] == default):
                raise ModelError(f"model argument {name} is {values[name]!r}", fix="give a number above 0")
        tls = values.get("tls")
        if tls is not None and not isinstance(tls, bool) and str(tls).lower() not in _WORDS:
            raise ModelError(f"model argument tls is {tls!r}", fix="give true or false")
        files = {name: Path(str(values[name])) if name in values else None for name in _FILES}
        credentials = client_credentials(
            tls=tls if tls is None or isinstance(tls, bool) else _WORDS[str(tls).lower()],
            tls_server_name=values.get("tls_server_name"),
            **files,
        )
        return cls(
            str(values["endpoint"]),
            credentials,
            timeout=numbers["timeout"],
            patience=numbers["patience"],
            concurrency=int(numbers["concurrency"]),
            expected=str(values.get("model", "")),
        )

    def describe(self) -> model.GetModelInfoResponse:
        """Returns the model's description; asks for it once, and blocks meanwhile.

        Raises:
            ModelError: The server cannot be asked, or serves another model than the one named.
        """
        if self.known is None:
            _run(self._describe())
        assert self.known is not None
        if self.expected and self.expected != self.known.model_name:
            raise ModelError(f"{self.endpoint} serves {self.known.model_name!r}, not {self.expected!r}")
        return self.known

    async def _describe(self) -> None:
        async with self.connection():
            pass

    def ask(self, requests: Iterable[Request], answered: Callable[[], object] = lambda: None) -> list[Any]:
        """Returns the responses to requests, in their order; blocks meanwhile.

        Args:
            requests: Read as they are sent, so that not all images are held at once.
            answered: Called after each response.

        Raises:
            ModelError: The model does not answer one of them.
        """
        return _run(self._ask(requests, answered))

    def score(
        self,
        calls: Iterable[tuple[Sequence[model.Message], Sequence[str]]],
        answered: Callable[[], object] = lambda: None,
    ) -> list[model.ContinuationScore]:
        """Returns the scores of all continuations, in their order.

        Args:
            calls: Conversations, each with its continuations; read as `ask` reads requests.
            answered: Called after each response.

        Raises:
            ModelError: The model does not score one of them.
        """
        requests = (model.LikelihoodRequest(messages=messages, continuations=after) for messages, after in calls)
        return [score for response in self.ask(requests, answered) for score in response.scores]

    async def _ask(self, requests: Iterable[Request], answered: Callable[[], object]) -> list[Any]:
        responses: dict[int, Any] = {}
        source = iter(enumerate(requests))
        async with self.connection() as connection:

            async def work() -> None:
                for index, request in source:
                    responses[index] = await connection.ask(request)
                    answered()

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(connection.concurrency):
                        group.create_task(work())
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [responses[index] for index in range(len(responses))]

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Connects for as long as the context lasts.

        Raises:
            ModelError: The server cannot be asked for its description.
        """
        channel = dial(self.endpoint, self.credentials)
        try:
            connection = Connection(channel, self)
            self.known = await connection.start()
            yield connection
        finally:
            await channel.close()


class Connection:
    """An open channel to a ModelService; made by `Client.connection`."""

    def __init__(self, channel: grpc.aio.Channel, client: Client) -> None:
        self._channel = channel
        self._client = client
        self._stub: Any = model_grpc.ModelServiceStub(channel)
        self._info = model.GetModelInfoResponse()
        self.concurrency = 1

    async def start(self) -> model.GetModelInfoResponse:
        """Requests the model's description, which must match the known one if there is one."""
        request, known = model.GetModelInfoRequest(), self._client.known
        info: model.GetModelInfoResponse = await self._call(self._stub.GetModelInfo, request, reach=_REACH_SECONDS)
        if known is not None and (known.model_name, known.model_revision) != (info.model_name, info.model_revision):
            raise self._error("another model answers there now", fix="start the evaluation again")
        self._info = info
        self.concurrency = self._client.concurrency or info.max_concurrency + info.max_waiting or 1
        return info

    async def ask(self, request: Request) -> Any:
        """Returns the response to a request; one that the server's policy refuses is an empty answer.

        Raises:
            ModelError: The model does not answer it.
        """
        likelihood = isinstance(request, model.LikelihoodRequest)
        self._check(request, likelihood)
        try:
            response = await self._call(self._stub.Likelihood if likelihood else self._stub.Generate, request)
        except _Refused as error:
            if likelihood:
                raise self._error(str(error)) from None
            return model.GenerateResponse(finish_reason=model.FINISH_REASON_CONTENT_FILTER)
        if response.served_by.boot_id and response.served_by.model_revision != self._info.model_revision:
            raise self._error("another model answers there now", fix="start the evaluation again")
        if not likelihood and response.finish_reason == model.FINISH_REASON_UNSPECIFIED:
            raise self._error("its answer is not a finished text (bad_response)", fix="test it with orchestrator check")
        if isinstance(request, model.LikelihoodRequest) and len(response.scores) != len(request.continuations):
            raise self._error(f"{len(response.scores)} scores for {len(request.continuations)} continuations")
        return response

    def _check(self, request: Request, likelihood: bool) -> None:
        """Refuses a request that needs a capability the model does not claim, before it is sent."""
        shown = sum(part.HasField("image") for message in request.messages for part in message.parts)
        needed = [model.CAPABILITY_LIKELIHOOD if likelihood else model.CAPABILITY_GENERATE]
        needed += [model.CAPABILITY_IMAGE_INPUT, model.CAPABILITY_MULTI_IMAGE][: min(2, shown)]
        for capability in needed:
            if capability not in self._info.capabilities:
                name = model.Capability.Name(capability).removeprefix("CAPABILITY_")
                raise self._error(f"the task needs {name}, which this model does not have", fix="take another model")

    async def _call(self, method: Any, request: Any, reach: float = math.inf) -> Any:
        """Calls a method; retries as the status allows.

        Args:
            method: Of the stub.
            request: The message.
            reach: Seconds until the address must be reached.
        """
        client = self._client

        def attempt() -> Awaitable[Any]:
            metadata, most = client.credentials.metadata, self._info.max_request_bytes
            return call(method, request, timeout=client.timeout, metadata=metadata, max_bytes=most)

        try:
            return await patiently(attempt, Patience(client.patience, reach, self._channel))
        except CallError as error:
            if error.consequence.outcome is Outcome.REFUSED and reach == math.inf:
                raise _Refused(str(error)) from None
            raise self._error(f"{error} ({error.code.name}, {error.reason})") from None

    def _error(self, problem: str, fix: str = "") -> ModelError:
        return ModelError(" ".join(f"the model server at {self._client.endpoint}: {problem}".split()), fix=fix)


class _Refused(Exception):
    """The server's policy refuses the prompt."""


def user(pieces: Sequence[Any], role: model.Role.ValueType = model.ROLE_USER) -> model.Message:
    """Returns a message of texts and images; images are encoded bytes, or Pillow images, which become PNGs."""
    message = model.Message(role=role)
    for piece in pieces:
        if isinstance(piece, str):
            message.parts.add(text=piece)
        else:
            data = piece if isinstance(piece, bytes) else png(piece)
            message.parts.add(image=model.Image(data=data, media_type=media_type(data)))
    return message


def text_of(response: model.GenerateResponse) -> str:
    """Returns the text of an answer."""
    return "".join(part.text for part in response.parts)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end; in a new thread if this one has an event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
