"""The `transformers` backend: prepares in threads, runs batches one at a time, answers each row as it ends."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import DeadlineExceeded, InternalFailure, InvalidRequest, Unavailable, Unsupported
from model_server.backend import Backend, Call, Output, continuation_score, usage_since
from model_server.batching import Batcher, Job, OutOfMemory
from model_server.decoding import check_context, effective_config, limit_output
from model_server.hf import selfcheck
from model_server.hf.constraint import Constraint
from model_server.hf.continuous import Continuous, Entry
from model_server.hf.draw import Drawer
from model_server.hf.fitting import drop_frames, free
from model_server.hf.generate import generate
from model_server.hf.inputs import Joined, Prompt
from model_server.hf.likelihood import Question, Scored, ScoredPrompt, expanded, packed, plain, score_prompt
from model_server.hf.loaded import Loaded
from model_server.hf.reasoning import Reasoning, blank_between, decode
from model_server.hf.rows import SamplingRow
from model_server.hf.settings import Settings
from model_server.hf.tokens import token_bytes
from model_server.hf.tools import check_choice, read, special_tokens
from model_server.metrics import Metrics

log = logging.getLogger(__name__)
Result = TypeVar("Result")
_PREPARERS = max(2, min(8, os.cpu_count() or 2))


@dataclass(frozen=True)
class Work:
    """One prepared request: `config` for Generate (and `drawer` for an image), `joined` for Likelihood.

    Without either, the prompt itself is scored. The constraint is at the beginning of its format; each attempt at the
    answer takes a copy. The token `banned` never appears in the output.
    """

    prompt: Prompt
    config: model.GenerationConfig | None = None
    constraint: Constraint | None = None
    banned: int | None = None
    joined: Sequence[Joined] = ()
    drawer: Drawer | None = None


Answer = SamplingRow | list[Scored] | ScoredPrompt | bytes


class HfBackend(Backend):
    """Serves a checkpoint through `transformers`.

    Args:
        settings: Settings to load and run it.
        metrics: The server's counters.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._lost = False
        self._preparers = ThreadPoolExecutor(_PREPARERS, thread_name_prefix="prepare")
        self._batcher: Batcher[Work, Answer] = Batcher(
            self._run,
            max_batch=settings.max_batch,
            wait=settings.batch_wait if settings.max_batch > 1 else 0.0,
            max_queue=settings.max_queue,
            metrics=metrics,
        )

    def load(self) -> None:
        """Loads the checkpoint."""
        self._loaded = Loaded(self._settings, self._metrics)
        self._batcher.budget.limit = self._loaded.token_budget

    def info(self) -> model.GetModelInfoResponse:
        """Describes it."""
        return self._loaded.info()

    async def generate(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        """Continues one conversation."""
        if request.modality == model.MODALITY_IMAGE:
            return await self._draw(request, call)
        return await self._continued(request, await self._prepared(request), call)

    async def generate_samples(self, requests: Sequence[model.GenerateRequest], call: Call) -> list[Output]:
        """Continues one conversation with several seeds; rows of one prompt in a batch share its prefill."""
        prompt, constraint = await self._prepared(requests[0])
        once = all(verdict.samples for verdict in self._loaded.verdicts(prompt))
        prompts = [prompt if once else replace(prompt) for _ in requests]
        pairs = zip(requests, prompts, strict=True)
        continued = (self._continued(request, (shared, constraint), call.copy()) for request, shared in pairs)
        return await asyncio.gather(*continued, return_exceptions=True)

    async def _prepared(self, request: model.GenerateRequest) -> tuple[Prompt, Constraint | None]:
        if request.HasField("raw_prompt"):
            prompt = await self._in_thread(self._loaded.prompter.prepare_raw, request.raw_prompt)
        else:
            self._banned(request)  # refuses choices that cannot be kept
            arguments = self._loaded.arguments(request.config)
            prepare = functools.partial(self._loaded.prompter.prepare, arguments=arguments, tools=request.tools)
            prompt = await self._in_thread(prepare, request.messages)
        checked = self._effective(request.config, len(prompt.ids))  # before a format is compiled
        if not checked.HasField("response_format"):
            return prompt, None
        return prompt, await self._in_thread(self._loaded.formats.compile, checked.response_format)

    async def _continued(
        self, request: model.GenerateRequest, prepared: tuple[Prompt, Constraint | None], call: Call
    ) -> model.GenerateResponse:
        prompt, constraint = prepared
        config = self._effective(request.config, len(prompt.ids))
        key = self._generate_key(prompt, config)
        work = Work(prompt, config, constraint, self._banned(request))
        row, usage = await self._submit(work, key, call, config.max_output_tokens)
        assert isinstance(row, SamplingRow)
        response = model.GenerateResponse(
            finish_reason=row.finish,
            effective_config=config,
            logprobs=row.logprobs,
            usage=usage,
            reasoning=row.thoughts,
            prompt=prompt.rendered if request.return_prompt else None,
        )
        called = await self._in_thread(self._calls, request, row) if request.tools else None
        if called:
            response.parts.extend(called)
        elif row.text:
            gap = ""
            if (prompt.continues or (prompt.raw and not row.thoughts)) and not constraint:
                gap = blank_between(self._loaded.checkpoint.tokenizer, prompt.ids, row.ids)
            response.parts.add(text=gap + row.text.removeprefix(gap))
        response.usage.output_tokens = len(row.ids)
        response.usage.reasoning_tokens = row.reasoning.tokens if row.reasoning else 0
        return response

    def _banned(self, request: model.GenerateRequest) -> int | None:
        if not (request.tools and self._loaded.tools):
            return None
        return check_choice(request, self._loaded.tools, self._loaded.checkpoint.tokenizer.get_added_vocab())

    def _calls(self, request: model.GenerateRequest, row: SamplingRow) -> list[model.Part] | None:
        """Returns the parts of an answer with tool calls; None if it has none, or if the request forbids them."""
        tool_form, tokenizer = self._loaded.tools, self._loaded.checkpoint.tokenizer
        if tool_form is None or request.tool_choice.mode == model.TOOL_CHOICE_MODE_NONE:
            return None
        text, specials = row.text, special_tokens(tokenizer)
        if any(token in tool_form.form.opens for token in specials):  # which the decoded text lacks
            full_text = functools.partial(decode, tokenizer, row.ids, specials=True)
            text = row.reasoning.split(row.ids, specials=True)[1] if row.reasoning else full_text()
            for stop in row.config.stop if row.finish == model.FINISH_REASON_STOP_STRING else ():
                text = text.partition(stop)[0]
        return read(text, tool_form, request, specials)

    async def _draw(self, request: model.GenerateRequest, call: Call) -> model.GenerateResponse:
        drawer = self._loaded.drawer
        assert drawer is not None, "the core asks for no image that is not claimed"
        pictures = any(part.WhichOneof("kind") == "image" for message in request.messages for part in message.parts)
        if pictures and not drawer.takes_images:
            raise Unsupported("no_image_to_image", "this model draws from text alone: the prompt holds an image")
        if request.config.top_logprobs:
            raise Unsupported("no_logprobs", "a drawn image has no log-probabilities")
        count = drawer.tokens
        if request.config.HasField("max_output_tokens") and request.config.max_output_tokens < count:
            raise InvalidRequest(
                "image_needs_tokens",
                f"max_output_tokens is {request.config.max_output_tokens}, an image takes {count}",
                limit=str(count),
                value=str(request.config.max_output_tokens),
            )
        prepare = functools.partial(self._loaded.prompter.prepare, drawer=drawer)
        prompt = await self._in_thread(prepare, request.messages)
        config = model.GenerationConfig()
        config.CopyFrom(request.config)
        config.max_output_tokens = count
        config = self._effective(config, len(prompt.ids))
        data, usage = await self._submit(Work(prompt, config, drawer=drawer), ("draw", object()), call, count)
        assert isinstance(data, bytes)
        response = model.GenerateResponse(
            finish_reason=model.FINISH_REASON_END_OF_SEQUENCE,
            effective_config=config,
            usage=usage,
            prompt=prompt.rendered if request.return_prompt else None,
        )
        response.parts.add(image=model.Image(data=data, media_type="image/png"))
        response.usage.output_tokens = count
        return response

    async def likelihood(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        """Scores continuations."""
        if request.score_prompt:
            return await self._score_prompt(request, call)
        prompt, joined = await self._in_thread(self._join, request)
        longest = max(len(continuation.ids) for continuation in joined)
        check_context(len(prompt.ids), longest - len(prompt.ids), self._loaded.checkpoint.context)
        batches = all(verdict.batches for verdict in self._loaded.verdicts(prompt))
        key = self._key(("likelihood", prompt.signature), batches)
        output = sum(len(continuation.ids) - len(prompt.ids) for continuation in joined)
        scores, usage = await self._submit(Work(prompt, joined=joined), key, call, output)
        assert isinstance(scores, list)
        response = model.LikelihoodResponse(usage=usage, prompt=prompt.rendered if request.return_prompt else None)
        for score in scores:
            pieces = [token_bytes(self._loaded.checkpoint.tokenizer, number) for number in score.ids]
            tokens = list(zip(pieces, score.logprobs, strict=True))
            response.scores.append(
                continuation_score(score.logprob, tokens, score.is_greedy, request.return_tokens, score.ids)
            )
        response.usage.output_tokens = sum(len(score.ids) for score in scores)
        return response

    async def _score_prompt(self, request: model.LikelihoodRequest, call: Call) -> model.LikelihoodResponse:
        prompt = await self._in_thread(self._loaded.prompter.prepare_raw, request.raw_prompt)
        check_context(len(prompt.ids), 0, self._loaded.checkpoint.context)
        scores, usage = await self._submit(Work(prompt), ("prompt", object()), call, len(prompt.ids))
        assert isinstance(scores, ScoredPrompt)
        response = model.LikelihoodResponse(usage=usage, prompt=prompt.rendered if request.return_prompt else None)
        response.usage.output_tokens = len(scores.tokens)
        tokenizer = self._loaded.checkpoint.tokenizer
        for number, score in zip(prompt.ids, [None, *scores.tokens], strict=True):
            token = response.prompt_tokens.add(token=token_bytes(tokenizer, number), token_id=number)
            if score is not None:
                token.logprob = score.logprob
                token.top.add(token=token_bytes(tokenizer, score.best), token_id=score.best, logprob=score.best_logprob)
        return response

    async def close(self) -> None:
        """Ends the threads."""
        await self._batcher.close()
        self._preparers.shutdown(wait=False, cancel_futures=True)

    async def _submit(self, work: Work, key: object, call: Call, output: int) -> tuple[Answer, model.Usage]:
        queued, prompt = time.monotonic(), work.prompt
        answer = await self._batcher.submit(work, key, len(prompt.ids), call, output)
        usage = usage_since(queued, call.started, input_tokens=len(prompt.ids), **prompt.tokens)
        usage.cached_tokens = call.cached_tokens
        usage.media.extend(prompt.media)
        usage.images.extend(prompt.shown)
        return answer, usage

    def _generate_key(self, prompt: Prompt, config: model.GenerationConfig) -> tuple[object, ...]:
        verdicts = self._loaded.verdicts(prompt)
        if all(verdict.continuous for verdict in verdicts):
            return ("continuous",)
        # Outputs of similar length end together, so that few steps are spent on rows that have ended.
        key = ("generate", prompt.signature, config.max_output_tokens.bit_length())
        return self._key(key, all(verdict.generates for verdict in verdicts))

    @staticmethod
    def _key(key: tuple[object, ...], batches: bool) -> tuple[object, ...]:
        """Returns the batching key; a unique one for a request that may not share a batch."""
        return key if batches else (*key, object())

    def _join(self, request: model.LikelihoodRequest) -> tuple[Prompt, list[Joined]]:
        if request.HasField("raw_prompt"):
            prompt = self._loaded.prompter.prepare_raw(request.raw_prompt)
        else:
            prompt = self._loaded.prompter.prepare(request.messages)
        return prompt, self._loaded.prompter.join(prompt, request.continuations)

    def _effective(self, config: model.GenerationConfig, length: int) -> model.GenerationConfig:
        full = effective_config(config)
        full.top_p = config.top_p if config.HasField("top_p") else 1.0
        full.top_k = config.top_k
        limit_output(full, length, self._loaded.checkpoint.context, self._settings.default_max_tokens)
        return full

    async def _in_thread(self, function: Callable[..., Result], *args: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._preparers, function, *args)

    def _run(self, jobs: Sequence[Job[Work, Answer]]) -> None:
        if self._lost:
            raise Unavailable("device_lost", "the device has failed, and this server is ending: send it elsewhere")
        try:
            if jobs[0].work.drawer:
                jobs[0].resolve(jobs[0].work.drawer.draw(jobs[0].work.prompt, _config(jobs[0])))
            elif jobs[0].work.config is not None:
                self._run_generate(jobs)
            elif jobs[0].work.joined:
                self._run_likelihood(jobs)
            else:
                jobs[0].resolve(score_prompt(self._loaded.checkpoint, jobs[0].work.prompt))
        except torch.OutOfMemoryError as error:
            cause = str(error).split(".")[0]
            drop_frames(error)
        except RuntimeError:
            if not self._device_works():
                self._lose_device(jobs)
                return
            raise
        else:
            return
        # After the handler: while it runs, the error's frames hold the failed batch's cache.
        free()
        raise OutOfMemory(cause)

    def _device_works(self) -> bool:
        """Returns True if the device still computes: after a failed assertion, every later call fails."""
        try:
            return bool(torch.ones(1, device=self._loaded.checkpoint.device).sum().item() == 1)
        except RuntimeError:
            return False

    def _lose_device(self, jobs: Sequence[Job[Work, Answer]]) -> None:
        """Drains and ends the process so that it is restarted.

        A server that fails each call at once would attract more requests than its healthy neighbours.
        """
        self._lost = True
        log.critical("the device has failed: this server ends", exc_info=True)
        for job in jobs:  # any of them may be at fault and would take down the next server: each is retried once
            job.resolve(InternalFailure("device_lost", "the device failed while it ran this request"))
        os.kill(os.getpid(), signal.SIGTERM)

    def _run_generate(self, jobs: Sequence[Job[Work, Answer]]) -> None:
        if jobs[0].key == ("continuous",):
            loop = Continuous(self._loaded.checkpoint, self._loaded.features)
            loop.run(self._entries(jobs), lambda: self._entries(self._batcher.join()))
            return
        prompts = [job.work.prompt for job in jobs]
        rows = [entry.row for entry in self._entries(jobs)]
        generate(self._loaded.checkpoint, prompts, rows, self._loaded.features)

    def _entries(self, jobs: Sequence[Job[Work, Answer]]) -> list[Entry]:
        entries = []
        for job in jobs:
            constraint = job.work.constraint and job.work.constraint.copy()
            reasoning, banned = self._reasoning(job), job.work.banned
            row = SamplingRow(_config(job), job.call, _settle(job), reasoning, constraint, banned)
            entries.append(Entry(job.work.prompt, row))
        return entries

    def _reasoning(self, job: Job[Work, Answer]) -> Reasoning | None:
        if self._loaded.marks is None:
            return None
        off = job.work.prompt.continues or self._loaded.arguments(_config(job)).get(self._loaded.switch) is False
        return Reasoning(self._loaded.checkpoint.tokenizer, self._loaded.marks, job.work.prompt.text, off=off)

    def _run_likelihood(self, jobs: Sequence[Job[Work, Answer]]) -> None:
        questions = [Question(job.work.prompt, job.work.joined) for job in jobs]
        # Prompts that share a batch hold clips of the same kinds.
        methods = [verdict.method for verdict in self._loaded.verdicts(jobs[0].work.prompt)]
        method = max(methods, key=selfcheck.METHODS.index)
        if method == "packed":
            features = self._loaded.features([question.prompt for question in questions])
            for job, scores in zip(jobs, packed(self._loaded.checkpoint, questions, features), strict=True):
                job.resolve(scores)
            return
        for job, question in zip(jobs, questions, strict=True):
            if method in ("expanded", "forked"):
                stepwise = method == "forked"
                job.resolve(expanded(self._loaded.checkpoint, question, stepwise=stepwise))
            else:
                job.resolve(plain(self._loaded.checkpoint, question.prompt, question.joined))


def _config(job: Job[Work, Answer]) -> model.GenerationConfig:
    assert job.work.config is not None
    return job.work.config


def _settle(job: Job[Work, Answer]) -> Callable[[SamplingRow], None]:
    def done(row: SamplingRow) -> None:
        if row.failure:
            job.resolve(row.failure)
        elif row.finish == model.FINISH_REASON_UNSPECIFIED:
            job.resolve(DeadlineExceeded("deadline_in_model", "nobody waits for this answer any more"))
        else:
            job.resolve(row)

    return done
