"""Reasoning on tiny checkpoints that think: apart from the answer, counted, and never taken for it."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.model_serving import refusal
from hypothesis import given, strategies as st

from lyncean.model.v1 import model_pb2 as model

torch = pytest.importorskip("torch")
from model_server.decoding import MARKS, Marks  # noqa: E402
from model_server.hf.reasoning import Reasoning, decode  # noqa: E402

KINDS = {"thinking": MARKS[0], "gemma_channels": MARKS[1]}


def text(reply: model.GenerateResponse) -> str:
    return "".join(part.text for part in reply.parts)


@pytest.mark.parametrize("kind", KINDS)
async def test_reasoning_is_apart_from_the_answer(kind: str, served: Any, hf: Any, ask: Any) -> None:
    async with served(hf(kind)) as server:
        assert model.CAPABILITY_REASONING in (await server.info()).capabilities
        reply = await server.generate(ask("What is it?"), max_output_tokens=30, top_logprobs=1)
        tokens = [token.token.decode() for token in reply.logprobs]
        closing = tokens.index(KINDS[kind].closes)
        assert closing >= 5
        answer = "".join(token for token in tokens[closing + 1 :] if token != KINDS[kind].closes)
        assert (reply.reasoning, text(reply)) == ("".join(tokens[:closing]).strip(), answer.lstrip())
        assert answer.strip()
        assert (reply.usage.reasoning_tokens, reply.usage.output_tokens) == (closing + 1, 30)

        cut = await server.generate(ask("What is it?"), max_output_tokens=closing)
        assert cut.finish_reason == model.FINISH_REASON_MAX_TOKENS
        assert (cut.reasoning, [part.text for part in cut.parts]) == (reply.reasoning, [""])
        assert cut.usage.reasoning_tokens == cut.usage.output_tokens == closing

        # A stop string that stands in the reasoning as well ends the answer alone.
        stop = tokens[0].strip()
        assert stop
        assert stop in reply.reasoning
        stopped = await server.generate(ask("What is it?"), max_output_tokens=30, stop=[stop])
        assert stopped.reasoning == reply.reasoning
        assert text(stopped) == text(reply).partition(stop)[0]


@pytest.mark.parametrize("kind", KINDS)
async def test_reasoning_is_turned_off_bounded_and_asked_for_by_name(kind: str, served: Any, hf: Any, ask: Any) -> None:
    async with served(hf(kind)) as server:
        info = await server.info()
        assert {model.CAPABILITY_THINKING, model.CAPABILITY_THINKING_BUDGET} <= set(info.capabilities)
        assert list(info.chat_template_arguments) == ["enable_thinking"]
        question, room = ask("What is it?"), {"max_output_tokens": 30}
        whole = await server.generate(question, **room)
        off = await server.generate(question, thinking=False, **room)
        assert (off.reasoning, off.usage.reasoning_tokens) == ("", 0)
        assert text(off)
        named = await server.generate(question, chat_template_arguments={"enable_thinking": False}, **room)
        assert text(named) == text(off)
        for config in ({}, {"temperature": 1.0, "seed": 3}):
            short = await server.generate(question, thinking_budget=3, top_logprobs=1, **config, **room)
            tokens = [token.token for token in short.logprobs]
            assert tokens.index(KINDS[kind].closes.encode()) == 3
            assert short.reasoning == b"".join(tokens[:3]).decode(errors="replace").strip()
            assert short.usage.reasoning_tokens == 4
            assert text(short)
        assert whole.reasoning.startswith((await server.generate(question, thinking_budget=3, **room)).reasoning)

        unknown = server.generate(question, chat_template_arguments={"thinks": 1}, **room)
        assert await refusal(unknown) == ("INVALID_ARGUMENT", "unknown_argument")
        both = {"thinking": True, "chat_template_arguments": {"enable_thinking": False}}
        assert await refusal(server.generate(question, **both)) == ("INVALID_ARGUMENT", "thinking_conflict")
        assert await refusal(server.generate(question, extra_body={"a": 1})) == ("UNIMPLEMENTED", "no_extra_body")


async def test_a_model_without_marks_claims_nothing(served: Any, hf: Any, ask: Any) -> None:
    async with served(hf("text")) as server:
        assert model.CAPABILITY_REASONING not in (await server.info()).capabilities
        reply = await server.generate(ask("What is it?"), max_output_tokens=5)
        assert (reply.reasoning, reply.usage.reasoning_tokens) == ("", 0)
        for field in ({"thinking": True}, {"thinking_budget": 4}, {"chat_template_arguments": {"a": 1}}):
            assert await refusal(server.generate(ask("x"), **field)) == ("UNIMPLEMENTED", f"no_{next(iter(field))}")


TEXTS = st.lists(st.sampled_from(["yes", " no", "The answer", " is B", "\n\n", "1 < 2"]), max_size=4).map("".join)
OUTPUTS = st.tuples(st.sampled_from([*MARKS[:2], MARKS[2]]), st.booleans(), TEXTS, st.booleans(), TEXTS)


@given(OUTPUTS)
def test_any_output_is_told_apart(drawn: tuple[Marks, bool, str, bool, str]) -> None:
    """Marks that are tokens, special tokens and plain text; opened by prompt or output; closed or cut."""
    from helpers import tiny

    marks, by_prompt, thoughts, closed, answer = drawn
    tokenizer = tiny.tokenizer()
    if marks is not MARKS[2]:
        special = bool(marks.label)
        tokenizer.add_tokens([tiny.AddedToken(mark, special=special, normalized=False) for mark in marks[:2]])
    opens = f"{marks.opens}{marks.label}\n"
    output = ("" if by_prompt else opens) + thoughts + (f"{marks.closes}\n\n{answer}" if closed else "")
    follow = Reasoning(tokenizer, marks, f"user: x\nassistant\n{opens if by_prompt else ''}")
    ids = tokenizer(output, add_special_tokens=False)["input_ids"]
    for end in range(1, len(ids) + 1):
        follow.feed(ids[:end])
    assert follow.split(ids) == (thoughts.strip(), answer.lstrip() if closed else "")
    assert follow.inside is not closed
    assert decode(tokenizer, ids[follow.answer if closed else len(ids) :]).strip() == (answer.strip() if closed else "")
    assert follow.tokens == (follow.answer if closed else len(ids))
