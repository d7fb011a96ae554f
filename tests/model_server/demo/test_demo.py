"""The demo backend: honest about what it is, always alike, parsable."""

from __future__ import annotations

from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model
from model_server.backend import LoadError
from model_server.demo.hash_model import HashModel
from model_server.kit.backend import KitBackend
from model_server.metrics import Metrics

LETTERS = "Which one?\n(A) red\n(B) blue\n(C) green\n(D) white\nAnswer with the option's letter directly."


async def answer(server: Any, message: model.Message, **config: Any) -> str:
    request = model.GenerateRequest(messages=[message], config=model.GenerationConfig(**config))
    reply = await server.send(request)
    return "".join(part.text for part in reply.parts)


async def test_takes_one_of_the_options(served: Any, ask: Any, picture: Any) -> None:
    async with served(KitBackend(HashModel(), Metrics())) as server:
        answers = {await answer(server, ask(picture(seed), LETTERS)) for seed in range(20)}
        assert answers == {"A", "B", "C", "D"}
        again = [await answer(server, ask(picture(5), LETTERS)) for _ in range(3)]
        assert len(set(again)) == 1
        cot = await answer(server, ask(f"{LETTERS} The last line is 'Answer: $LETTER'."))
        assert cot.startswith("Answer: ")
        assert await answer(server, ask("Is there a dog?")) in ("yes", "no")
        assert (await answer(server, ask("How many dogs are there?"))).isdigit()
        assert await answer(server, ask("Which option, 1, 2, 3 or 4?")) in set("1234")


async def test_goes_on_from_a_beginning_and_keeps_to_choices(served: Any, ask: Any) -> None:
    begun = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="The answer is")])
    async with served(KitBackend(HashModel(), Metrics())) as server:
        for choices, wanted in (((), {" A", " B", " C", " D"}), (("yes", "no"), {"yes", "no"})):
            config = model.GenerationConfig(response_format={"choices": {"texts": choices}} if choices else None)
            reply = await server.send(model.GenerateRequest(messages=[ask(LETTERS), begun], config=config))
            assert reply.parts[0].text in wanted


async def test_says_what_it_is(served: Any) -> None:
    async with served(KitBackend(HashModel(), Metrics())) as server:
        info = await server.info()
        assert info.model_name == "demo-no-weights"
        assert "no weights" in info.properties["note"]


async def test_likelihood_agrees_with_greedy(served: Any, ask: Any) -> None:
    async with served(KitBackend(HashModel(), Metrics())) as server:
        message = ask(LETTERS)
        greedy = await answer(server, message)
        request = model.LikelihoodRequest(messages=[message], continuations=["A", "B", "C", "D"], return_tokens=True)
        reply = await server.send(request)
        best = max(range(4), key=lambda i: reply.scores[i].logprob)
        assert "ABCD"[best] == greedy
        assert [score.is_greedy for score in reply.scores] == [letter == greedy for letter in "ABCD"]
        for score in reply.scores:
            assert score.logprob == pytest.approx(sum(token.logprob for token in score.tokens))


async def test_a_seed_changes_a_sample_and_repeats_it(served: Any, ask: Any) -> None:
    async with served(KitBackend(HashModel(), Metrics())) as server:
        drawn = [await answer(server, ask(LETTERS), temperature=1, seed=seed) for seed in range(12)]
        assert len(set(drawn)) > 1
        assert drawn == [await answer(server, ask(LETTERS), temperature=1, seed=seed) for seed in range(12)]


async def test_constant(served: Any, ask: Any) -> None:
    async with served(KitBackend(HashModel("constant:1"), Metrics())) as server:
        assert await answer(server, ask(LETTERS)) == "1"
        info = await server.info()
        assert info.model_name == "demo-constant-1"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(LoadError, match="constant:TEXT"):
        HashModel("llava").load()


@pytest.mark.parametrize("name", ["", "demo", "hash"])
def test_its_names(name: str) -> None:
    HashModel(name).load()
