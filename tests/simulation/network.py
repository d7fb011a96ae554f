"""Channels, servers and a scorer that speak the contract's own bytes; what goes wrong is drawn from the seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from scorer.metrics import metrics
from scorer.rules import rules
from scorer.scoring import Scorer
from scorer.service import Servicer
from scorer.telemetry import Telemetry

S = grpc.StatusCode
READY, IDLE = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.IDLE
FOREIGN = (S.UNIMPLEMENTED, S.NOT_FOUND, S.FAILED_PRECONDITION, S.PERMISSION_DENIED)
"""What an ingress says where its route is away: no word of the model's."""
PASSING = (S.UNAVAILABLE, S.RESOURCE_EXHAUSTED, S.INTERNAL, S.DEADLINE_EXCEEDED, S.UNKNOWN, S.ABORTED)


def failure(code: S, words: str, reason: str = "", domain: str = "lyncean") -> grpc.aio.AioRpcError:
    """Returns a status as a channel raises it, with ErrorInfo where there is a reason."""
    trailers: list[tuple[str, bytes]] = []
    if reason:
        detail = any_pb2.Any()
        detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain))
        status = status_pb2.Status(code=code.value[0], message=words, details=[detail])
        trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details=words)


@dataclass
class Weather:
    """What may go wrong now, as probabilities per call. All zero: nothing does."""

    mutated: float = 0.0
    foreign: float = 0.0
    passing: float = 0.0
    lost: float = 0.0
    partition: float = 0.0
    scorer_breaks: float = 0.0
    scorer_mutated: float = 0.0


@dataclass
class Network:
    """All peers of a run, by address."""

    draw: random.Random
    weather: Weather = field(default_factory=Weather)
    servers: dict[str, ModelServer | None] = field(default_factory=dict)
    channels: list[Channel] = field(default_factory=list)
    history: set[tuple[str, str, str, int]] = field(default_factory=set)
    """(address, prompt, boot, checkpoint) of each answer that a server sent whole."""
    calls: list[float] = field(default_factory=list)
    """When each call of Generate or Likelihood was made."""
    scorer_up: bool = True

    def dial(self, address: str, _credentials: Any = None) -> Channel:
        """Returns a channel, in place of `lyncean.rpc.dial`."""
        channel = Channel(self, address)
        self.channels.append(channel)
        return channel

    def rotate(self, address: str, server: ModelServer | None) -> None:
        """Sends new connections of an address elsewhere, and ends the old ones without a word."""
        self.servers[address] = server
        for channel in self.channels:
            if channel.address == address:
                channel.hang_up()

    def swap(self, address: str, server: ModelServer) -> None:
        """Has another server answer from now on, the connections that there are included: a proxy did it."""
        self.servers[address] = server
        for channel in self.channels:
            if channel.address == address:
                channel.hand_over(server)


class ModelServer:
    """A model server, written from the .proto.

    Args:
        checkpoint: Which weights it serves: named in `model_revision`, and told by each answer (as its image tokens).
        boot: Which start of it this is; "" for a server that does not say.
        likelihood: Whether it claims and answers Likelihood.
        batch: Whether it claims and answers Batch.
    """

    def __init__(self, checkpoint: int, boot: str = "", *, likelihood: bool = True, batch: bool = False) -> None:
        self.checkpoint, self.boot, self.likelihood, self.batch = checkpoint, boot, likelihood, batch

    def info(self) -> model.GetModelInfoResponse:
        """Answers GetModelInfo."""
        claims = [model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT]
        claims += [model.CAPABILITY_LIKELIHOOD] if self.likelihood else []
        claims += [model.CAPABILITY_BATCH] if self.batch else []
        info = model.GetModelInfoResponse(
            model_name="model",
            model_revision=f"r{self.checkpoint}",
            capabilities=claims,
            max_concurrency=8 if self.batch else 3,  # a Batch takes half of what may be in flight
            max_waiting=2,
        )
        info.boot_id = self.boot
        return info

    def answer(self, method: str, data: bytes) -> tuple[str, bytes]:
        """Returns the prompt and the response, or raises the status."""
        if method == "Likelihood":
            if not self.likelihood:
                raise failure(S.UNIMPLEMENTED, "no likelihood", "unimplemented")
            request = model.LikelihoodRequest.FromString(data)
            prompt = request.messages[-1].parts[0].text
            best = _digest(prompt, self.checkpoint) % len(request.continuations)
            scored = model.LikelihoodResponse(usage=model.Usage(input_tokens=9, image_tokens=self.checkpoint))
            for place in range(len(request.continuations)):
                scored.scores.add(logprob=-1.0 if place == best else -2.0 - place, token_count=1)
            _identify(scored, self)
            return prompt, scored.SerializeToString()
        asked = model.GenerateRequest.FromString(data)
        prompt = asked.messages[-1].parts[0].text
        if " long" in prompt:
            raise failure(S.OUT_OF_RANGE, "the prompt is too long", "context_overflow")
        if " denied" in prompt:
            raise failure(S.PERMISSION_DENIED, "not this one", "policy")
        text = "" if " mute" in prompt else "AB"[_digest(prompt, self.checkpoint) % 2]
        answer = model.GenerateResponse(
            parts=[model.Part(text=text)],
            finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
            usage=model.Usage(input_tokens=9, image_tokens=self.checkpoint, output_tokens=1),
        )
        _identify(answer, self)
        return prompt, answer.SerializeToString()


