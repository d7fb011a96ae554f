"""Likelihood where the device's memory holds less than a request's continuations together."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError

torch = pytest.importorskip("torch")
FITS = 8
CONTINUATIONS = [f"{number} is {word}" for number in range(10) for word in ("yes", "no", "the answer", "A", "7")]


class Small:
    """A model on a device that holds so many rows, or so many tokens of one row, after a prompt.

    A pass that does not fit ends after some layers: their keys are in the cache, those of the last layer are not.
    """

    def __init__(self, net: Any, most: int) -> None:
        self.most = most
        self.fitted: list[int] = []
        self.failed: list[int] = []
        self._forward = net.forward
        self.__signature__ = inspect.signature(net.forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        cache = kwargs.get("past_key_values")
        before = cache.get_seq_length() if cache is not None else 0
        out = self._forward(*args, **kwargs)
        rows, tokens = kwargs["input_ids"].shape
        size = rows if rows > 1 else tokens
        if before and size > self.most:
            self.failed.append(size)
            if rows == 1:
                last = cache.layers[-1]
                last.keys, last.values = last.keys[..., :-tokens, :], last.values[..., :-tokens, :]
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        if before:
            self.fitted.append(size)
        return out


@pytest.mark.parametrize(("kind", "method"), [("text", "packed"), ("qwen3_5", "expanded"), ("jamba", "forked")])
async def test_continuations_that_do_not_fit_together_are_scored_in_parts(
    kind: str, method: str, served: Any, hf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = model.LikelihoodRequest(messages=[ask("Which?")], continuations=CONTINUATIONS, return_tokens=True)
    backend = hf(kind)
    async with served(backend) as server:
        assert (await server.info()).properties["likelihood_method"] == method
        alone = []
        for text in CONTINUATIONS:
            one = model.LikelihoodRequest(messages=request.messages, continuations=[text])
            alone.append((await server.send(one)).scores[0])
        net = backend._loaded.checkpoint.model
        small = Small(net, FITS)
        monkeypatch.setattr(net, "forward", small)
        scores = (await server.send(request)).scores
    assert [score.logprob for score in scores] == pytest.approx([score.logprob for score in alone], abs=1e-4)
    assert [score.token_count for score in scores] == [score.token_count for score in alone]
    assert len(small.failed) > 1, "halved more than once"
    assert small.failed == sorted(small.failed, reverse=True)
    assert max(small.fitted) <= FITS


async def test_a_continuation_that_does_not_fit_alone_is_an_error(
    served: Any, hf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = hf("text")
    async with served(backend) as server:
        request = model.LikelihoodRequest(messages=[ask("Which?")], continuations=["A", "yes no " * 20, "no"])
        whole = await server.send(request)
        small = Small(backend._loaded.checkpoint.model, FITS)
        monkeypatch.setattr(backend._loaded.checkpoint.model, "forward", small)
        with pytest.raises(CallError) as caught:
            await server.send(request)
        assert (caught.value.code.name, caught.value.reason) == ("INTERNAL", "out_of_memory")
        small.most = 1000
        again = await server.send(request)
    assert [score.logprob for score in again.scores] == pytest.approx([score.logprob for score in whole.scores])


async def test_later_passes_see_the_whole_image(
    served: Any, hf: Any, ask: Any, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers of cross attention hold the image's keys, which a pass adds none to and its end takes none from."""
    request = model.LikelihoodRequest(messages=[ask(picture(1), "Which?")], continuations=CONTINUATIONS[:12])
    async with served(hf("mllama")) as server:
        whole = await server.send(request)
        monkeypatch.setattr("model_server.hf.likelihood.MAX_NODES", 5)
        parts = await server.send(request)
    wanted = [score.logprob for score in whole.scores]
    assert [score.logprob for score in parts.scores] == pytest.approx(wanted, abs=1e-4)
