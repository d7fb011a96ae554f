"""Generate on tiny checkpoints: limits, stops, seeds, ends, cancellation, memory, and company."""

from __future__ import annotations

import asyncio
import inspect
import json
import shutil
import signal
import weakref
from pathlib import Path
from typing import Any

import pytest
from helpers.model_passes import count_forwards
from helpers.model_serving import refusal
from hypothesis import HealthCheck, given, settings, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, call

torch = pytest.importorskip("torch")
from model_server.hf.memory import measured  # noqa: E402
from model_server.hf.sampling import sample  # noqa: E402
from model_server.metrics import Metrics  # noqa: E402


def request(message: model.Message, **config: Any) -> model.GenerateRequest:
    return model.GenerateRequest(messages=[message], config=model.GenerationConfig(**config))


def text(reply: model.GenerateResponse) -> str:
    return "".join(part.text for part in reply.parts)


async def test_limits_defaults_and_usage(served: Any, hf: Any, ask: Any, picture: Any) -> None:
    async with served(hf("llava", default_max_tokens=9)) as server:
        reply = await server.generate(ask(picture(1), "What?"), max_output_tokens=3)
        assert reply.finish_reason == model.FINISH_REASON_MAX_TOKENS
        assert reply.usage.output_tokens == 3
        assert reply.usage.image_tokens == 4
        config = reply.effective_config
        assert (config.max_output_tokens, config.temperature, config.top_p, config.top_k) == (3, 0, 1, 0)
        for name in ("max_output_tokens", "temperature", "top_p", "top_k"):
            assert config.HasField(name)
        reply = await server.generate(ask("What?"))
        assert reply.effective_config.max_output_tokens == 9
        assert reply.usage.image_tokens == 0
        for message, most in ((ask("What?"), 510), (ask("yes " * 600), 1), (ask(picture(1), "no " * 600), None)):
            with pytest.raises(CallError) as caught:
                await server.generate(message, **({} if most is None else {"max_output_tokens": most}))
            assert caught.value.code.name == "OUT_OF_RANGE"
            assert caught.value.metadata["limit"] == "512"
            assert caught.value.metadata["value"] in str(caught.value)


async def test_a_default_never_exceeds_the_context(served: Any, hf: Any, ask: Any) -> None:
    async with served(hf("text", default_max_tokens=600)) as server:
        reply = await server.generate(ask("What?"))
        assert reply.usage.input_tokens + reply.effective_config.max_output_tokens == 512


async def test_stop_strings(served: Any, hf: Any, ask: Any) -> None:
    async with served(hf("text")) as server:
        whole = text(await server.generate(ask("What is it?"), max_output_tokens=20))
        assert len(whole) > 12
        for stop in (whole[5:7], whole[3:9], whole[-1]):
            reply = await server.generate(ask("What is it?"), max_output_tokens=20, stop=["\x07", stop])
            assert text(reply) == whole[: whole.index(stop)]
            assert reply.finish_reason == model.FINISH_REASON_STOP_STRING
            assert reply.usage.output_tokens <= 20
        reply = await server.generate(ask("What is it?"), max_output_tokens=20, stop=["\x07"])
        assert text(reply) == whole


async def test_the_end_of_a_sequence(served: Any, hf: Any, ask: Any, checkpoint_folder: Any, tmp_path: Path) -> None:
    async with served(hf("text")) as server:
        reply = await server.generate(ask("What is it?"), max_output_tokens=12, top_logprobs=1)
    tokens = [token.token_id for token in reply.logprobs]
    last = next(number for number, token in enumerate(tokens) if number and token not in tokens[:number])
    before = b"".join(token.token for token in reply.logprobs[:last]).decode()
    folder = shutil.copytree(checkpoint_folder("text"), tmp_path / "checkpoint")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [tokens[last]]}))
    async with served(hf("text", model=str(folder))) as server:
        reply = await server.generate(ask("What is it?"), max_output_tokens=12)
        assert reply.finish_reason == model.FINISH_REASON_END_OF_SEQUENCE
        assert text(reply) == before
        assert reply.usage.output_tokens == last
        reply = await server.generate(ask("What is it?"), max_output_tokens=12, top_logprobs=1)
        # The token that ended the sequence is not an output token and has no log-probability among them.
        assert [token.token_id for token in reply.logprobs] == tokens[:last]
        assert reply.usage.output_tokens == last


