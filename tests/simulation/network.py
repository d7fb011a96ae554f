"""Channels, servers and a scorer that speak the contract's own bytes; what goes wrong is drawn from the seed."""

from __future__ import annotations

import asyncio
import hashlib
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import StatusError
from lyncean.scorer.v1 import scorer_pb2 as scorer
from scorer.metrics import metrics
from scorer.rules import rules
from scorer.scoring import Scorer
from scorer.service import Servicer
from scorer.telemetry import Telemetry
from simulation.court import JUDGES

S = grpc.StatusCode
READY, IDLE = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.IDLE
FOREIGN = (S.UNIMPLEMENTED, S.NOT_FOUND, S.FAILED_PRECONDITION, S.PERMISSION_DENIED)
"""Response of an ingress without a route; it does not come from the model."""
BESIDE = ContextVar("BESIDE", default=False)
"""Whether a call is of the same command once more, at the same time."""
PASSING = (S.UNAVAILABLE, S.RESOURCE_EXHAUSTED, S.INTERNAL, S.DEADLINE_EXCEEDED, S.UNKNOWN, S.ABORTED)


def failure(code: S, words: str, reason: str = "", domain: str = "lyncean", **facts: str) -> grpc.aio.AioRpcError:
    """Returns a status as a channel raises it, with ErrorInfo where there is a reason."""
    trailers: list[tuple[str, bytes]] = []
    if reason:
        detail = any_pb2.Any()
        detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=facts))
        status = status_pb2.Status(code=code.value[0], message=words, details=[detail])
        trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailers), details=words)


@dataclass
class Weather:
    """Current probabilities of faults per call. All zero: no faults."""

    mutated: float = 0.0
    foreign: float = 0.0
    passing: float = 0.0
    lost: float = 0.0
    partition: float = 0.0
    forgotten: float = 0.0
    scorer_breaks: float = 0.0
    scorer_mutated: float = 0.0
    scorer_slow: float = 0.0


