"""Likelihood of the `openai` backend, with an engine that behaves as vLLM does."""

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
    """Answers as vLLM does, over a greedy longest-match vocabulary.

    Args:
        lists: Whether it knows listed tokens; an old one ignores what it does not know.
        beyond: Whether the prompt is long, so that it is worth being computed once.
        thinks: Whether its template keeps reasoning.
    """

    def __init__(self, *, lists: bool = False, beyond: int = 0, thinks: bool = True) -> None:
        self.lists = lists
        self.beyond = beyond
        self.thinks = thinks

    def tokens(self, text: str) -> list[int]:
        ids = [0] * (1 + self.beyond)
        while text:
            piece = max((p for p in VOCABULARY[1:] if text.startswith(p)), key=len)
            ids.append(VOCABULARY.index(piece))
            text = text[len(piece) :]
        return ids

    def logprob(self, ids: list[int], number: int) -> float:
        """Depends on all tokens before, as a model's does."""
        return -0.25 * number - 0.01 * sum(position * token for position, token in enumerate(ids[1 + self.beyond :], 1))

    def __call__(self, body: dict[str, Any]) -> Any:
        assert body["max_tokens"] == 1
        last = body["messages"][-1]
        assert (last["role"] == "assistant") == body.get("continue_final_message", False)
        assert body["add_generation_prompt"] != body.get("continue_final_message", False)
        ids = self.tokens("".join(m.get("reasoning", "") * self.thinks + m["content"] for m in body["messages"]))
        fields: dict[str, Any] = {"choice": {}}
        if "prompt_logprobs" in body:
            assert body["prompt_logprobs"] == 0
            places: list[Any] = [None]
            for position, number in enumerate(ids[1:], 1):
                fact = {"logprob": self.logprob(ids[:position], number), "decoded_token": VOCABULARY[number]}
                places.append({str(number): fact | {"rank": 1 if number == self.greedy(ids[:position]) else 2}})
            fields["prompt_logprobs"] = places
        if self.lists and body.get("return_token_ids"):
            fields["prompt_token_ids"] = ids
            fields["choice"]["token_ids"] = [self.greedy(ids)]
        if body.get("logprobs"):
            numbers = dict.fromkeys([self.greedy(ids), *body["logprob_token_ids"]]) if self.lists else {}
            entries = [
                {"token": VOCABULARY[number], "logprob": self.logprob(ids, number), "bytes": None} for number in numbers
            ]
            sampled = {"token": VOCABULARY[self.greedy(ids)], "logprob": -0.1, "bytes": None, "top_logprobs": entries}
            fields["choice"]["logprobs"] = {"content": [sampled]}
        return completion("x", **fields)

    def greedy(self, ids: list[int]) -> int:
        return 4 + ids[-1] % 3


