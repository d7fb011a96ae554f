"""Makes a `model_server.kit.model.Model` a backend: limits, batches, cuts and usage around the author's code."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from typing import TypeVar

from lyncean.lru import LruCache
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InternalFailure
from model_server import clips, images
from model_server.admission import Workers, unstopped
from model_server.backend import Backend, Call, LoadError, Output as Ending, continuation_score, describe, usage_since
from model_server.batching import Batcher, Job
from model_server.decoding import check_context, check_kept, effective_config, limit_output
from model_server.kit import tools
from model_server.kit.model import Model, Output, Request
from model_server.metrics import Metrics
from model_server.parts import content

Result = TypeVar("Result")
_CHECKED = 8192
"""Hashes of valid images that are remembered."""
_SYSTEM = {
    True: model.SYSTEM_MESSAGES_TAKEN,
    False: model.SYSTEM_MESSAGES_REFUSED,
    None: model.SYSTEM_MESSAGES_UNSPECIFIED,
}
_METHODS = ("load", "generate", "generate_batch", "generate_samples", "likelihood", "render", "tokenize", "properties")
_LEAST_WAITING = 2
"""Covers a network delay of twice the time of an answer."""


class KitBackend(Backend):
    """Serves an author's model.

    Args:
        kit: The model, not yet loaded.
        metrics: The server's counters.
    """

    def __init__(self, kit: Model, metrics: Metrics) -> None:
        self.kit = kit
        self.max_held_bytes = kit.max_held_bytes
        self._batched = type(kit).generate_batch is not Model.generate_batch
        self._single = type(kit).generate is not Model.generate
        self._scores = type(kit).likelihood is not Model.likelihood
        self._renders = type(kit).render is not Model.render
        self._reads_once = type(kit).generate_samples is not Model.generate_samples
        self._decoders = ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 2)), thread_name_prefix="decode")
        self._workers = Workers(kit.max_concurrency, kit.max_queue, metrics)
        self._metrics = metrics
        self._checked = LruCache[bytes, bool](_CHECKED)
        self._batcher: Batcher[Request, str | Output] | None = None

    def load(self) -> None:
        """Loads the author's model."""
        kit = self.kit
        for name in _METHODS:
            _refuse_unplain(kit, name)
        if (kit.audio_input or kit.video_input) and find_spec("av") is None:
            raise LoadError("audio and video need PyAV: pip install 'lyncean[media]'")
        kit.load()
        self._batcher = Batcher(
            self._run, max_batch=kit.max_batch, wait=kit.batch_wait, max_queue=kit.max_queue, metrics=self._metrics
        )

    def info(self) -> model.GetModelInfoResponse:
        """Describes it."""
        kit = self.kit
        claims = {
            model.CAPABILITY_GENERATE: self._batched or self._single,
            model.CAPABILITY_LIKELIHOOD: self._scores,
            model.CAPABILITY_IMAGE_INPUT: kit.image_input,
            model.CAPABILITY_MULTI_IMAGE: kit.image_input and kit.multi_image,
            model.CAPABILITY_IMAGE_OUTPUT: kit.image_output,
            model.CAPABILITY_AUDIO_INPUT: kit.audio_input,
            model.CAPABILITY_VIDEO_INPUT: kit.video_input,
            model.CAPABILITY_SEED: True,
            model.CAPABILITY_REASONING: kit.reasoning,
            model.CAPABILITY_THINKING: kit.thinking,
            model.CAPABILITY_THINKING_BUDGET: kit.thinking_budget,
            model.CAPABILITY_ANSWER_PREFIX: kit.answer_prefix,
            model.CAPABILITY_RENDERED_PROMPT: self._renders,
            model.CAPABILITY_SAMPLES: self._most_samples > 1,
            model.CAPABILITY_ANSWER_CHOICES: kit.answer_choices,
            model.CAPABILITY_ANSWER_REGEX: kit.answer_regex,
            model.CAPABILITY_ANSWER_JSON_SCHEMA: kit.answer_json_schema,
            model.CAPABILITY_TOOLS: kit.tools,
        }
        return describe(
            claims,
            model_name=kit.name or type(kit).__name__,
            model_revision=kit.revision,
            max_concurrency=kit.max_batch * 2 if self._batched else kit.max_concurrency,
            max_waiting=0 if self._batched else min(max(_LEAST_WAITING, kit.max_concurrency), kit.max_queue),
            max_context_tokens=kit.max_context_tokens,
            max_samples=self._most_samples,
            media_limits=model.MediaLimits(
                max_images=kit.max_images if kit.image_input else 0,
                max_image_pixels=kit.max_image_pixels if kit.image_input else 0,
                max_frames=kit.max_frames,
            ),
            system_messages=_SYSTEM[kit.system_messages],
            tool_rendering=tools.rendering(kit) if kit.tools else None,
            properties=kit.properties(),
        )

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        """Answers one request, alone in a thread or in a batch."""
        work, prompt_tokens = await self._prepared(request, call)
        return await self._answered(request, work, prompt_tokens)

    async def _answered(
        self, request: model.GenerateRequest, work: Request, prompt_tokens: int
    ) -> model.GenerateResponse:
        queued = time.monotonic()
        if self._batched and self._batcher:
            answer = await self._batcher.submit(work, (), prompt_tokens, work.call)
        else:
            answer = await self._workers.run(work.call, self.kit.generate, work)
        response = self._response(work, answer, prompt_tokens, queued)
        tools.keep_first(request, response)
        if request.return_prompt:
            response.prompt.CopyFrom(await self._rendered(work))
        return response

    async def generate_samples(self, requests: Sequence[model.GenerateRequest], call: Call) -> list[Ending]:
        """Decodes the media once; a model with `generate_samples` answers all requests in one call."""
        first, prompt_tokens = await self._prepared(requests[0], call)
        works = [
            replace(first, config=self._config(request.config, prompt_tokens), prompt=first) for request in requests
        ]
        if not self._reads_once:
            answered = (
                self._answered(request, work, prompt_tokens) for request, work in zip(requests, works, strict=True)
            )
            return await asyncio.gather(*answered, return_exceptions=True)
        queued = time.monotonic()
        answers = await self._workers.run(call, self.kit.generate_samples, works)
        if len(answers) != len(works):
            raise InternalFailure("wrong_count", f"{len(works)} outputs were wanted, the model made {len(answers)}")
        rendered = await self._rendered(first) if requests[0].return_prompt else None
        outputs: list[Ending] = []
        for index, (work, answer) in enumerate(zip(works, answers, strict=True)):
            try:
                response = self._response(work, answer, prompt_tokens, queued)
            except InternalFailure as error:
                outputs.append(error)
                continue
            tools.keep_first(requests[index], response)
            response.usage.cached_tokens = prompt_tokens if index else 0
            if rendered:
                response.prompt.CopyFrom(rendered)
            outputs.append(response)
        return outputs

    @property
    def _most_samples(self) -> int:
        return self.kit.max_samples if (self._batched or self._single) and self.kit.max_samples > 1 else 0

    async def _prepared(self, request: model.GenerateRequest, call: Call) -> tuple[Request, int]:
        """Returns a request with its media decoded, and the tokens of its prompt."""
        tools.check_choice(self.kit, request)
        work = Request(request.messages, effective_config(request.config), request.modality, call)
        work = replace(work, tools=request.tools, tool_choice=request.tool_choice)
        await self._in_thread(self._decoders, self._decode, work)
        prompt_tokens = self._count(work)
        limit_output(work.config, prompt_tokens, self.kit.max_context_tokens, self.kit.default_max_tokens)
        return work, prompt_tokens

    def _config(self, config: model.GenerationConfig, prompt_tokens: int) -> model.GenerationConfig:
        full = effective_config(config)
        limit_output(full, prompt_tokens, self.kit.max_context_tokens, self.kit.default_max_tokens)
        return full

    def _response(
        self, work: Request, answer: str | Output, prompt_tokens: int, queued: float
    ) -> model.GenerateResponse:
        config = work.config
        output = Output(answer) if isinstance(answer, str) else answer
        if not isinstance(output, Output):
            kind = type(answer).__name__
            raise InternalFailure("wrong_answer", f"the model returned {kind}, and not a text or an Output")
        if output.reasoning and not self.kit.reasoning:
            raise InternalFailure(
                "reasoning_not_claimed", "the model returned reasoning: set its attribute `reasoning`"
            )
        if output.tool_calls and not self.kit.tools:
            raise InternalFailure("tools_not_claimed", "the model returned tool calls: set its attribute `tools`")
        output, reasoned, out = self._cut(output, config)
        check_kept(config, output.finish_reason, output.text)
        response = model.GenerateResponse(
            finish_reason=output.finish_reason, effective_config=config, reasoning=output.reasoning
        )
        if output.text:
            response.parts.add(text=output.text)
        for data in output.image_files:
            response.parts.add(image=model.Image(data=data))
        tools.add_calls(response, output)
        response.usage.CopyFrom(self._usage(work, prompt_tokens, out, queued))
        response.usage.reasoning_tokens = reasoned
        return response

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        """Scores in a thread."""
        work = Request(request.messages, model.GenerationConfig(), model.MODALITY_TEXT, call)
        await self._in_thread(self._decoders, self._decode, work)
        prompt_tokens = self._count(work)
        longest = max(len(self.kit.tokenize(text)) for text in request.continuations)
        check_context(prompt_tokens, longest, self.kit.max_context_tokens)
        queued = time.monotonic()
        scores = await self._workers.run(call, self.kit.likelihood, work, list(request.continuations))
        if len(scores) != len(request.continuations):
            raise InternalFailure(
                "wrong_count", f"{len(request.continuations)} continuations were sent, the model scored {len(scores)}"
            )
        tokens, with_tokens = sum(len(score.tokens) for score in scores), request.return_tokens
        prompt = await self._rendered(work) if request.return_prompt else None
        return model.LikelihoodResponse(
            prompt=prompt,
            scores=[
                continuation_score(
                    score.logprob,
                    [(text.encode(), value) for text, value in score.tokens],
                    score.is_greedy,
                    with_tokens,
                    score.token_ids,
                )
                for score in scores
            ],
            usage=self._usage(work, prompt_tokens, tokens, queued),
        )

    async def _rendered(self, work: Request) -> model.RenderedPrompt:
        text, ids = await self._in_thread(self._decoders, self.kit.render, work)
        return model.RenderedPrompt(text=text, token_ids=ids)

    async def close(self) -> None:
        """Ends the threads."""
        if self._batcher:
            await self._batcher.close()
        self._workers.close()
        self._decoders.shutdown(wait=False)

    def _run(self, jobs: Sequence[Job[Request, str | Output]]) -> None:
        answers = self.kit.generate_batch([job.work for job in jobs])
        if len(answers) != len(jobs):
            raise InternalFailure("wrong_count", f"{len(jobs)} requests were sent, the model answered {len(answers)}")
        for job, answer in zip(jobs, answers, strict=True):
            job.resolve(answer)

    @staticmethod
    async def _in_thread(pool: ThreadPoolExecutor, function: Callable[..., Result], *args: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(pool, unstopped, function, *args)

    def _decode(self, work: Request) -> None:
        """Refuses a bad image before the model is called; images that passed before are not checked again.

        An author's code decodes images when it reads them. In a batch, one failure there would fail the whole batch, so
        that images of batched models are decoded here.
        """
        kit, keys = self.kit, list[bytes]()
        for part in content(work.messages):
            if part.HasField("audio"):
                where = f"audio {len(work.audio)}"
                work.audio.append(clips.decode_audio(part.audio, kit.sample_rate, where=where))
            elif part.HasField("video"):
                sampling, where = model.FrameSampling(count=kit.frames), f"video {len(work.videos)}"
                work.videos.append(clips.decode_video(part.video, sampling, where=where, max_frames=kit.max_frames))
            elif part.HasField("image"):
                keys.append(images.digest(part.image))
        if all(self._checked.get(key) for key in keys):
            return
        for data in work.image_bytes:
            images.check(data, max_pixels=kit.max_image_pixels)
        if self._batched:
            _ = work.images
        for key in keys:
            self._checked.put(key, True, 1)

    def _count(self, work: Request) -> int:
        extra = tools.tool_text(work)
        offered = len(self.kit.tokenize(extra)) if extra else 0
        return len(self.kit.tokenize(work.text)) + sum(self._media_tokens(work)) + offered

    def _media_tokens(self, work: Request) -> tuple[int, int, int]:
        """Returns the tokens of images, of audio and of videos."""
        heard = sum(math.ceil(sound.duration * self.kit.audio_tokens) for sound in work.audio)
        seen = sum(len(video.images) for video in work.videos)
        return self.kit.image_tokens * len(work.image_bytes), heard, self.kit.image_tokens * seen

    def _cut(self, output: Output, config: model.GenerationConfig) -> tuple[Output, int, int]:
        """Cuts an output at its token limit, then its text at the first stop string.

        Returns:
            The output, its reasoning tokens, and all its tokens.
        """
        text, reason, limit = output.text, output.finish_reason, config.max_output_tokens
        thoughts, tokens = self.kit.tokenize(output.reasoning), self.kit.tokenize(text)
        if len(thoughts) + len(tokens) > limit:
            reason = model.FINISH_REASON_MAX_TOKENS
            thoughts = thoughts[:limit]
            text = "".join(tokens[: limit - len(thoughts)])
        places = [position for position in (text.find(stop) for stop in config.stop) if position >= 0]
        if places:
            text, reason = text[: min(places)], model.FINISH_REASON_STOP_STRING
        spent = len(thoughts) + len(self.kit.tokenize(text))
        written = len(self.kit.tokenize(tools.written(output))) if output.tool_calls else 0
        calls = output.tool_calls if text == output.text and not places else ()  # they follow the text
        if calls and spent + written > limit:
            calls, reason = (), model.FINISH_REASON_MAX_TOKENS
        cut = replace(output, text=text, finish_reason=reason, reasoning="".join(thoughts), tool_calls=calls)
        return cut, len(thoughts), spent + (written if calls else 0)

    def _usage(self, work: Request, prompt_tokens: int, out: int, queued: float) -> model.Usage:
        pictures, heard, seen = self._media_tokens(work)
        media = {"image_tokens": pictures, "audio_tokens": heard, "video_tokens": seen}
        usage = usage_since(queued, work.call.started, input_tokens=prompt_tokens, output_tokens=out, **media)
        usage.media.extend(clips.usage_of(work.messages, work.audio, work.videos))
        return usage


def _refuse_unplain(kit: Model, name: str) -> None:
    """Raises LoadError for an author's method whose result would be a coroutine or a generator, and not the answer."""
    method = getattr(kit, name)
    where = f"{type(kit).__name__}.{name}"
    if inspect.iscoroutinefunction(method):
        raise LoadError(f"{where} is async, and the kit calls it in a thread: write a plain def, asyncio.run() inside")
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        raise LoadError(f"{where} yields, and the kit wants all at once: return the whole answer")