@dataclass
class Network:
    """All peers of a run, by address."""

    draw: random.Random
    weather: Weather = field(default_factory=Weather)
    servers: dict[str, ModelServer | None] = field(default_factory=dict)
    channels: list[Channel] = field(default_factory=list)
    history: set[tuple[str, str, str, int]] = field(default_factory=set)
    """(address, prompt, boot, checkpoint) of each answer that a server sent whole; a prompt as `asked_for` has it."""
    by_hash: int = 0
    """Files that came by their hash alone and were held."""
    together: int = 0
    """Outputs that were answered in one response with others."""
    calls: list[float] = field(default_factory=list)
    """Times of this command's calls of Generate or Likelihood."""
    delivered: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, question and address of each whole answer that this command was given."""
    failed: Counter[tuple[str, S]] = field(default_factory=Counter)
    """Number of statuses with which each question of this command ended."""
    shaken: Counter[str] = field(default_factory=Counter)
    """Times in this command that the server at an address may have been unknown: each loses calls in flight."""
    scorer_up: bool = True
    scorer_silent: bool = False
    unknown: dict[str, str] = field(default_factory=dict)
    """Names that cannot be looked up now, each "wrong" or "silent"."""
    judging: Servicer | None = None
    """A scorer with a judge, where this command has one."""
    others: dict[str, ModelServer] = field(default_factory=dict)
    """Servers that share the calls of an address with its own."""

    async def look_up(self, work: Any, _name: str) -> list[Any]:
        """Looks a name up, in place of a thread with the system's resolver: model-1 stands for 10.0.0.1."""
        host, port = work.args
        await asyncio.sleep(self.draw.uniform(0.0, 0.1))
        match self.unknown.get(host):
            case "silent":
                await asyncio.sleep(1e6)
            case "wrong":
                raise OSError(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host.replace("model-", "10.0.0."), port))]

    def answered(self) -> list[str]:
        """Returns what was answered in this command."""
        return [prompt for _, prompt, _ in self.delivered]

    def repeated(self) -> Counter[str]:
        """Counts answers of this command that were asked for again, by the address that each came from in vain."""
        kept = {prompt: at for at, (_, prompt, _) in enumerate(self.delivered)}
        return Counter(address for at, (_, prompt, address) in enumerate(self.delivered) if kept[prompt] != at)

    def count_failure(self, address: str, method: str, data: bytes, code: S) -> None:
        """Counts a call that ends with a status."""
        if method == "GetModelInfo":
            self.shaken[address] += 1
        else:
            self.failed.update((prompt, code) for prompt in _asked_in(method, data))

    def note(self, address: str, server: ModelServer, prompts: Iterable[str]) -> None:
        """Takes down what a server has answered."""
        self.history.update((address, prompt, server.boot, server.checkpoint) for prompt in prompts)

    def dial(self, address: str, _credentials: Any = None) -> Channel:
        """Returns a channel, in place of `lyncean.rpc.dial`."""
        channel = Channel(self, address)
        self.channels.append(channel)
        return channel

    def rotate(self, address: str, server: ModelServer | None) -> None:
        """Sends new connections of an address elsewhere, and ends the old ones without a word."""
        self.servers[address] = server
        self.shaken[address] += 1
        for channel in self.channels:
            if channel.address == address:
                channel.hang_up()

    def swap(self, address: str, server: ModelServer) -> None:
        """Has another server answer from now on, the connections that there are included: a proxy did it."""
        self.servers[address] = server
        self.shaken[address] += 1
        for channel in self.channels:
            if channel.address == address:
                channel.hand_over(server)

    def balance(self, address: str, server: ModelServer | None) -> None:
        """Has a proxy spread the calls of an address over its server and another; None ends that."""
        self.shaken[address] += 1
        self.others.pop(address, None)
        if server:
            self.others[address] = server

    def answering(self, address: str, server: ModelServer) -> ModelServer:
        """Returns who answers this call."""
        other = self.others.get(address)
        if not other or self.draw.random() >= 0.3:
            return server
        self.shaken[address] += 1
        return other

    def begin(self) -> None:
        """Forgets what is of one command."""
        self.channels.clear()
        self.delivered.clear()
        self.failed.clear()
        self.shaken.clear()
        self.others = {}
        self.scorer_up, self.scorer_silent, self.unknown = True, False, {}


