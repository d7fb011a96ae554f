"""Constrained answers: each keeps its format when sampled, in a batch, and after reasoning."""

from __future__ import annotations

from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.response_format import keeps
from orchestrator.conformance.check import applies, check, wants
from orchestrator.conformance.checks_generate import PROMPT, RIDDLE
from orchestrator.conformance.server import Server, at_once, generation, one_by_one, response_of, text_of

_BUDGET = 32
_CHOICES = model.ResponseFormat(choices=model.AnswerChoices(texts=["zx7", "zx7-q", "Nø"]))
"""Texts that no model says by itself; one begins with another."""
_REGEX = model.ResponseFormat(regex=r"(?:No|Yes): \d{3}[.!]")
_SCHEMA = model.ResponseFormat(
    json_schema='{"type": "object", "properties": {"zx7": {"enum": ["q", "w"]}, "n": {"type": "boolean"}}, '
    '"required": ["zx7", "n"], "additionalProperties": false}'
)
_ANSWERS = model.ResponseFormat(choices=model.AnswerChoices(texts=["0.05", "0.10"]))


@check
async def choices_are_kept(server: Server) -> str:
    """Choices of which one begins with another."""
    return await _kept(server, _CHOICES)


@check
async def regex_is_kept(server: Server) -> str:
    """An expression with a number in the middle."""
    return await _kept(server, _REGEX)


@check
async def json_schema_is_kept(server: Server) -> str:
    """An object of two properties and no others."""
    return await _kept(server, _SCHEMA)


@check
async def format_begins_behind_the_reasoning(server: Server) -> str:
    """A riddle with two answers to choose from."""
    answer = await server.generate(RIDDLE, response_format=_ANSWERS, **_room(server))
    _holds(answer, _ANSWERS, "a riddle with choices")
    applies(bool(answer.reasoning), f"it answered {text_of(answer)!r} without reasoning")
    return f"{text_of(answer)!r} after {len(answer.reasoning)} characters of reasoning"


async def _kept(server: Server, wanted: model.ResponseFormat) -> str:
    """Asks greedily and, where the server takes seeds, sampled; alone, and beside each other and a free answer."""
    room = _room(server) | {"response_format": wanted}
    requests = [generation(PROMPT, **room)]
    if server.claims("SEED"):
        requests += [generation(PROMPT, temperature=1.0, seed=seed, **room) for seed in (1, 2)]
    alone = await server.settled(one_by_one, requests)
    among = await server.settled(at_once, [*requests, generation(PROMPT)])
    texts = []
    for ending, beside in zip(alone, among, strict=False):
        one, other = response_of(ending, "a request by itself"), response_of(beside, "a request among others")
        assert isinstance(one, model.GenerateResponse)
        assert isinstance(other, model.GenerateResponse)
        _holds(one, wanted, "an answer")
        _holds(other, wanted, "an answer beside others")
        texts.append(text_of(one))
        same = not server.exact or texts[-1] == text_of(other)
        wants(same, f"alone it answered {texts[-1]!r}, beside others {text_of(other)!r}")
    return ", ".join(map(repr, texts))[:60]


def _holds(answer: model.GenerateResponse, wanted: model.ResponseFormat, case: str) -> None:
    kind = wanted.WhichOneof("kind")
    cut = answer.finish_reason == model.FINISH_REASON_MAX_TOKENS
    applies(not cut, f"{case} was cut after {answer.usage.output_tokens} tokens")
    wants(keeps(wanted, text_of(answer)), f"{case} was to keep {kind}, it is {text_of(answer)[:80]!r}")
    effective = answer.effective_config.response_format
    wants(effective == wanted, "effective_config does not have the response_format that was set")


def _room(server: Server) -> dict[str, Any]:
    """Returns the limits of a request: room for reasoning, and a budget where the server takes one."""
    budget = {"thinking_budget": _BUDGET} if server.claims("THINKING_BUDGET") else {}
    return {"max_output_tokens": server.room} | budget
