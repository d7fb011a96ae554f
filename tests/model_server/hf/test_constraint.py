"""Constrained answers on tiny checkpoints, whose random weights would hardly ever keep a format by themselves."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from helpers.model_serving import refusal
from hypothesis import given, settings, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.vocabulary.response_format import keeps

torch = pytest.importorskip("torch")
pytest.importorskip("llguidance")
from helpers import tiny  # noqa: E402

from model_server.backend import Call  # noqa: E402
from model_server.decoding import MARKS, effective_config  # noqa: E402
from model_server.hf.constraint import Formats  # noqa: E402
from model_server.hf.reasoning import Reasoning  # noqa: E402
from model_server.hf.rows import RowDecoder, SamplingRow  # noqa: E402

SCHEMA = """{"type": "object", "additionalProperties": false, "required": ["animal", "legs"], "properties": {
"animal": {"enum": ["dog", "cat"]}, "legs": {"type": "integer", "minimum": 0, "maximum": 99},
"why": {"type": "string", "maxLength": 8}, "seen": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}}}"""
FORMATS = {
    "letters": model.ResponseFormat(choices={"texts": ["A", "B", "C", "D"]}),
    "words": model.ResponseFormat(choices={"texts": ["yes", "yes, both", "no (neither)", "é"]}),
    "regex": model.ResponseFormat(regex=r"The answer is [A-D]\.|\d{1,3}(?:\.\d{2})? %"),
    "blank": model.ResponseFormat(regex=r"\s?[a-z]{3} ?"),
    "schema": model.ResponseFormat(json_schema=SCHEMA),
}
KINDS = ("text", "llama", "thinking", "gemma_channels")
"""Byte-level and SentencePiece's tokens; reasoning between marks that are special tokens or plain ones."""


def text(reply: model.GenerateResponse) -> str:
    return "".join(part.text for part in reply.parts)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_answer_keeps_its_format(kind: str, served: Any, hf: Any, ask: Any) -> None:
    thinks = kind in ("thinking", "gemma_channels")
    async with served(hf(kind)) as server:
        claims = {model.CAPABILITY_ANSWER_CHOICES, model.CAPABILITY_ANSWER_REGEX, model.CAPABILITY_ANSWER_JSON_SCHEMA}
        assert claims <= set((await server.info()).capabilities)
        for name, response_format in FORMATS.items():
            for config in ({}, {"temperature": 1.0, "seed": 5, "top_k": 30}):
                config |= {"response_format": response_format, "max_output_tokens": 300}
                config |= {"thinking_budget": 5} if thinks else {}
                reply = await server.generate(ask("What is it?"), **config)
                ended = reply.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
                assert ended, f"{name}: {text(reply)!r}"
                assert keeps(response_format, text(reply)), f"{name}: {text(reply)!r}"
                assert reply.effective_config.response_format == response_format
                assert bool(reply.reasoning) is thinks


@pytest.mark.parametrize("kind", KINDS)
async def test_a_format_is_for_what_follows_the_beginning_of_an_answer(
    kind: str, served: Any, hf: Any, ask: Any
) -> None:
    begun = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="The answer is")])
    async with served(hf(kind)) as server:
        for name, response_format in FORMATS.items():
            config = model.GenerationConfig(response_format=response_format, max_output_tokens=300)
            reply = await server.send(model.GenerateRequest(messages=[ask("What is it?"), begun], config=config))
            assert reply.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
            assert keeps(response_format, text(reply)), f"{name}: {text(reply)!r}"
            assert not reply.reasoning


async def test_a_batch_of_formats_says_what_each_request_says_alone(served: Any, hf: Any, ask: Any) -> None:
    configs: list[dict[str, Any]] = [{"response_format": response_format} for response_format in FORMATS.values()]
    configs += [{**config, "temperature": 1.0, "seed": 3, "top_p": 0.9} for config in configs]
    configs += [{}, {"temperature": 1.0, "seed": 3}]
    for config in configs:
        config |= {"max_output_tokens": 70, "top_logprobs": 2}
    async with served(hf("text", max_batch=1)) as server:
        alone = [await server.generate(ask("What is it?"), **config) for config in configs]
    async with served(hf("text", max_batch=16, batch_wait=0.5)) as server:
        together = await asyncio.gather(*(server.generate(ask("What is it?"), **config) for config in configs))
        # Log-probabilities are the model's own: of the most probable token there is another than the answer has.
        letter = together[0].logprobs[0]
        assert letter.logprob < letter.top[0].logprob
        assert letter.top[0].token == together[-2].logprobs[0].token
    for one, other in zip(alone, together, strict=True):
        assert (text(one), one.finish_reason, len(one.logprobs)) == (
            text(other),
            other.finish_reason,
            len(other.logprobs),
        )
        assert one.usage.output_tokens == other.usage.output_tokens
        for mine, its in zip(one.logprobs, other.logprobs, strict=True):
            assert mine.logprob == pytest.approx(its.logprob, abs=1e-4)


async def test_the_limit_cuts_an_answer_and_says_so(served: Any, hf: Any, ask: Any) -> None:
    response_format = model.ResponseFormat(regex="The answer is [a-z]{40}")
    async with served(hf("text")) as server:
        reply = await server.generate(ask("x"), response_format=response_format, max_output_tokens=4)
        assert reply.finish_reason == model.FINISH_REASON_MAX_TOKENS
        assert text(reply)
        assert "The answer is ".startswith(text(reply)[:14])
        one = await server.generate(ask("x"), response_format=FORMATS["letters"], max_output_tokens=2)
        assert (one.finish_reason, len(text(one))) == (model.FINISH_REASON_END_OF_SEQUENCE, 1)