def _identify(message: Any, server: ModelServer) -> None:
    """Puts the server's identity into a response, where the server says it."""
    if server.boot:
        message.served_by.model_revision = f"r{server.checkpoint}"
        message.served_by.boot_id = server.boot


def _digest(prompt: str, checkpoint: int) -> int:
    return random.Random(f"{prompt}|{checkpoint}").getrandbits(30)


class Channel:
    """A channel as `grpc.aio` has them: one connection at a time, to whoever holds the address then."""

    def __init__(self, network: Network, address: str) -> None:
        self.address, self._net = address, network
        self._server: ModelServer | None = None
        self._state = IDLE
        self._changed = asyncio.Event()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._state

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        while self._state is last_observed_state:
            self._changed.clear()
            await self._changed.wait()

    def hang_up(self) -> None:
        self._server = None
        self._set(IDLE)

    def hand_over(self, server: ModelServer) -> None:
        if self._server is not None:
            self._server = server

    def _set(self, state: grpc.ChannelConnectivity) -> None:
        if self._state is not state:
            self._state = state
            self._changed.set()

    def connected(self) -> ModelServer:
        """Returns the server of the connection, made now if there is none."""
        if self._server is None:
            server = self._net.servers.get(self.address)
            if server is None:
                raise failure(S.UNAVAILABLE, "failed to connect to all addresses")
            self._server = server
            self._set(READY)
        return self._server

    async def close(self) -> None:
        self._set(grpc.ChannelConnectivity.SHUTDOWN)

    def unary_unary(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Any:
        method = path.rpartition("/")[2]

        async def call(request: Any, timeout: float | None = None, metadata: Any = None) -> Any:
            data = request if isinstance(request, bytes) else request.SerializeToString()
            if "ScorerService" in path:
                return _parsed(response_deserializer, await self._list_rules())
            try:
                answer = await asyncio.wait_for(self._unary(method, data), timeout)
            except TimeoutError:
                raise failure(S.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
            return _parsed(response_deserializer, answer)

        return call

    def unary_stream(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Any:
        async def call(request: Any, timeout: float | None = None, metadata: Any = None) -> AsyncIterator[Any]:
            calls = model.BatchRequest.FromString(request).calls
            ends = asyncio.get_running_loop().time() + (timeout or 1e9)
            for index in self._net.draw.sample(range(len(calls)), len(calls)):
                kind = calls[index].WhichOneof("request")
                data = getattr(calls[index], kind).SerializeToString()
                result = model.BatchResult(index=index)
                place = result.DESCRIPTOR.fields_by_name[kind].number
                try:
                    left = ends - asyncio.get_running_loop().time()
                    answer = await asyncio.wait_for(self._unary(kind.capitalize(), data), left)
                except TimeoutError:
                    raise failure(S.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
                except grpc.aio.AioRpcError as error:
                    if error.code() is S.UNAVAILABLE or self._net.draw.random() < 0.2:
                        raise  # the whole call ends with it
                    answer, place = _status(error), result.DESCRIPTOR.fields_by_name["status"].number
                yield _parsed(response_deserializer, _field(1, _head(index) + _field(place, answer)))

        return call

    async def _unary(self, method: str, data: bytes) -> bytes:
        net, weather, draw = self._net, self._net.weather, self._net.draw
        if method != "GetModelInfo":
            net.calls.append(asyncio.get_running_loop().time())
        await asyncio.sleep(draw.uniform(0.01, 0.4))
        server = self.connected()
        roll = draw.random()
        for share, code in ((weather.foreign, draw.choice(FOREIGN)), (weather.passing, draw.choice(PASSING))):
            if roll < share:
                raise failure(code, "upstream")
            roll -= share
        if roll < weather.partition:
            await asyncio.sleep(1e6)
        if method == "GetModelInfo":
            return server.info().SerializeToString()
        prompt, answer = server.answer(method, data)
        await asyncio.sleep(draw.uniform(0.01, 1.0))
        if draw.random() < weather.lost:
            raise failure(S.UNAVAILABLE, "Socket closed")
        if draw.random() < weather.mutated and (lie := mutated(draw, method, answer)) != answer:
            return lie
        net.history.add((self.address, prompt, server.boot, server.checkpoint))
        return answer

    async def _list_rules(self) -> bytes:
        await asyncio.sleep(0.01)
        if not self._net.scorer_up:
            raise failure(S.UNAVAILABLE, "failed to connect to all addresses")
        self._set(READY)
        return _listing()

    def stream_stream(self, path: str, request_serializer: Any = None, response_deserializer: Any = None) -> Any:
        return lambda requests=None, metadata=None: _ScoreStream(self._net, response_deserializer, requests)


def _status(error: grpc.aio.AioRpcError) -> bytes:
    """Returns the google.rpc.Status that ends a call by itself."""
    trailers = dict(error.trailing_metadata() or ())
    plain = status_pb2.Status(code=error.code().value[0], message=error.details() or "")
    return bytes(trailers.get("grpc-status-details-bin") or plain.SerializeToString())


def _parsed(read: Callable[[bytes], Any], data: bytes) -> Any:
    """Returns a message, None where the bytes are none: what grpc.aio hands on."""
    try:
        return read(data)
    except Exception:
        return None


def _field(number: int, content: bytes) -> bytes:
    """Returns a length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _head(index: int) -> bytes:
    return b"\x08" + _varint(index)


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


class _Context:
    def cancelled(self) -> bool:
        return False


class _ScoreStream:
    """A stream of ScorerService.Score over the real servicer."""

    def __init__(self, network: Network, read: Callable[[bytes], Any], requests: Any = None) -> None:
        self._net, self._read, self._given = network, read, requests
        self._requests: asyncio.Queue[scorer.ScorerServiceScoreRequest | None] = asyncio.Queue()
        self._error: grpc.aio.AioRpcError | None = None

    async def _items(self) -> AsyncIterator[scorer.ScorerServiceScoreRequest]:
        if self._given is not None:
            async for request in self._given:
                yield scorer.ScorerServiceScoreRequest.FromString(request.SerializeToString())
            return
        while (request := await self._requests.get()) is not None:
            yield request

    async def write(self, message: scorer.ScorerServiceScoreRequest) -> None:
        if self._error:
            raise self._error
        await asyncio.sleep(0)
        self._requests.put_nowait(scorer.ScorerServiceScoreRequest.FromString(message.SerializeToString()))

    async def done_writing(self) -> None:
        self._requests.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[scorer.ScorerServiceScoreResponse]:
        if not self._net.scorer_up:
            self._error = failure(S.UNAVAILABLE, "failed to connect to all addresses")
            raise self._error
        async for reply in _servicer().Score(self._items(), _Context()):
            await asyncio.sleep(self._net.draw.uniform(0.0, 0.3))
            if self._net.draw.random() < self._net.weather.scorer_breaks or not self._net.scorer_up:
                self._error = failure(S.UNAVAILABLE, "Socket closed")
                raise self._error
            data = reply.SerializeToString()
            if self._net.draw.random() < self._net.weather.scorer_mutated:
                data = self._net.draw.choice([*_RAW, *_SCORER])(self._net.draw, data)
            yield _parsed(self._read, data)

    async def code(self) -> S:
        return self._error.code() if self._error else S.OK

    async def details(self) -> str:
        return "ended"

    def cancel(self) -> None:
        self._requests.put_nowait(None)


@cache
def _servicer() -> Servicer:
    return Servicer(Scorer(rules()), metrics(), (), Telemetry())


@cache
def _listing() -> bytes:
    from scorer.listing import listing

    return listing(rules(), metrics()).SerializeToString()


def mutated(draw: random.Random, method: str, data: bytes) -> bytes:
    """Returns a response that no server may send: the grammar's rule is drawn, and its operand."""
    return draw.choice([*_RAW, *(_GENERATE if method == "Generate" else _LIKELIHOOD)])(draw, data)


Mutation = Callable[[random.Random, bytes], bytes]


def _changed(kind: type[Any], change: Callable[[random.Random, Any], object]) -> Mutation:
    def apply(draw: random.Random, data: bytes) -> bytes:
        message = kind.FromString(data)
        change(draw, message)
        return bytes(message.SerializeToString())

    return apply


_generate = partial(_changed, model.GenerateResponse)
_likelihood = partial(_changed, model.LikelihoodResponse)
_RAW: list[Mutation] = [
    lambda draw, data: b"",
    lambda draw, data: draw.randbytes(draw.randint(1, 40)) + b"\xff",
    lambda draw, data: data[: draw.randrange(1, 4)],
]
_IMAGE = model.Part(image=model.Image(data=b"\x89PNG", media_type="image/png"))
_GENERATE: list[Mutation] = [
    lambda draw, data: data.replace(b"\x0a\x01A", b"\x0a\x01\xff").replace(b"\x0a\x01B", b"\x0a\x01\xfe"),
    _generate(lambda draw, m: m.ClearField("parts")),
    _generate(lambda draw, m: m.ClearField("finish_reason")),
    _generate(lambda draw, m: setattr(m, "finish_reason", draw.randint(60, 99))),
    _generate(lambda draw, m: m.parts[0].CopyFrom(_IMAGE)),
    _generate(lambda draw, m: m.parts.append(model.Part())),
    _generate(lambda draw, m: setattr(m.parts[0], "text", "B" * 200_000)),
]


def _score(name: str, *values: float) -> Mutation:
    return _likelihood(lambda draw, m: setattr(draw.choice(m.scores), name, draw.choice(values)))


_LIKELIHOOD: list[Mutation] = [
    _likelihood(lambda draw, m: m.scores.pop()),
    _likelihood(lambda draw, m: m.scores.extend(list(m.scores))),
    _likelihood(lambda draw, m: m.ClearField("scores")),
    _score("logprob", float("nan"), float("inf"), float("-inf"), 0.5),
    _score("token_count", 0),
]


_scorer = partial(_changed, scorer.ScorerServiceScoreResponse)


def _verdict(change: Callable[[random.Random, scorer.Verdict], object]) -> Mutation:
    return _scorer(lambda draw, m: change(draw, draw.choice(m.verdicts)) if m.verdicts else None)


def _summary(change: Callable[[scorer.Summary], object]) -> Mutation:
    return _scorer(lambda draw, m: change(m.summary) if m.HasField("summary") else None)


_SCORER: list[Mutation] = [
    _verdict(lambda draw, v: setattr(v, "outcome", draw.choice(["", "right", "failed", "rejected"]))),
    _verdict(lambda draw, v: setattr(v, "score", draw.choice([float("nan"), float("inf")]))),
    _verdict(lambda draw, v: v.ClearField("score")),
    _verdict(lambda draw, v: setattr(v, "key", draw.choice(["", "world/999", v.key + " "]))),
    _verdict(lambda draw, v: v.span.CopyFrom(scorer.Span(start=5, end=900))),
    _scorer(lambda draw, m: m.verdicts.pop() if m.verdicts else None),
    _scorer(lambda draw, m: m.verdicts.extend(m.verdicts[:1])),
    _summary(lambda s: setattr(s.counts, "planned", s.counts.planned + 1)),
    _summary(lambda s: s.counts.CopyFrom(scorer.Counts(planned=s.counts.planned, failed=s.counts.planned))),
    _summary(lambda s: s.ClearField("metrics")),
    _summary(lambda s: s.metrics.extend(s.metrics[:1])),
    _scorer(lambda draw, m: m.ClearField("summary")),
]


def mutations() -> Iterator[tuple[str, Mutation]]:
    """Yields every rule of the grammar with the method that it is for."""
    for method, rules_ in (("Generate", _GENERATE), ("Likelihood", _LIKELIHOOD)):
        for rule in (*_RAW, *rules_):
            yield method, rule
