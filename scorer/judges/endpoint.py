"""A judge behind an OpenAI-compatible endpoint, one request per question."""

from __future__ import annotations

import asyncio
import base64
import json
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import openai

from lyncean.media.types import media_type
from lyncean.rpc.addresses import keep_out_of_logs, without_password
from lyncean.rpc.budget import Budget
from lyncean.rpc.limiter import retry_after
from lyncean.rpc.patience import backoff
from scorer.judges.base import VENDOR, JudgeError, JudgePrompt, Reply, canonical, take, without_user
from scorer.judges.chat import ChatPrompt
from scorer.judges.throttle import Throttle

if TYPE_CHECKING:
    import httpx

SEED = 20_250_101
MAX_OUTPUT_TOKENS = 1024
TRIES = 5
"""Most tries of a request without an answer; an answered request is never sent again."""

keep_out_of_logs()


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """Model, address and limits of an endpoint.

    Attributes:
        model: The model's name at the endpoint.
        base_url: The endpoint; None is the vendor's, even if the environment names another.
        key: API key; never shown by repr.
        timeout: Seconds for one request.
        patience: Seconds that one question waits for the end of rate limits.
        concurrency: Most requests in flight.
    """

    model: str
    base_url: str | None = None
    key: str = field(default="", repr=False)
    timeout: float = 120.0
    patience: float = 600.0
    concurrency: int = 64

    @property
    def identity(self) -> str:
        """The inputs of a reply besides the prompt."""
        endpoint = without_user(self.base_url) if self.base_url else "default"
        return canonical({"model": self.model, "endpoint": endpoint, "temperature": 0, "seed": SEED})


class Endpoint:
    """Requests chat completions with a strict JSON schema, temperature 0 and a fixed seed.

    A 429 lowers concurrency and is retried after Retry-After; 5xx, resets and timeouts are
    retried a few times. A request answered with 200 is paid for and is not sent again,
    even if its reply is unusable.

    Args:
        config: Model, address and limits.
        budget: Bounds of its cost.
    """

    def __init__(self, config: EndpointConfig, budget: Budget) -> None:
        self.config = config
        self._budget = budget
        self._throttle = Throttle(config.concurrency)
        self._client = client(config)
        self._address = without_password(str(self._client.base_url))
        self.waits_for = ""

    @property
    def identity(self) -> str:
        """The identity of the configuration."""
        return self.config.identity

    async def prepare(self) -> None:
        """Does nothing: the identity follows from the configuration."""

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Asks one question; the class describes its retries."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self.config.patience
        tries = 0
        while True:
            tries += 1
            statuses: list[int] = []
            _STATUSES.set(statuses)
            try:
                async with self._throttle.slot():
                    take(self._budget)
                    completion = await self._client.chat.completions.create(**body(self.config.model, prompt))
                self._throttle.succeeded()
                self.waits_for = ""
                # Charged before it is read: an unusable reply is paid for, too.
                self._budget.used(*spent(completion))
                return read(prompt, completion)
            except openai.RateLimitError as error:
                pause = retry_after(error.response.headers) or backoff(tries)
                self._throttle.refused(pause)
                reason, problem = "judge_rate_limited", f"{self._address} answered 429: {_error_text(error)}"
            except openai.APITimeoutError:
                pause = 0.0
                reason, problem = "judge_timeout", f"no reply from {self._address} within {self.config.timeout:g} s"
            except openai.APIConnectionError as error:
                pause, cause = backoff(tries), error.__cause__ or error
                problem = f"{self._address} cannot be reached: {type(cause).__name__}: {cause}"
                reason = "judge_unreachable"
            except openai.InternalServerError as error:
                pause = retry_after(error.response.headers) or backoff(tries)
                reason, problem = "judge_error", f"{self._address} answered {error.status_code}: {_error_text(error)}"
            except openai.APIStatusError as error:
                raise JudgeError(
                    "judge_error", f"{self._address} answered {error.status_code}: {_error_text(error)}"
                ) from None
            except (openai.APIError, json.JSONDecodeError) as error:
                raise JudgeError("judge_bad_json", f"the judge's endpoint sent no completion: {error}") from None
            if 200 in statuses:
                raise JudgeError(
                    "judge_reply_cut",
                    f"{self._address} broke off a reply that it may have charged for: it is not sent again by itself",
                )
            self.waits_for = problem
            exhausted = reason != "judge_rate_limited" and tries >= TRIES
            if exhausted or loop.time() + pause > give_up:
                raise JudgeError(reason, f"{problem} ({tries} tries)")
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Closes connections."""
        await self._client.close()


def client(config: EndpointConfig) -> openai.AsyncOpenAI:
    """Returns the library's client without its retries: ours know which requests are paid for."""
    return openai.AsyncOpenAI(
        api_key=config.key or "none",
        base_url=config.base_url or VENDOR,
        timeout=config.timeout,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [_note]}),
    )


_STATUSES: ContextVar[list[int]] = ContextVar("statuses")
"""Statuses of the responses to this request, noted before their bodies arrive, which may break off."""


async def _note(response: httpx.Response) -> None:
    statuses = _STATUSES.get(None)
    if statuses is not None:
        statuses.append(response.status_code)


def body(model: str, prompt: JudgePrompt) -> dict[str, Any]:
    """Returns the body of a prompt's request."""
    if isinstance(prompt, ChatPrompt):
        limit = prompt.limit or MAX_OUTPUT_TOKENS
        settings = {"temperature": 0, **prompt.settings, "seed": SEED, "max_completion_tokens": limit}
        return {"model": model, "messages": list(prompt.messages), **settings}
    user: list[dict[str, Any]] = [{"type": "text", "text": prompt.user}]
    user += [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in prompt.images]
    schema = {"name": prompt.name.replace("/", "_"), "strict": True, "schema": dict(prompt.schema)}
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": user if prompt.images else prompt.user},
        ],
        "temperature": 0,
        "seed": SEED,
        "max_completion_tokens": MAX_OUTPUT_TOKENS,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }


def read(prompt: JudgePrompt, completion: Any) -> Reply:
    """Validates the reply of a chat completion.

    Raises:
        JudgeError: If it is refused, cut off, not JSON, or of another schema.
    """
    text = content(completion, cut=isinstance(prompt, ChatPrompt))
    return Reply(prompt.read(text), text, completion.model or "", *spent(completion))


def content(completion: Any, *, cut: bool = False) -> str:
    """Returns the text of a completion that ended normally or, with `cut`, at its token limit.

    Raises:
        JudgeError: If it is refused or cut off, or holds no choice.
    """
    choices = getattr(completion, "choices", None)
    if not choices or not isinstance(choices, list):
        raise JudgeError("judge_bad_json", "the judge's endpoint sent no choices")
    message, finish = getattr(choices[0], "message", None), getattr(choices[0], "finish_reason", None)
    text: str = getattr(message, "content", None) or ""
    refusal = getattr(message, "refusal", None)
    if refusal or finish == "content_filter":
        raise JudgeError("judge_refused", "the judge declined", refusal or text)
    if finish == "length" and not cut:
        raise JudgeError("judge_truncated", f"the judge's reply was cut at {MAX_OUTPUT_TOKENS} tokens", text)
    return text


def spent(completion: Any) -> tuple[int, int]:
    """Returns the input and output tokens of a completion, usable or not."""
    usage = getattr(completion, "usage", None)
    return getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0


def _error_text(error: openai.APIStatusError) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    return str(body.get("message") or error.message)[:300]


def _data_url(image: bytes) -> str:
    return f"data:{media_type(image)};base64,{base64.b64encode(image).decode()}"
