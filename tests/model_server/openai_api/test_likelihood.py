"""Likelihood of the `openai` backend, by the prompt log-probabilities of an engine that behaves as vLLM does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import call

pytest.importorskip("openai")
from helpers.openai_endpoint import Endpoint, backend, completion, error

VOCABULARY = ["<s>", "Q", "?", " ", "A", "ns", "wer", "swer", "answer", "B", " A", " B", "Answer"]


class Vllm:
    """Scores prompts as vLLM's prompt_logprobs does, over a greedy longest-match vocabulary."""

    def __init__(self, *, thinks: bool = True) -> None:
        self.thinks = thinks

    def tokens(self, text: str) -> list[int]:
        found = [0]
        while text:
            piece = max((p for p in VOCABULARY[1:] if text.startswith(p)), key=len)
            found.append(VOCABULARY.index(piece))
            text = text[len(piece) :]
        return found

    def __call__(self, body: dict[str, Any]) -> Any:
        assert body["prompt_logprobs"] == 0
        assert body["max_tokens"] == 1
        last = body["messages"][-1]
        assert (last["role"] == "assistant") == body.get("continue_final_message", False)
        assert body["add_generation_prompt"] != body.get("continue_final_message", False)
        prompt = "".join(m.get("reasoning", "") * self.thinks + m["content"] for m in body["messages"])
        ids = self.tokens(prompt)
        places: list[Any] = [None]
        for number in ids[1:]:
            fact = {"logprob": -0.25 * number, "rank": 1 if number % 2 else 2, "decoded_token": VOCABULARY[number]}
            places.append({str(number): fact})
        return completion("x", prompt_logprobs=places)


async def test_likelihood_by_prompt_logprobs(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = Vllm()
    async with served(backend(endpoint)) as server:
        reply = await server.score(ask("Q? A"), [" A", "B A", "nswer"], return_tokens=True)
        tokens = [[token.token.decode() for token in score.tokens] for score in reply.scores]
        # "Q? A" + "nswer" tokenizes as "Q", "?", " A", "ns", "wer": nothing merges over the end.
        assert tokens == [[" A"], ["B", " A"], ["ns", "wer"]]
        assert [score.logprob for score in reply.scores] == [-0.25 * 10, -0.25 * 19, -0.25 * 11]
        assert [score.is_greedy for score in reply.scores] == [False, False, False]
        joined = await server.score(ask("Q?Ans"), ["wer"], return_tokens=True)
        # "Ans" + "wer" is the one token "Answer", which does not end inside the prompt.
        assert [t.token.decode() for t in joined.scores[0].tokens] == ["Answer"]
        assert joined.scores[0].logprob == -0.25 * 12


async def test_scores_behind_the_beginning_of_an_answer(endpoint: Endpoint, served: Any, ask: Any) -> None:
    """The beginning is continued, its reasoning is sent, and a template that leaves that out is found out."""
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = Vllm()

    def request(reasoning: str = "") -> model.LikelihoodRequest:
        parts = [model.Part(text="Ans"), model.Part(text="wer")]
        begun = model.Message(role=model.ROLE_ASSISTANT, parts=parts, reasoning=reasoning)
        return model.LikelihoodRequest(messages=[ask("Q?"), begun], continuations=[" A", " B"], return_tokens=True)

    async with served(backend(endpoint)) as server:
        assert model.CAPABILITY_ANSWER_PREFIX in (await server.info()).capabilities
        reply = await server.send(request())
        assert [[token.token for token in score.tokens] for score in reply.scores] == [[b" A"], [b" B"]]
        assert [score.logprob for score in reply.scores] == [-0.25 * 10, -0.25 * 11]
        last = {body["messages"][-1]["content"] for body in endpoint.seen}
        assert last == {"Answer", "Answer A", "Answer B"}
        endpoint.seen = []
        await server.send(request("B B"))
        assert all(body["messages"][-1]["reasoning"] == "B B" for body in endpoint.seen)
        assert all(body["chat_template_kwargs"]["enable_thinking"] for body in endpoint.seen)
        endpoint.answer = Vllm(thinks=False)
        assert await refusal(server.send(request("B B"))) == ("UNIMPLEMENTED", "no_reasoning")
        await server.send(request())

        endpoint.seen, endpoint.answer = [], lambda body: completion(" A")
        said = await server.send(model.GenerateRequest(messages=request().messages))
        assert [part.text for part in said.parts] == [" A"]
        (body,) = endpoint.seen
        assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
        assert body["messages"][-1] == {"role": "assistant", "content": "Answer"}


async def test_many_continuations_wait_as_one_request(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = Vllm()
    async with served(backend(endpoint, max_concurrency=2, max_queue=3)) as server:
        scored = model.LikelihoodRequest(messages=[ask("Q?")], continuations=["A", "B", " A", " B", "Answer", "swer"])
        reply = await call(server.stub.Likelihood, scored, timeout=20)
        assert len(reply.scores) == 6
        together = await asyncio.gather(*[call(server.stub.Likelihood, scored, timeout=20) for _ in range(4)])
        assert all(other.scores == reply.scores for other in together)


async def test_after_a_failure_the_other_continuations_are_not_asked(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = lambda body: error(400, "Invalid image data")
    async with served(backend(endpoint, max_concurrency=1)) as server:
        scored = model.LikelihoodRequest(messages=[ask("Q?")], continuations=["A"] * 50)
        assert (await refusal(call(server.stub.Likelihood, scored, timeout=20)))[1] == "endpoint_refused"
        endpoint.answer = Vllm()
        first = len(endpoint.seen)
        reply = await call(
            server.stub.Likelihood,
            model.LikelihoodRequest(messages=[ask("Q?")], continuations=["A"]),
            timeout=20,
        )
        assert len(reply.scores) == 1
        assert len(endpoint.seen) == first + 2
        assert first < 5


async def test_a_blank_that_the_template_puts_before_an_answer_is_scored_with_it(
    endpoint: Endpoint, served: Any, ask: Any
) -> None:
    endpoint.card["owned_by"] = "vllm"
    engine = Vllm()

    def vicuna(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "assistant":
            body["messages"][-1]["content"] = " " + body["messages"][-1]["content"]
        return engine(body)

    endpoint.answer = vicuna
    async with served(backend(endpoint)) as server:
        scored = model.LikelihoodRequest(messages=[ask("Q?")], continuations=["A", "B"], return_tokens=True)
        reply = await server.send(scored)
        assert [[token.token for token in score.tokens] for score in reply.scores] == [[b" A"], [b" B"]]


async def test_a_template_that_changes_the_continuation_is_found(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    engine = Vllm()

    def strips(body: dict[str, Any]) -> Any:
        body["messages"][-1]["content"] = body["messages"][-1]["content"].strip()
        return engine(body)

    endpoint.answer = strips
    async with served(backend(endpoint)) as server:
        assert (await refusal(server.score(ask("Q?"), [" A"])))[1] == "continuation_changed"


async def test_likelihood_is_not_claimed_elsewhere(endpoint: Endpoint, served: Any, ask: Any) -> None:
    async with served(backend(endpoint)) as server:
        assert (await refusal(server.score(ask("x"), ["A"])))[0] == "UNIMPLEMENTED"