async def test_a_checkpoints_own_sampling_defaults_do_not_apply(
    served: Any, hf: Any, ask: Any, checkpoint_folder: Any, tmp_path: Path
) -> None:
    """Qwen2.5-VL comes with a repetition penalty, InstructBLIP with five beams; the plain maximum knows neither."""
    sent = request(ask("What is it?"), max_output_tokens=20, top_logprobs=1)
    async with served(hf("text")) as server:
        wanted = await server.send(sent)
    for number, defaults in enumerate(
        (
            {"repetition_penalty": 1.3, "do_sample": True, "temperature": 0.1, "top_k": 3},
            {"no_repeat_ngram_size": 1, "min_new_tokens": 5, "suppress_tokens": list(range(200))},
            {"num_beams": 5, "length_penalty": -1.0},
        )
    ):
        folder = shutil.copytree(checkpoint_folder("text"), tmp_path / str(number))
        file = folder / "generation_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | defaults))
        async with served(hf("text", model=str(folder))) as server:
            got = await server.send(sent)
            assert (text(got), got.finish_reason) == (text(wanted), wanted.finish_reason)
            assert [t.logprob for t in got.logprobs] == pytest.approx([t.logprob for t in wanted.logprobs], abs=1e-4)


async def test_seeds(served: Any, hf: Any, ask: Any) -> None:
    async with served(hf("text")) as server:

        async def draw(**config: Any) -> tuple[str, int]:
            sent = request(ask("Say something."), max_output_tokens=8, temperature=1.5, **config)
            reply = await server.send(sent)
            return text(reply), reply.effective_config.seed

        drawn = await asyncio.gather(*[draw(seed=seed) for seed in range(6)])
        assert len({output for output, _ in drawn}) > 3
        assert [await draw(seed=seed) for seed in range(6)] == drawn
        unseeded, seed = await draw()
        assert (await draw(seed=seed))[0] == unseeded, "the seed that was drawn is told and repeats the output"