async def test_likelihood_by_prompt_logprobs(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = Vllm()
    async with served(backend(endpoint)) as server:
        reply = await server.score(ask("Q? A"), [" A", "B A", "nswer"], return_tokens=True)
        tokens = [[token.token.decode() for token in score.tokens] for score in reply.scores]
        # "Q? A" + "nswer" tokenizes as "Q", "?", " A", "ns", "wer": nothing merges over the end.
        assert tokens == [[" A"], ["B", " A"], ["ns", "wer"]]
        behind = Vllm().tokens("Q? A")
        scored = [score.logprob for score in reply.scores]
        assert scored == [sum_of(behind, 10), sum_of(behind, 9, 10), sum_of(behind, 5, 6)]
        assert [score.is_greedy for score in reply.scores] == [False, False, True]
        joined = await server.score(ask("Q?Ans"), ["wer"], return_tokens=True)
        # "Ans" + "wer" is the one token "Answer", which does not end inside the prompt.
        assert [t.token.decode() for t in joined.scores[0].tokens] == ["Answer"]
        assert joined.scores[0].logprob == Vllm().logprob(Vllm().tokens("Q?"), 12)


async def test_a_prompt_is_shown_as_its_tokens(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    for engine in (Vllm(beyond=500, lists=True), Vllm()):
        endpoint.answer = engine
        async with served(backend(endpoint)) as server:
            assert model.CAPABILITY_RENDERED_PROMPT in (await server.info()).capabilities
            shown = server.score(ask("Q? A"), [" A"], return_tokens=True, return_prompt=True)
            if not engine.lists:
                assert await refusal(shown) == ("UNIMPLEMENTED", "no_rendered_prompt")
                continue
            reply = await shown
            assert list(reply.prompt.token_ids) == engine.tokens("Q? A")
            assert reply.prompt.text == " ".join(map(str, engine.tokens("Q? A")))
            assert [token.token_id for token in reply.scores[0].tokens] == [10]
    fields: dict[str, Any] = {"prompt_token_ids": [1, 5, 9]}
    endpoint.answer = lambda body: completion("x", **(fields if body.get("return_token_ids") else {}))
    async with served(backend(endpoint)) as server:
        request = model.GenerateRequest(messages=[ask("Q?")], return_prompt=True)
        reply = await server.send(request)
        assert (list(reply.prompt.token_ids), reply.prompt.text) == ([1, 5, 9], "1 5 9")
        fields.clear()
        assert await refusal(server.send(request)) == ("UNIMPLEMENTED", "no_rendered_prompt")


async def test_listed_tokens_give_the_same_and_compute_the_prompt_once(
    endpoint: Endpoint, served: Any, ask: Any
) -> None:
    endpoint.card["owned_by"] = "vllm"
    texts = [" A", "B A", "nswer", "ns A", "nsB", "B", "A A A"]
    replies = []
    for engine in (Vllm(beyond=500), Vllm(lists=True, beyond=500)):
        endpoint.answer = engine
        endpoint.seen.clear()
        async with served(backend(endpoint)) as server:
            replies.append(await server.score(ask("Q? A"), texts, return_tokens=True))
    by_prompts, listed = replies
    assert listed.scores == by_prompts.scores
    assert listed.usage.output_tokens == by_prompts.usage.output_tokens
    assert listed.usage.input_tokens == by_prompts.usage.input_tokens
    # The prompt, each text once for its tokens, and each distinct beginning of a text: "", "B", "ns", "A", "A A".
    assert len(endpoint.seen) == 1 + len(texts) + 5
    assert not any("prompt_logprobs" in body for body in endpoint.seen)
    assert endpoint.seen[-1]["logprob_token_ids"] == [10]


async def test_listed_tokens_give_way_where_they_do_not_lead(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = Vllm(lists=True, beyond=500)
    async with served(backend(endpoint)) as server:
        joined = await server.score(ask("Q?Ans"), ["wer"], return_tokens=True)
        assert [t.token.decode() for t in joined.scores[0].tokens] == ["Answer"]  # a token across the prompt's end
        reply = await server.score(ask("Q?"), ["A", "B"])  # the next request takes the short way again
        assert "logprob_token_ids" in endpoint.seen[-1]
        assert [score.token_count for score in reply.scores] == [1, 1]
        endpoint.answer = Vllm(lists=True)
        await server.score(ask("Q?"), ["A", "B A B"])  # a prompt of three tokens: cheaper than many steps
        assert "prompt_logprobs" in endpoint.seen[-1]


async def test_many_tokens_are_listed_in_several_requests(
    endpoint: Endpoint, served: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_server.openai_api.likelihood.MOST_LISTED", 2)
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = Vllm(lists=True, beyond=500)
    async with served(backend(endpoint)) as server:
        reply = await server.score(ask("Q?"), ["A", "B", "ns", "wer", " A"])
        behind = Vllm().tokens("Q?")
        assert [score.logprob for score in reply.scores] == [Vllm().logprob(behind, n) for n in (4, 9, 5, 6, 10)]
        assert [len(body.get("logprob_token_ids", ())) for body in endpoint.seen[-3:]] == [2, 2, 1]


def sum_of(prefix: list[int], *numbers: int) -> float:
    return sum(Vllm().logprob([*prefix, *numbers[:count]], number) for count, number in enumerate(numbers))


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
        prefix = Vllm().tokens("Q?Answer")
        assert [score.logprob for score in reply.scores] == [sum_of(prefix, 10), sum_of(prefix, 11)]
        last = {body["messages"][-1]["content"] for body in endpoint.seen}
        assert last == {"Answer", "Answer A", "Answer B"}
        endpoint.seen = []
        await server.send(request("B B"))
        assert all(body["messages"][-1]["reasoning"] == "B B" for body in endpoint.seen)
        assert all(body["chat_template_kwargs"]["enable_thinking"] for body in endpoint.seen)
        for lists in (False, True):
            endpoint.answer = Vllm(thinks=False, lists=lists, beyond=500)
            assert await refusal(server.send(request("B B"))) == ("UNIMPLEMENTED", "no_reasoning")
            await server.send(request())

        endpoint.seen, endpoint.answer = [], lambda body: completion(" A")
        generated = await server.send(model.GenerateRequest(messages=request().messages))
        assert [part.text for part in generated.parts] == [" A"]
        (body,) = endpoint.seen
        assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
        assert body["messages"][-1] == {"role": "assistant", "content": "Answer"}


async def test_listed_tokens_give_the_same_behind_a_beginning(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    begun = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="Answer")], reasoning="B B")
    request = model.LikelihoodRequest(messages=[ask("Q?"), begun], continuations=[" A", " B A"], return_tokens=True)
    replies = []
    for engine in (Vllm(beyond=500), Vllm(lists=True, beyond=500)):
        endpoint.answer, endpoint.seen = engine, []
        async with served(backend(endpoint)) as server:
            replies.append(await server.send(request))
    assert replies[1].scores == replies[0].scores
    assert replies[1].usage.input_tokens == replies[0].usage.input_tokens
    # Only the prompt's own request computes all of it: its words show whether the template kept the reasoning.
    assert ["prompt_logprobs" in body for body in endpoint.seen] == [True, *[False] * (len(endpoint.seen) - 1)]
    assert "logprob_token_ids" in endpoint.seen[-1]


async def test_many_continuations_wait_as_one_request(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = Vllm()
    async with served(backend(endpoint, max_concurrency=2, max_queue=3)) as server:
        scored = model.LikelihoodRequest(messages=[ask("Q?")], continuations=["A", "B", " A", " B", "Answer", "swer"])
        reply = await call(server.stub.Likelihood, scored, timeout=300)
        assert len(reply.scores) == 6
        together = await asyncio.gather(*[call(server.stub.Likelihood, scored, timeout=300) for _ in range(4)])
        assert all(other.scores == reply.scores for other in together)


async def test_after_a_failure_the_other_continuations_are_not_asked(endpoint: Endpoint, served: Any, ask: Any) -> None:
    endpoint.card["owned_by"] = "vllm"
    endpoint.answer = lambda body: error(400, "Invalid image data")
    async with served(backend(endpoint, max_concurrency=1)) as server:
        scored = model.LikelihoodRequest(messages=[ask("Q?")], continuations=["A"] * 50)
        assert (await refusal(call(server.stub.Likelihood, scored, timeout=300)))[1] == "endpoint_refused"
        endpoint.answer = Vllm()
        first = len(endpoint.seen)
        reply = await call(
            server.stub.Likelihood,
            model.LikelihoodRequest(messages=[ask("Q?")], continuations=["A"]),
            timeout=300,
        )
        assert len(reply.scores) == 1
        assert len(endpoint.seen) == first + 3  # the first finds that the endpoint lists no tokens
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
