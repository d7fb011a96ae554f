"""The `openai` backend: sends requests to the endpoint and translates its answers into the contract."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import openai

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, Unsupported
from lyncean.vocabulary.response_format import plain_regex, schema_of
from model_server.admission import Slots
from model_server.backend import Backend, Call, Output, describe, seconds, usage_since
from model_server.decoding import THINKING_SWITCHES, check_kept, struct_json
from model_server.metrics import Metrics
from model_server.openai_api import drawing, responses
from model_server.openai_api.client import (
    NEW_LIMIT,
    OLD_LIMIT,
    Endpoint,
    Settings,
    ask,
    look,
    looking_client,
    make_client,
)
from model_server.openai_api.conversation import chat, continues
from model_server.openai_api.likelihood import CONTINUED, WITH_IDS, Scorer, no_prompt, put_prompt, turns
from model_server.openai_api.reply import cut_at_stop, encodable, ended_in_reasoning, read, without_end
from model_server.openai_api.tools import ToolProbe, put_tools, rendering
from model_server.openai_api.upstream import Upstream, note_origin
from model_server.parts import calls

_EXACT = ("vllm", "sglang")
"""Engines known to obey top_k, per-request seeds, and choices and regular expressions for an answer."""
_PLAIN = {"repetition_penalty": 1.0, "min_p": 0.0}
"""Settings that these engines would take from the checkpoint's sampling defaults if a request left them unset."""
_OWN = {"messages", "stream", "n", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop"}
_OWN |= CONTINUED.keys()
"""Fields that a request's extra_body may not set: the contract has its own."""
_MOST_SAMPLES = 64


class OpenAIBackend(Backend):
    """Any OpenAI-compatible endpoint.

    Args:
        settings: The endpoint, and its use.
        metrics: The server's counters.
    """

    decodes = False

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._slots = Slots(settings.max_concurrency, settings.max_queue, metrics)
        self._endpoint = Endpoint("other", 0)
        self._client: openai.AsyncOpenAI | None = None
        self._limit_field = OLD_LIMIT
        self._stops_reasoning = False
        self._counts_choices = True
        self._images: drawing.ImagesApi | None = None
        self._scorer = Scorer()
        self._probe, self._responses = ToolProbe(), responses.ResponsesApi()
        self._upstream = Upstream(settings.model, lambda: looking_client(settings))

    def load(self) -> None:
        """Checks that the endpoint is up and serves the model."""
        self._endpoint = look(self._settings)
        asyncio.run(self._upstream.begin())

    def verify(self) -> None:
        """Raises Unavailable while the engine differs from the one at the start."""
        self._upstream.verify()

    def info(self) -> model.GetModelInfoResponse:
        """Describes the endpoint's model as far as it is known; its weights are not."""
        kind = self._endpoint.kind
        claims = {
            model.CAPABILITY_GENERATE: True,
            model.CAPABILITY_LIKELIHOOD: kind == "vllm",
            model.CAPABILITY_IMAGE_INPUT: True,
            model.CAPABILITY_MULTI_IMAGE: True,
            model.CAPABILITY_IMAGE_OUTPUT: bool(self._settings.image_output),
            model.CAPABILITY_AUDIO_INPUT: self._settings.audio_input,
            model.CAPABILITY_VIDEO_INPUT: self._settings.video_input,
            model.CAPABILITY_OUTPUT_LOGPROBS: kind in (*_EXACT, "openai") and self._settings.api == "chat",
            model.CAPABILITY_SEED: kind in _EXACT,
            model.CAPABILITY_REASONING: True,
            model.CAPABILITY_THINKING: kind in _EXACT,
            model.CAPABILITY_CHAT_TEMPLATE_ARGUMENTS: kind in _EXACT,
            model.CAPABILITY_EXTRA_BODY: True,
            model.CAPABILITY_ANSWER_PREFIX: kind == "vllm",
            model.CAPABILITY_RENDERED_PROMPT: kind == "vllm",
            model.CAPABILITY_SAMPLES: kind == "vllm",
            model.CAPABILITY_ANSWER_CHOICES: kind in _EXACT,
            model.CAPABILITY_ANSWER_REGEX: kind in _EXACT,
            model.CAPABILITY_ANSWER_JSON_SCHEMA: True,
            model.CAPABILITY_TOOLS: True,
        }
        return describe(
            claims,
            model_name=self._settings.name or self._settings.model,
            model_revision=self._upstream.revision,
            max_concurrency=self._settings.max_concurrency,
            max_context_tokens=self._endpoint.context,
            max_samples=_MOST_SAMPLES if kind == "vllm" else 0,
            tool_rendering=rendering(kind, self._settings.api),
            properties={"endpoint": kind, "endpoint_model": self._settings.model}
            | ({"image_output": self._settings.image_output} if self._settings.image_output else {}),
        )

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        """Continues one conversation."""
        config = self._effective(request.config)
        if config.top_k and self._endpoint.kind not in _EXACT:
            raise Unsupported("no_top_k", f"the endpoint ({self._endpoint.kind}) knows no top_k: leave it unset")
        draws = request.modality == model.MODALITY_IMAGE
        if draws:
            drawing.check(self._settings.image_output, request)
        fields = await self._conversation(request, config)
        start = time.monotonic()
        async with self._slots.slot():
            sent = time.monotonic()
            if draws:
                response = await self._draw(call, request, fields, config)
            else:
                response = await self._answer(call, fields, config)
        await self._upstream.confirm()
        return await self._finished(response, request, config, usage_since(start, sent))

    async def generate_samples(self, requests: Sequence[model.GenerateRequest], call: Call) -> list[Output]:
        """Continues one conversation with several seeds: vLLM prefills it once, and also draws choice i with seed + i.

        A choice's tokens are counted by their ids. Versions that do not report them get one request per output.
        """
        first, count = requests[0], len(requests)
        if not (self._counts_choices and first.config.temperature):  # vLLM returns a single greedy output
            return await super().generate_samples(requests, call)
        config = self._effective(first.config)
        fields = await self._conversation(first, config) | {"n": count}
        fields["extra_body"] |= WITH_IDS
        start = time.monotonic()
        async with self._slots.slot():
            sent = time.monotonic()
            reply = await self._ask_limited(call, fields, config)
        await self._upstream.confirm()
        choices = sorted(getattr(reply, "choices", None) or (), key=lambda choice: choice.index or 0)
        if len(choices) != count or not all(isinstance(getattr(choice, "token_ids", None), list) for choice in choices):
            self._counts_choices = False
            return await super().generate_samples(requests, call)
        reply.choices, spent = choices, usage_since(start, sent)
        read_choices = (self._choice(reply, index, request, call, spent) for index, request in enumerate(requests))
        return await asyncio.gather(*read_choices, return_exceptions=True)

    async def _choice(
        self, reply: Any, index: int, request: model.GenerateRequest, call: Call, spent: model.Usage
    ) -> model.GenerateResponse:
        config = self._effective(request.config)
        response = read(reply, config, index)
        if ended_in_reasoning(response, config):
            return await self.generate(request, call)
        response.usage.output_tokens = len(reply.choices[index].token_ids)
        response.usage.reasoning_tokens = 0  # the endpoint reports only the sum over all choices
        response.usage.cached_tokens = response.usage.input_tokens if index else response.usage.cached_tokens
        return await self._finished(response, request, config, spent)

    async def _conversation(self, request: model.GenerateRequest, config: model.GenerationConfig) -> dict[str, Any]:
        """Returns the fields of a request."""
        fields = self._fields(config)
        how = {"engine": self._endpoint.kind in _EXACT, "images_in_results": self._settings.api == "responses"}
        fields["messages"] = await asyncio.to_thread(chat, request.messages, **how)
        if request.tools:
            if self._endpoint.kind != "openai":  # OpenAI is known to show them
                await self._probe.check(self._prompt_tokens)
            put_tools(fields, request)
        if continues(request.messages):
            if request.messages[-1].reasoning:  # an answer does not show whether the template kept it
                raise Unsupported("no_reasoning", "the endpoint does not tell what its template makes of reasoning")
            fields["extra_body"] |= CONTINUED
        if request.return_prompt:
            fields["extra_body"] |= WITH_IDS
        return fields

    async def _prompt_tokens(self, messages: list[dict[str, Any]], more: Mapping[str, Any]) -> int:
        """Returns the tokens of a prompt as the endpoint counts them; 0 if it does not count."""
        fields = {"model": self._settings.model, "messages": messages, **more}
        async with self._slots.slot():
            if self._settings.api == "responses":  # its minimum is 16 tokens
                config = model.GenerationConfig(max_output_tokens=16)
                return (await self._respond(Call(), fields, config)).usage.input_tokens
            config = model.GenerationConfig(max_output_tokens=1)
            return read(await self._ask_limited(Call(), fields, config), config).usage.input_tokens

    async def _finished(
        self,
        response: model.GenerateResponse,
        request: model.GenerateRequest,
        config: model.GenerationConfig,
        spent: model.Usage,
    ) -> model.GenerateResponse:
        """Checks a response against its request, and completes it."""
        if self._endpoint.kind in _EXACT:
            without_end(response)
        if request.tools and response.finish_reason == model.FINISH_REASON_TOOL_CALLS and not calls(response.parts):
            response.finish_reason = model.FINISH_REASON_END_OF_SEQUENCE
        check_kept(config, response.finish_reason, "".join(part.text for part in response.parts))
        if config.HasField("thinking") and not config.thinking and response.reasoning:
            raise Unsupported("thinking_stays_on", "the endpoint's model reasons although thinking is off")
        response.usage.MergeFrom(spent)
        for name in self._settings.leave_out:
            response.effective_config.ClearField(name)  # type: ignore[arg-type]
        if request.return_prompt:
            if not response.HasField("prompt"):
                raise no_prompt()
            response.prompt.text = await self._text_of(response.prompt.token_ids)
        else:
            response.ClearField("prompt")
        return response

    async def _draw(
        self, call: Call, request: model.GenerateRequest, fields: dict[str, Any], config: model.GenerationConfig
    ) -> model.GenerateResponse:
        way, timeout = self._settings.image_output, self._settings.timeout
        if way == "chat":
            fields["extra_body"] = {"modalities": ["image", "text"]} | fields["extra_body"]
            reply = await self._ask_limited(call, fields, config)
            response = read(reply, config)
            drawing.add_images(response, reply)
            return response
        if way == "images":
            if self._images is None:
                self._images = drawing.ImagesApi(self._dial(), timeout)
            return await self._images.draw(call, request.messages, self._settings.model, fields["extra_body"])
        if config.HasField("max_output_tokens"):
            fields["max_output_tokens"] = config.max_output_tokens
        response = await drawing.by_responses(self._dial(), call, timeout, fields)
        response.effective_config.CopyFrom(config)
        return response

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        """Scores continuations by the endpoint's log-probabilities."""
        messages = await asyncio.to_thread(chat, request.messages)
        reasoning = request.messages[-1].reasoning
        more = {"chat_template_kwargs": dict.fromkeys(THINKING_SWITCHES, True)} if reasoning else {}
        start = time.monotonic()
        waits = iter([self._slots.slot()])

        async def send(extra: dict[str, Any], text: str) -> Any:
            conversation, whose = turns(messages, text)
            # One request waits once, however many continuations it has: the queue's limit is on requests.
            async with next(waits, self._slots.semaphore):
                fields = {"model": self._settings.model, "messages": conversation, "extra_body": extra | whose | more}
                reply = await ask(self._completions, call, self._settings.timeout, **fields)
            note_origin(origin, reply)
            return reply

        origin = model.ServedBy()
        response = await self._scorer.score(send, request.continuations, request.return_tokens, reasoning)
        if request.return_prompt:
            put_prompt(response, await send(WITH_IDS | {"max_tokens": 1}, ""))
            response.prompt.text = await self._text_of(response.prompt.token_ids)
        await self._upstream.confirm()
        response.served_by.CopyFrom(origin)
        response.usage.model_time.CopyFrom(seconds(time.monotonic() - start))
        return response

    async def _text_of(self, ids: Sequence[int]) -> str:
        """Returns the text of a prompt's tokens by vLLM's detokenizer; "" if the endpoint has no such route."""
        client = self._dial()
        url = str(client.base_url.join("../detokenize"))
        try:
            reply = await client.post(url, cast_to=object, body={"model": self._settings.model, "tokens": list(ids)})
        except openai.OpenAIError:
            return ""
        text = reply.get("prompt") if isinstance(reply, dict) else None
        return encodable(text) if isinstance(text, str) else ""

    async def close(self) -> None:
        """Closes the connections."""
        await self._upstream.close()
        if self._client:
            await self._client.close()

    def _dial(self) -> openai.AsyncOpenAI:
        if self._client is None:
            self._client = make_client(self._settings, self._upstream.watch)
        return self._client

    @property
    def _completions(self) -> Any:
        return self._dial().chat.completions.create

    def _fields(self, config: model.GenerationConfig) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": self._settings.model}
        for name in ("temperature", "top_p"):
            if config.HasField(name):
                fields[name] = round(getattr(config, name), 6)  # float32 0.7 reads 0.699999988...
        if config.HasField("seed") and config.temperature:  # greedy needs none, and some endpoints refuse the field
            fields["seed"] = config.seed
        if config.stop:
            fields["stop"] = list(config.stop)
        if config.top_logprobs:
            fields |= {"logprobs": True, "top_logprobs": config.top_logprobs}
        if config.response_format.HasField("json_schema"):
            schema = schema_of(config.response_format.json_schema)
            named = {"name": "answer", "schema": schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": named}
        for name in self._settings.leave_out:
            fields.pop(name, None)
        fields["extra_body"] = self._extra(config, fields)
        return fields

    def _extra(self, config: model.GenerationConfig, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields of a request that the client library does not define."""
        extra: dict[str, Any] = {}
        if self._endpoint.kind in _EXACT:
            extra = {"top_k": config.top_k or -1, **_PLAIN}
            if arguments := struct_json(config.chat_template_arguments):
                extra["chat_template_kwargs"] = arguments
            if config.HasField("thinking"):
                extra["chat_template_kwargs"] = dict.fromkeys(THINKING_SWITCHES, config.thinking) | arguments
            extra |= self._constraint(config.response_format)
        body = struct_json(config.extra_body)
        if reserved := [
            name for name in body if name in fields or name in _OWN or name in extra.keys() - _PLAIN.keys()
        ]:
            raise InvalidRequest(
                "field_not_extra", f"extra_body has {reserved[0]!r}, which this server sets itself: leave it out"
            )
        return extra | body

    def _constraint(self, wanted: model.ResponseFormat) -> dict[str, Any]:
        """Returns the fields by which vLLM and SGLang hold an answer to choices or a regular expression."""
        choices = list(wanted.choices.texts)
        regex = "|".join(map(re.escape, choices)) if choices else plain_regex(wanted.regex)
        if not (choices or wanted.HasField("regex")):
            return {}
        if self._endpoint.kind == "sglang":
            return {"regex": f"({regex})"}
        return {"structured_outputs": {"choice": choices} if choices else {"regex": regex}}

    def _effective(self, config: model.GenerationConfig) -> model.GenerationConfig:
        """Sets unset fields to greedy decoding without cuts, for engines known to obey them."""
        full = model.GenerationConfig()
        full.CopyFrom(config)
        if self._endpoint.kind in _EXACT:
            full.temperature, full.top_k = config.temperature, config.top_k
            full.top_p = config.top_p if config.HasField("top_p") else 1.0
        return full

    async def _answer(
        self, call: Call, fields: dict[str, Any], config: model.GenerationConfig
    ) -> model.GenerateResponse:
        """Sends a request; applies stop strings to the answer alone, although most endpoints end reasoning at them."""
        if self._settings.api == "responses":
            return await self._respond(call, fields, config)
        if not (config.stop and self._stops_reasoning):
            response = read(await self._ask_limited(call, fields, config), config)
            if not ended_in_reasoning(response, config):
                return response
            self._stops_reasoning = True
        without = {name: value for name, value in fields.items() if name != "stop"}
        response = read(await self._ask_limited(call, without, config), config)
        cut_at_stop(response, config)
        return response

    async def _ask_limited(self, call: Call, fields: dict[str, Any], config: model.GenerationConfig) -> Any:
        """Sends a request with this endpoint's name of the output limit: most know the old one, some only the new."""
        if not config.HasField("max_output_tokens"):
            return await ask(self._completions, call, self._settings.timeout, **fields)
        limit = config.max_output_tokens
        named = self._limit_field  # concurrent calls may change it
        try:
            return await ask(self._completions, call, self._settings.timeout, **fields, **{named: limit})
        except InvalidRequest as error:
            if named == NEW_LIMIT or NEW_LIMIT not in str(error):
                raise
        self._limit_field = NEW_LIMIT
        return await ask(self._completions, call, self._settings.timeout, **fields, **{NEW_LIMIT: limit})

    async def _respond(
        self, call: Call, fields: dict[str, Any], config: model.GenerationConfig
    ) -> model.GenerateResponse:
        """Sends a request by the Responses API, which has no stop strings."""
        create = self._dial().responses.create
        response = responses.read(await self._responses.send(create, call, self._settings.timeout, fields, config))
        response.effective_config.CopyFrom(config)
        cut_at_stop(response, config)
        return response