async def test_logprobs_are_of_the_models_own_distribution(served: Any, hf: Any, ask: Any) -> None:
    async with served(hf("text")) as server:
        sent = request(ask("Say."), max_output_tokens=3, top_logprobs=4, temperature=0.3, top_k=2, seed=1)
        reply = await server.send(sent)
        scores = await server.score(ask("Say."), [text(reply)], return_tokens=True)
        (score,) = scores.scores
        assert [t.token for t in score.tokens] == [t.token for t in reply.logprobs]
        for one, other in zip(score.tokens, reply.logprobs, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert len(other.top) == 4
            values = [alternative.logprob for alternative in other.top]
            assert values == sorted(values, reverse=True)


async def test_cancelling_frees_the_model(served: Any, hf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = hf("text", max_batch=1)
    async with served(backend) as server:
        passes = count_forwards(backend, monkeypatch)
        long = asyncio.ensure_future(server.stub.Generate(request(ask("x"), max_output_tokens=480)))
        while not passes:
            await asyncio.sleep(0.01)
        long.cancel()
        short = await server.generate(ask("x"), max_output_tokens=1)
        assert short.usage.output_tokens == 1
        assert len(passes) < 400, "the cancelled call went on to its end"


async def test_a_deadline_ends_the_decoding(served: Any, hf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = hf("text", max_batch=1)
    async with served(backend) as server:
        passes = count_forwards(backend, monkeypatch)
        assert (await refusal(call(server.stub.Generate, request(ask("x"), max_output_tokens=480), timeout=0.2)))[
            0
        ] == "DEADLINE_EXCEEDED"
        reply = await server.generate(ask("x"), max_output_tokens=1)
        assert reply.usage.output_tokens == 1
        assert len(passes) < 470


class Memory:
    """A device's memory on the CPU: all caches that are alive together may have so many rows times tokens."""

    def __init__(self, net: Any, limit: int) -> None:
        self.limit = limit
        self.sizes: list[int] = []
        self.failures = 0
        self._caches: weakref.WeakSet[Any] = weakref.WeakSet()
        self._forward = net.forward
        self.__signature__ = inspect.signature(net.forward)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rows, added = kwargs["input_ids"].shape
        held = sum(layer.keys.shape[0] * layer.keys.shape[2] for cache in self._caches for layer in cache.layers[:1])
        if kwargs["past_key_values"].get_seq_length() == 0:
            self.sizes.append(rows)
        if held + rows * added > self.limit:
            self.failures += 1
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        out = self._forward(*args, **kwargs)
        self._caches.add(out.past_key_values)
        return out


async def test_a_batch_that_does_not_fit_is_freed_split_and_learned_from(
    served: Any, hf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics()
    backend = hf("text", metrics=metrics, batch_wait=0.2, max_batch=6)
    async with served(backend) as server:
        sent = [request(ask(f"What is {n}?"), max_output_tokens=12) for n in range(6)]
        alone = [await server.send(query) for query in sent]
        tokens = alone[0].usage.input_tokens + 12
        # Two rows fit beside nothing else, three only until their cache has grown.
        memory = Memory(backend._loaded.checkpoint.model, 3 * tokens - 15)
        monkeypatch.setattr(backend._loaded.checkpoint.model, "forward", memory)

        async def together() -> list[int]:
            memory.sizes.clear()
            assert [text(reply) for reply in await asyncio.gather(*map(server.send, sent))] == list(map(text, alone))
            return list(memory.sizes)

        # Tensors left over from the batch of six would leave no room for two rows.
        # Six are a full batch, which starts at once, and none may join the end of the batch before.
        backend._batcher.wait = 60.0
        await asyncio.wrap_future(backend._batcher._thread.submit(int))
        assert await together() == [6, 3, 1, 1, 1, 1, 1, 1]
        backend._batcher.wait = 0.2
        assert (memory.failures, metrics.registry.get_sample_value("lyncean_batch_splits_total")) == (2, 2)
        sizes: list[int] = []
        while sizes.count(2) < 30:
            sizes += await together()
            assert len(sizes) < 1000, "the limit has not grown back"
        assert memory.failures < 2 + len(sizes) / 10, "and is not tried out at every batch"


def test_the_budget_is_what_the_device_has_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bookkeeping alone, with a device's counters in its place: 7 bytes a token, and 1,000 for any batch."""
    peaks: list[int] = []
    devices = [torch.device("cuda", 0), torch.device("cuda", 1)]
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: peaks[-1] * (1 + device.index))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (70_000, 10**6))
    limit = measured(lambda rows: peaks.append(1_000 + rows * 50 * 7), 50, devices)
    assert limit == pytest.approx(0.9 * 70_000 / 14), "the device that fills up first decides"


async def test_a_device_that_fails_ends_the_server(
    served: Any, hf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an assertion on a GPU all its work fails at once, so that this server would draw calls from all others."""
    backend = hf("text", max_batch=1)
    ended: list[int] = []
    monkeypatch.setattr("model_server.hf.backend.os.kill", lambda process, number: ended.append(number))
    async with served(backend) as server:
        sent = request(ask("x"), max_output_tokens=1)
        monkeypatch.setattr(backend, "_run_generate", broken_device)
        assert (await refusal(server.send(sent)))[1] == "model_failed"
        assert not ended, "the device works on"
        monkeypatch.setattr(backend, "_device_works", lambda: False)
        attempts = [server.send(sent) for _ in range(3)]
        failures: list[Any] = await asyncio.gather(*attempts, return_exceptions=True)
        codes = sorted(failure.code.name for failure in failures)
        assert codes == ["INTERNAL", "UNAVAILABLE", "UNAVAILABLE"], "what may be at fault is sent again only once"
        assert {failure.reason for failure in failures} == {"device_lost"}
        assert ended == [signal.SIGTERM]


def broken_device(*_: Any) -> None:
    raise RuntimeError("CUDA error: device-side assert triggered")


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from(["What is it?", "Say yes or no.", "Which option is correct? (A) red (B) blue (C) green"]),
        st.sampled_from([(), (1,), (2,), (1, 2), (2, 1)]),
        st.fixed_dictionaries(
            {"max_output_tokens": st.integers(1, 7)},
            optional={
                "temperature": st.sampled_from([0.0, 0.6, 1.4]),
                "seed": st.integers(0, 3),
                "top_k": st.sampled_from([1, 5, 50]),
                "top_p": st.sampled_from([0.3, 0.9]),
                "stop": st.sampled_from([["e"], ["an", "or"]]),
            },
        ),
    ),
    min_size=2,
    max_size=6,
)


@pytest.mark.parametrize("kind", ["llava", "qwen2_5_vl"])
@pytest.mark.timeout(300)
def test_company_changes_nothing(kind: str, served: Any, hf: Any, ask: Any, picture: Any) -> None:
    """Any requests, in any company: text, reason, counts and seeds are those of each alone."""
    pictures = {seed: picture(seed, (30 + 20 * seed, 40)) for seed in (1, 2)}

    with asyncio.Runner() as runner:
        together = served(hf(kind, max_batch=8, batch_wait=0.05))
        alone = served(hf(kind, max_batch=1))
        many, one = runner.run(together.__aenter__()), runner.run(alone.__aenter__())

        @settings(max_examples=12, suppress_health_check=list(HealthCheck))
        @given(REQUESTS)
        def check(drawn: list[tuple[str, tuple[int, ...], dict[str, Any]]]) -> None:
            sent = [
                request(ask(*[pictures[seed] for seed in seeds], question), **({"seed": 1} | config))
                for question, seeds, config in drawn
            ]

            async def run() -> tuple[list[Any], list[Any]]:
                company = await asyncio.gather(*[many.send(query) for query in sent])
                return company, [await one.send(query) for query in sent]

            for got, wanted in zip(*runner.run(run()), strict=True):
                assert text(got) == text(wanted)
                assert got.finish_reason == wanted.finish_reason
                assert got.usage.output_tokens == wanted.usage.output_tokens
                assert got.usage.input_tokens == wanted.usage.input_tokens

        try:
            check()
        finally:
            runner.run(together.__aexit__(None, None, None))
            runner.run(alone.__aexit__(None, None, None))


def drawn_plainly(logits: torch.Tensor, config: model.GenerationConfig, generator: torch.Generator) -> int:
    """One row in the plainest way: the vocabulary is sorted, and the kept tokens' weights are added in its order."""
    scaled = (logits.double() - logits.double().amax()) / config.temperature
    values, order = scaled.sort(descending=True, stable=True)
    values, order = values[: config.top_k or None], order[: config.top_k or None]
    shares = values.exp() / values.exp().sum()
    if config.HasField("top_p"):
        order = order[: max(1, int((shares.cumsum(-1) - shares < config.top_p).sum()))]
    weights = torch.zeros_like(scaled)
    weights[order] = scaled[order].exp()
    sums = weights.cumsum(-1)
    uniform = torch.rand((), generator=generator, dtype=torch.float64)
    return int(torch.searchsorted(sums, uniform * sums[-1], right=True))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([3, 50, 3000]),
    st.lists(
        st.fixed_dictionaries(
            {"temperature": st.sampled_from([1e-30, 0.5, 1.0, 30.0])},
            optional={
                "top_k": st.sampled_from([1, 5, 1500, 10**6]),
                "top_p": st.sampled_from([1e-9, 0.31, 0.87, 0.97, 1.0]),
            },
        ),
        min_size=1,
        max_size=5,
    ),
)
def test_rows_are_drawn_alike_alone_together_and_plainly(seed: int, size: int, drawn: list[dict[str, Any]]) -> None:
    """With few tokens or all of them, with equal logits and without."""
    logits = 3 * torch.randn((len(drawn), size), generator=torch.Generator().manual_seed(seed))
    logits = logits.round(decimals=seed % 3)
    configs = [model.GenerationConfig(**config) for config in drawn]

    def generators() -> list[torch.Generator]:
        return [torch.Generator().manual_seed(seed + row) for row in range(len(drawn))]

    rows = list(zip(logits, configs, generators(), strict=True))
    together = sample(logits, configs, generators())
    assert together == [drawn_plainly(*row) for row in rows]
    assert together == [
        sample(logits[row : row + 1], [configs[row]], [generator])[0] for row, generator in enumerate(generators())
    ]


def test_sampling_follows_the_distribution() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, -30.0])
    generator = torch.Generator().manual_seed(1)

    def shares(**config: Any) -> list[float]:
        rows = 1500
        drawn = sample(logits.repeat(rows, 1), [model.GenerationConfig(**config)] * rows, [generator] * rows)
        return [drawn.count(token) / rows for token in range(5)]

    wanted = (logits / 0.7).softmax(-1).tolist()
    assert shares(temperature=0.7) == pytest.approx(wanted, abs=0.05)
    assert shares(temperature=1, top_k=2)[2:] == [0, 0, 0]
    assert shares(temperature=1, top_k=2)[0] == pytest.approx(0.731, abs=0.05)
    assert shares(temperature=1, top_p=0.6)[1:] == [0, 0, 0, 0]  # 0.64 alone is the nucleus
    assert shares(temperature=1, top_p=0.7)[2:] == [0, 0, 0]
    assert shares(temperature=1, top_p=1.0)[3] > 0