class ModelServer:
    """A model server, written from the .proto.

    Args:
        checkpoint: Which weights it serves: named in `model_revision`, and told by each answer (as its image tokens).
        boot: Which start of it this is; "" for a server that does not say.
        likelihood: Whether it claims and answers Likelihood.
        batch: Whether it claims and answers Batch.
        samples: Most outputs of a request; 0 for a server that has one.
        claimed: Bytes of files that it says it holds; 0 for a server that holds none.
        held: Bytes that it holds.
    """

    def __init__(
        self,
        checkpoint: int,
        boot: str = "",
        *,
        likelihood: bool = True,
        batch: bool = False,
        samples: int = 0,
        claimed: int = 0,
        held: int = 0,
    ) -> None:
        self.checkpoint, self.boot, self.likelihood, self.batch = checkpoint, boot, likelihood, batch
        self.samples, self.claimed, self.held = samples, claimed, held
        self.files: dict[bytes, bytes] = {}
        self.by_hash = 0

    def info(self) -> model.GetModelInfoResponse:
        """Answers GetModelInfo."""
        claims = [model.CAPABILITY_GENERATE, model.CAPABILITY_IMAGE_INPUT]
        claims += [model.CAPABILITY_LIKELIHOOD] if self.likelihood else []
        claims += [model.CAPABILITY_BATCH] if self.batch else []
        claims += [model.CAPABILITY_SAMPLES, model.CAPABILITY_SEED] if self.samples else []
        claims += [model.CAPABILITY_MEDIA_BY_HASH] if self.claimed else []
        info = model.GetModelInfoResponse(
            model_name="model",
            model_revision=f"r{self.checkpoint}",
            capabilities=claims,
            max_concurrency=8 if self.batch else 3,  # a Batch takes half of what may be in flight
            max_waiting=2,
            max_samples=self.samples,
            max_held_bytes=self.claimed,
        )
        info.boot_id = self.boot
        return info

    def answer(self, method: str, data: bytes, brought: Mapping[bytes, bytes] | None = None) -> tuple[list[str], bytes]:
        """Returns what was asked for, output by output, and the response, or raises the status.

        Args:
            method: Of the two.
            data: The request.
            brought: Files that other calls of the same Batch bring.
        """
        if method == "Likelihood":
            if not self.likelihood:
                raise failure(S.UNIMPLEMENTED, "no likelihood", "unimplemented")
            request = model.LikelihoodRequest.FromString(data)
            prompt, seen = request.messages[-1].parts[0].text, self._seen(request.messages, brought or {})
            best = _digest(prompt + seen, self.checkpoint) % len(request.continuations)
            scored = model.LikelihoodResponse(usage=model.Usage(input_tokens=9, image_tokens=self.checkpoint))
            for place in range(len(request.continuations)):
                scored.scores.add(logprob=-1.0 if place == best else -2.0 - place, token_count=1)
            _identify(scored, self)
            return [asked_for(prompt)], scored.SerializeToString()
        asked = model.GenerateRequest.FromString(data)
        prompt, seen = asked.messages[-1].parts[0].text, self._seen(asked.messages, brought or {})
        if " long" in prompt:
            raise failure(S.OUT_OF_RANGE, "the prompt is too long", "context_overflow")
        if " denied" in prompt:
            raise failure(S.PERMISSION_DENIED, "not this one", "policy")
        seeds = [asked.config.seed + place for place in range(max(1, asked.samples))]
        answers = []
        for seed in seeds:
            text = "" if " mute" in prompt else "AB"[_digest(f"{prompt}{seen}{seed}", self.checkpoint) % 2]
            answers.append(
                model.GenerateResponse(
                    parts=[model.Part(text=text)],
                    finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
                    usage=model.Usage(input_tokens=9, image_tokens=self.checkpoint, output_tokens=1),
                )
            )
        answer = answers[0]
        if asked.samples > 1:
            outputs = [model.Sample.FromString(each.SerializeToString()) for each in answers]
            answer = model.GenerateResponse(samples=[model.SampleResult(output=output) for output in outputs])
        _identify(answer, self)
        return [asked_for(prompt, seed) for seed in seeds], answer.SerializeToString()

    def _seen(self, messages: Iterable[model.Message], brought: Mapping[bytes, bytes]) -> str:
        """Returns what the images show, and holds those that come with their hashes."""
        images = [part.image for message in messages for part in message.parts if part.HasField("image")]
        seen, missing = "", []
        for image in images:
            data = image.data or brought.get(image.sha256) or self.files.get(image.sha256)
            if data is None:
                missing.append(image.sha256.hex())
                continue
            own = hashlib.sha256(data).digest()
            if image.data and image.sha256 not in (b"", own):
                raise failure(S.INVALID_ARGUMENT, "another hash", "hash_mismatch")
            self.by_hash += not image.data
            if image.sha256:
                self.files[own] = self.files.pop(own, data)
            seen += own.hex()
        while sum(map(len, self.files.values())) > self.held:
            del self.files[next(iter(self.files))]
        if missing:
            raise failure(S.NOT_FOUND, "not held", "media_not_held", sha256=",".join(missing))
        return seen


def _asked_in(method: str, data: bytes) -> list[str]:
    """Returns what a request asks for, output by output."""
    if method == "Likelihood":
        return [asked_for(model.LikelihoodRequest.FromString(data).messages[-1].parts[0].text)]
    asked = model.GenerateRequest.FromString(data)
    text = asked.messages[-1].parts[0].text
    return [asked_for(text, asked.config.seed + place) for place in range(max(1, asked.samples))]


def asked_for(prompt: str, seed: int = 0) -> str:
    """Returns what tells one output from all others."""
    return f"{prompt}|{seed}"


def _identify(message: Any, server: ModelServer) -> None:
    """Puts the server's identity into a response, where the server says it."""
    if server.boot:
        message.served_by.model_revision = f"r{server.checkpoint}"
        message.served_by.boot_id = server.boot