@pytest.mark.parametrize(
    "schema", ['{"not": {"type": "string"}}', '{"uniqueItems": true}', '{"pattern": "(?=a)b"}', "false"]
)
async def test_a_schema_that_cannot_be_kept_is_refused(schema: str, served: Any, hf: Any, ask: Any) -> None:
    async with served(hf("text")) as server:
        refused = await refusal(server.generate(ask("x"), response_format={"json_schema": schema}))
        assert refused == ("UNIMPLEMENTED", "format_not_supported")


async def test_reasoning_is_free_and_may_be_opened_by_the_model(served: Any, hf: Any, ask: Any) -> None:
    """The prompt opens the reasoning, nobody does, or the output does; then the answer has its format all the same."""
    room = {"response_format": FORMATS["letters"], "max_output_tokens": 40}
    async with served(hf("thinking")) as server:
        free = await server.generate(ask("What is it?"), max_output_tokens=40)
        held = await server.generate(ask("What is it?"), **room)
        assert held.reasoning == free.reasoning != ""
        off = await server.generate(ask("What is it?"), thinking=False, **room)
        assert (off.reasoning, off.usage.reasoning_tokens) == ("", 0)
        short = await server.generate(ask("What is it?"), thinking_budget=2, **room)
        assert short.usage.reasoning_tokens == 3
        for reply in (held, off, short):
            assert keeps(FORMATS["letters"], text(reply))
        cut = await server.generate(ask("What is it?"), response_format=FORMATS["letters"], max_output_tokens=2)
        assert (cut.reasoning != "", text(cut), cut.finish_reason) == (True, "", model.FINISH_REASON_MAX_TOKENS)


PIECES = ("a", "B", "é", r"\.", r"\n", ".", r"\d", r"\W", "[ab]", "[^a]", r"[\d.-]", " ", "/", '"')
EXPRESSIONS = st.recursive(
    st.sampled_from(PIECES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["?", "{2}", "{0,2}", "{1,3}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)
"""Regular expressions of texts that end."""
_FORMATS: dict[str, Formats] = {}


@given(EXPRESSIONS, st.randoms(use_true_random=False), st.sampled_from(["bytes", "sentencepiece"]))
@settings(deadline=None, max_examples=150)
def test_any_walk_through_the_allowed_tokens_ends_in_a_match(regex: str, random: Any, kind: str) -> None:
    if kind not in _FORMATS:
        tokenizer = tiny.tokenizer() if kind == "bytes" else tiny.llama_tokenizer()
        _FORMATS[kind] = Formats(tokenizer, [tokenizer.eos_token_id], [])
    constraint = _FORMATS[kind].compile(model.ResponseFormat(regex=regex)).copy()
    end = _FORMATS[kind].ends[0]
    while not constraint.complete:
        allowed = constraint.allowed(512).nonzero()[:, 0].tolist()
        token = random.choice(allowed)
        if token == end:
            break
        constraint.feed(token)
    assert re.fullmatch(regex, constraint.text, re.ASCII)


class _Wishing:
    """A row whose model wishes for one token after the other."""

    def __init__(self, opened: bool) -> None:
        self.tokenizer = tiny.tokenizer()
        self.tokenizer.add_tokens(["<think>", "</think>"])
        self.size = len(self.tokenizer)
        self.ends = frozenset([self.tokenizer.eos_token_id])
        marks = [self.tokenizer.convert_tokens_to_ids(mark) for mark in ("<think>", "</think>")]
        config = effective_config(model.GenerationConfig(max_output_tokens=30, temperature=0))
        formats = Formats(self.tokenizer, self.ends, marks)
        constraint = formats.compile(model.ResponseFormat(choices={"texts": ["A", "B"]}))
        prompt = "assistant\n<think>\n" if opened else "assistant\n"
        reasoning = Reasoning(self.tokenizer, MARKS[0], prompt)
        self.row = SamplingRow(config, Call(), lambda _: None, reasoning, constraint)

    def follow(self, wishes: list[str]) -> str:
        """Lets the model wish for one token after the other; returns what it said."""
        decoder = RowDecoder(self.tokenizer, self.ends)
        for wish in wishes:
            scores = torch.linspace(0, 1, self.size)[None]
            scores[0, self.tokenizer.convert_tokens_to_ids(wish)] = 9.0
            decoder.advance(self.row, decoder.choose([self.row], scores)[0])
            if self.row.over:
                break
        return self.row.text


@pytest.mark.parametrize(
    ("opened", "wishes", "thoughts"),
    [
        (True, ["A", "</s>", "</think>", "Ċ", "B"], None),  # an end inside the reasoning has to wait
        (False, ["<think>", "A", "</think>", "Ċ", "Ċ", "Ċ", "B"], "A"),
        (False, ["B", "<think>"], ""),
    ],
)
def test_what_a_model_wishes_for_around_its_answer(opened: bool, wishes: list[str], thoughts: str | None) -> None:
    wishing = _Wishing(opened)
    assert wishing.follow(wishes) in ("A", "B")
    assert wishing.row.finish == model.FINISH_REASON_END_OF_SEQUENCE
    assert thoughts is None or wishing.row.thoughts == thoughts
    if thoughts != "":
        assert wishing.row.reasoning
        assert wishing.row.reasoning.tokens
