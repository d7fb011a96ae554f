"""The prompts and replies of judges, and the verdicts that follow from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

from lyncean.rpc.addresses import without_password
from lyncean.rpc.budget import Budget
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome

NO_REPLY = frozenset(
    {
        "judge_unreachable",
        "judge_rate_limited",
        "judge_error",
        "judge_timeout",
        "judge_reply_cut",
        "judge_budget",
        "judge_batch_expired",
        "judge_batch_failed",
    }
)
"""Reasons of failures without any reply, which do not measure how the judge decides."""

VENDOR = "https://api.openai.com/v1"
"""The endpoint of a judge without an address."""


class JudgeError(Exception):
    """A judge's reply is missing or unusable: the item is `unjudged`, and no verdict is guessed.

    Attributes:
        reason: Machine-readable cause: `judge_unreachable`, `judge_rate_limited`,
            `judge_error`, `judge_timeout`, `judge_reply_cut`, `judge_refused`, `judge_truncated`,
            `judge_bad_json`, `judge_wrong_schema`, `judge_no_majority`, `judge_budget`,
            `judge_batch_expired`, `judge_batch_failed`.
        text: The reply, if there was one.
        no_reply: Whether there was no reply at all, rather than an unusable one.
        members: The usable replies of a panel without a majority.
    """

    def __init__(
        self,
        reason: str,
        message: str,
        text: str = "",
        *,
        no_reply: bool | None = None,
        members: tuple[Reply, ...] = (),
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.text = text
        self.no_reply = reason in NO_REPLY if no_reply is None else no_reply
        self.members = members


@dataclass(frozen=True)
class JudgePrompt:
    """One question to a judge.

    Attributes:
        name: Name and version of the prompt's text, for example "open_answer/1".
        system: Instructions.
        user: The case.
        schema: Strict JSON schema of the reply: an object, every property required,
            `additionalProperties` false.
        images: Encoded images that the case is about, in order.
    """

    name: str
    system: str
    user: str
    schema: Mapping[str, Any]
    images: tuple[bytes, ...] = field(default=(), repr=False)

    @cached_property
    def sha256(self) -> str:
        """Hash of all inputs of the judge."""
        inputs = {
            "name": self.name,
            "system": self.system,
            "user": self.user,
            "schema": self.schema,
            "images": [hashlib.sha256(image).hexdigest() for image in self.images],
        }
        return hashlib.sha256(canonical(inputs).encode()).hexdigest()

    def read(self, text: str) -> Mapping[str, Any]:
        """Parses and validates a reply.

        Raises:
            JudgeError: If the text is not JSON, or does not fit the schema.
        """
        from jsonschema.exceptions import best_match

        try:
            data = json.loads(text)
        except ValueError as error:
            raise JudgeError("judge_bad_json", f"the judge's reply is not JSON: {error}", text) from None
        wrong = best_match(_validator(canonical(self.schema)).iter_errors(data))
        if wrong is not None:
            raise JudgeError("judge_wrong_schema", f"the judge's reply does not fit the schema: {wrong.message}", text)
        return data  # type: ignore[no-any-return]


@lru_cache(256)
def _validator(schema: str) -> Any:
    """Returns a validator of a schema, which is itself checked once: each time would cost a reply 5 ms."""
    from jsonschema.validators import validator_for

    loaded = json.loads(schema)
    kind = validator_for(loaded)
    kind.check_schema(loaded)
    return kind(loaded)


@dataclass(frozen=True, slots=True)
class Reply:
    """A judge's usable reply.

    Attributes:
        data: The object, checked against the prompt's schema.
        text: The reply, unedited.
        model: The model name that the judge reports.
        input_tokens: Tokens of the prompt; 0 when cached.
        output_tokens: Tokens of the reply; 0 when cached.
        cached: Whether it came from the cache, or from an equal question in flight.
        members: The replies of a panel's judges; empty for a single judge.
    """

    data: Mapping[str, Any]
    text: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached: bool = False
    members: tuple[Reply, ...] = ()


class Judge(Protocol):
    """A model, or a panel of several, that answers prompts."""

    @property
    def identity(self) -> str:
        """The inputs of a reply besides the prompt: model, endpoint, decoding."""

    @property
    def waits_for(self) -> str:
        """The reason that replies are late, as text for people: the last failure that is retried; else ""."""

    async def ask(self, prompt: JudgePrompt) -> Reply:
        """Sends one prompt, and retries failures that pass.

        Raises:
            JudgeError: If no reply is usable.
        """

    async def close(self) -> None:
        """Closes connections and files."""


class Single(Judge, Protocol):
    """One judge, as the cache calls it."""

    async def prepare(self) -> None:
        """Fetches the data of `identity`, for a judge whose server has to be asked for it.

        Raises:
            JudgeError: If it cannot be fetched.
        """


def take(budget: Budget) -> None:
    """Charges the budget with a request that is about to be sent.

    Raises:
        JudgeError: If a bound is reached.
    """
    if reached := budget.reached():
        name, bound = reached
        option = f"--judge-{name.replace('_', '-')}"
        raise JudgeError("judge_budget", f"the judge's budget is spent: {option} {bound:g} is reached")
    budget.sent()


def canonical(value: object) -> str:
    """Returns canonical JSON: equal values have equal text, which is hashed."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def without_user(address: str) -> str:
    """Returns an address without user and password: the endpoint is the same with others."""
    return without_password(address).replace("://***@", "://")


async def graded(judge: Judge, prompt: JudgePrompt, read: Callable[[Mapping[str, Any]], pb.Verdict]) -> pb.Verdict:
    """Asks a judge and turns its reply into a verdict.

    Returns:
        The verdict that `read` makes of the reply's data, with the replies of the judge and of each judge of a panel.
        `unjudged`, with the same replies, if the judge failed or the judges disagree.
    """
    try:
        reply = await judge.ask(prompt)
    except JudgeError as error:
        verdict = pb.Verdict(outcome=Outcome.UNJUDGED, reason=error.reason, detail=str(error))
        verdict.judge.prompt_sha256 = prompt.sha256
        verdict.judge.words = error.text
        verdict.panel.extend(_judgement(prompt, member) for member in error.members)
        return verdict
    verdict = read(reply.data)
    verdict.judge.CopyFrom(_judgement(prompt, reply))
    verdict.panel.extend(_judgement(prompt, member) for member in reply.members)
    return verdict


def _judgement(prompt: JudgePrompt, reply: Reply) -> pb.Judgement:
    judgement = pb.Judgement(model=reply.model, prompt_sha256=prompt.sha256, words=reply.text, cached=reply.cached)
    judgement.usage.input_tokens = reply.input_tokens
    judgement.usage.output_tokens = reply.output_tokens
    return judgement