@lru_cache(10_000)
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
            brought = _brought(calls)
            ends = asyncio.get_running_loop().time() + (timeout or 1e9)
            for index in self._net.draw.sample(range(len(calls)), len(calls)):
                kind = calls[index].WhichOneof("request")
                data = getattr(calls[index], kind).SerializeToString()
                result = model.BatchResult(index=index)
                place = result.DESCRIPTOR.fields_by_name[kind].number
                try:
                    left = ends - asyncio.get_running_loop().time()
                    answer = await asyncio.wait_for(self._unary(kind.capitalize(), data, brought), left)
                except TimeoutError:
                    raise failure(S.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
                except grpc.aio.AioRpcError as error:
                    if error.code() is S.UNAVAILABLE or self._net.draw.random() < 0.2:
                        raise  # the whole call ends with it
                    answer, place = _status(error), result.DESCRIPTOR.fields_by_name["status"].number
                yield _parsed(response_deserializer, _field(1, _head(index) + _field(place, answer)))

        return call

    async def _unary(self, method: str, data: bytes, brought: Mapping[bytes, bytes] | None = None) -> bytes:
        net, weather, draw = self._net, self._net.weather, self._net.draw
        if method != "GetModelInfo" and not BESIDE.get():
            net.calls.append(asyncio.get_running_loop().time())
        await asyncio.sleep(draw.uniform(0.01, 0.4))
        server = net.answering(self.address, self.connected())
        roll = draw.random()
        for share, code in ((weather.foreign, draw.choice(FOREIGN)), (weather.passing, draw.choice(PASSING))):
            if roll < share:
                if code in PASSING or method == "GetModelInfo":  # what a proxy says is tried more often
                    net.count_failure(self.address, method, data, code)
                raise failure(code, "upstream")
            roll -= share
        if roll < weather.partition:
            net.count_failure(self.address, method, data, S.DEADLINE_EXCEEDED)
            await asyncio.sleep(1e6)
        if method == "GetModelInfo":
            return server.info().SerializeToString()
        if weather.forgotten and draw.random() < weather.forgotten:
            server.files.clear()
        before = server.by_hash
        try:
            prompts, answer = server.answer(method, data, brought)
        except grpc.aio.AioRpcError as error:
            net.count_failure(self.address, method, data, error.code())
            raise
        net.by_hash += server.by_hash - before
        await asyncio.sleep(draw.uniform(0.01, 1.0))
        if draw.random() < weather.lost:
            raise failure(S.UNAVAILABLE, "Socket closed")
        if draw.random() < weather.mutated and (lie := mutated(draw, method, answer)) != answer:
            net.note(self.address, server, _untouched(prompts, answer, lie))
            return lie
        if len(prompts) > 1:
            net.together += len(prompts)
            answer, prompts = _some_failed(draw, weather.passing, answer, prompts)
        net.note(self.address, server, prompts)
        now = asyncio.get_running_loop().time()
        net.delivered += [(now, prompt, self.address) for prompt in prompts]
        return answer

    async def _list_rules(self) -> bytes:
        await asyncio.sleep(0.01)
        if not self._net.scorer_up:
            raise failure(S.UNAVAILABLE, "failed to connect to all addresses")
        self._set(READY)
        return _listing(judged=self._net.judging is not None)

    def stream_stream(self, path: str, request_serializer: Any = None, response_deserializer: Any = None) -> Any:
        return lambda requests=None, metadata=None: _ScoreStream(self._net, response_deserializer, requests)


def _brought(calls: Iterable[model.BatchCall]) -> dict[bytes, bytes]:
    """Returns the files of a Batch by their hash; one under a wrong hash is left for its own call."""
    requests = (getattr(call, str(call.WhichOneof("request"))) for call in calls)
    images = (part.image for each in requests for message in each.messages for part in message.parts)
    return {each.sha256: each.data for each in images if hashlib.sha256(each.data).digest() == each.sha256}


def _some_failed(draw: random.Random, share: float, answer: bytes, prompts: list[str]) -> tuple[bytes, list[str]]:
    """Has some of several outputs fail; returns the response and what was asked for of the others."""
    response, left = model.GenerateResponse.FromString(answer), []
    for prompt, result in zip(prompts, response.samples, strict=True):
        if draw.random() < share:
            result.status.CopyFrom(
                status_pb2.Status.FromString(_status(failure(draw.choice(PASSING), "it fails", "no")))
            )
        else:
            left.append(prompt)
    return response.SerializeToString(), left


def _untouched(prompts: list[str], answer: bytes, lie: bytes) -> list[str]:
    """Returns what was asked for of the outputs that are still those of the answer, where there are several."""
    told = _parsed(model.GenerateResponse.FromString, lie)
    whole = model.GenerateResponse.FromString(answer).samples if len(prompts) > 1 else ()
    if told is None or not len(prompts) == len(whole) == len(told.samples):
        return []
    return [prompt for prompt, one, other in zip(prompts, whole, told.samples, strict=True) if one == other]


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
        async for reply in self._replies():
            await asyncio.sleep(self._net.draw.uniform(0.0, 0.3))
            if self._net.draw.random() < self._net.weather.scorer_slow:
                await asyncio.sleep(self._net.draw.uniform(1.0, 90.0))
            while self._net.scorer_silent:
                await asyncio.sleep(1.0)
            if self._net.draw.random() < self._net.weather.scorer_breaks or not self._net.scorer_up:
                self._error = failure(S.UNAVAILABLE, "Socket closed")
                raise self._error
            data = reply.SerializeToString()
            if self._net.draw.random() < self._net.weather.scorer_mutated:
                data = self._net.draw.choice([*_RAW, *_SCORER])(self._net.draw, data)
            yield _parsed(self._read, data)

    async def _replies(self) -> AsyncIterator[scorer.ScorerServiceScoreResponse]:
        try:
            async for reply in (self._net.judging or _servicer()).Score(self._items(), _Context()):
                yield reply
        except StatusError as error:
            self._error = failure(error.code, str(error), error.reason)
            raise self._error from None

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
def _listing(judged: bool) -> bytes:
    from scorer.listing import listing

    listed = listing(rules(), metrics())
    listed.judges.extend(JUDGES if judged else ())
    return listed.SerializeToString()


def mutated(draw: random.Random, method: str, data: bytes) -> bytes:
    """Returns a response that no server may send: the grammar's rule is drawn, and its operand."""
    several = method == "Generate" and model.GenerateResponse.FromString(data).samples
    return draw.choice([*_RAW, *(_SAMPLES if several else _GENERATE if method == "Generate" else _LIKELIHOOD)])(
        draw, data
    )


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


SampleChange = Callable[[random.Random, model.SampleResult], object]


def _sample(change: SampleChange) -> Mutation:
    return _generate(lambda draw, m: change(draw, draw.choice(m.samples)))


_SAMPLES: list[Mutation] = [
    _generate(lambda draw, m: m.ClearField("samples")),
    _generate(lambda draw, m: m.samples.pop()),
    _generate(lambda draw, m: m.samples.extend(m.samples[:1])),
    _sample(lambda draw, s: s.ClearField("output")),
    _sample(lambda draw, s: s.output.ClearField("parts")),
    _sample(lambda draw, s: s.output.ClearField("finish_reason")),
    _sample(lambda draw, s: setattr(s.output.parts[0], "text", "B" * 200_000)),
    _sample(lambda draw, s: s.status.SetInParent()),
]


def _score(name: str, *values: float) -> Mutation:
    return _likelihood(lambda draw, m: setattr(draw.choice(m.scores), name, draw.choice(values)))


_LIKELIHOOD: list[Mutation] = [
    _likelihood(lambda draw, m: m.scores.pop()),
    _likelihood(lambda draw, m: m.scores.extend(list(m.scores))),
    _likelihood(lambda draw, m: m.ClearField("scores")),
    _score("logprob", float("nan"), float("inf"), 0.5),
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


def mutations_of_samples() -> Iterator[Mutation]:
    """Yields every rule for a response with several outputs."""
    yield from (*_RAW, *_SAMPLES)