async def test_bfloat16_is_reported_and_near(served: Any, hf: Any, ask: Any) -> None:
    request_ = model.LikelihoodRequest(messages=[ask("Which?")], continuations=["A", " yes"])
    async with served(hf("text", dtype="bfloat16")) as coarse, served(hf("text")) as fine:
        info = await coarse.info()
        assert info.compute_dtype == "bfloat16"
        one = await coarse.send(request_)
        other = await fine.send(request_)
        for a, b in zip(one.scores, other.scores, strict=True):
            assert a.logprob == pytest.approx(b.logprob, abs=0.5)
            assert a.logprob != b.logprob


async def test_what_is_no_number_is_no_answer(served: Any, hf: Any, ask: Any) -> None:
    """A model that overflows would say its first token for ever: that is a failure, and of that request alone."""
    backend = hf("text", batch_wait=0.2)
    async with served(backend) as server:
        messages = [ask("How many dogs?"), ask("How many cats?"), ask("How many dogs?")]
        configs = [{"max_output_tokens": 4}, {"max_output_tokens": 4}, {"max_output_tokens": 4, "temperature": 1.0}]
        sent = [request(message, **config) for message, config in zip(messages, configs, strict=True)]
        healthy = await server.send(sent[1])
        net, tokenizer = backend._loaded.checkpoint.model, backend._loaded.checkpoint.tokenizer
        with torch.no_grad():
            net.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids("Ġdogs")] = float("nan")
        attempts = [server.send(query) for query in sent]
        one, other, drawn = await asyncio.gather(*attempts, return_exceptions=True)
        assert text(other) == text(healthy)
        for failure in (one, drawn):
            assert (failure.code.name, failure.reason) == ("INTERNAL", "not_finite")
        scored = model.LikelihoodRequest(messages=messages[:1], continuations=["A"])
        assert await refusal(server.send(scored)) == ("INTERNAL", "not_a_number")
