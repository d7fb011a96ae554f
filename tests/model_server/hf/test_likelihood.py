"""Likelihood against logits gathered by hand, the join rule, and a self-check that can fail."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.model_serving import refusal
from hypothesis import HealthCheck, given, settings, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import CallError, InvalidRequest

torch = pytest.importorskip("torch")
from model_server.hf import checkpoint as checkpoints, selfcheck  # noqa: E402
from model_server.hf.family import Family  # noqa: E402
from model_server.hf.files import content_hash  # noqa: E402
from model_server.hf.inputs import Prompt  # noqa: E402
from model_server.hf.likelihood import Question, Tree, expanded, packed, plain  # noqa: E402
from model_server.hf.prompt import Prompter  # noqa: E402
from model_server.hf.settings import Settings  # noqa: E402
from model_server.hf.vision import VisionCache  # noqa: E402
from model_server.metrics import Metrics  # noqa: E402


@dataclasses.dataclass
class Loaded:
    checkpoint: Any
    prompter: Prompter


@pytest.fixture(scope="module")
def loaded(checkpoint_folder: Any) -> Any:
    @functools.cache
    def get(kind: str) -> Loaded:
        checkpoint = checkpoints.load(Settings(model=str(checkpoint_folder(kind))))
        return Loaded(checkpoint, Prompter(checkpoint, 10**8))

    return get


def by_hand(folder: Path, text: str, data: bytes, continuation: str) -> tuple[float, int, bool]:
    """The log-probability of a continuation, by `transformers` alone."""
    import io

    import transformers as tf
    from PIL import Image

    processor = tf.AutoProcessor.from_pretrained(folder)
    net = tf.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
    prompt = processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    image = Image.open(io.BytesIO(data)).convert("RGB")
    before = processor(text=[prompt], images=[[image]], return_tensors="pt")["input_ids"].shape[1]
    inputs = processor(text=[prompt + continuation], images=[[image]], return_tensors="pt")
    with torch.no_grad():
        logits = net(**inputs).logits[0].float()
    ids = inputs["input_ids"][0]
    rows, owned = logits[before - 1 : -1].log_softmax(-1), ids[before:]
    total = rows.gather(1, owned[:, None]).sum()
    return float(total), len(owned), bool((rows.argmax(-1) == owned).all())


@pytest.mark.parametrize("kind", ["llava", "qwen2_5_vl"])
async def test_equals_the_logits_gathered_by_hand(
    kind: str, served: Any, hf: Any, ask: Any, picture: Any, checkpoint_folder: Any
) -> None:
    question, data = "Which option is correct? (A) red (B) blue", picture(5)
    continuations = ["A", " B", "The answer is (C)", "no\n\nyes"]
    async with served(hf(kind)) as server:
        request = model.LikelihoodRequest(messages=[ask(data, question)], continuations=continuations)
        reply = await server.send(request)
    for text, score in zip(continuations, reply.scores, strict=True):
        logprob, count, greedy = by_hand(checkpoint_folder(kind), question, data, text)
        assert score.logprob == pytest.approx(logprob, abs=1e-4)
        assert (score.token_count, score.is_greedy) == (count, greedy)


# A prompt that ends in a letter or a blank, so that continuations do merge into it.
PIECES = st.sampled_from(["A", " ", "an", "swer", "\n", ".", "it's", "é", "語", "  ", "yes", "1", "the answer", ".\n"])
TEXTS = st.lists(PIECES, min_size=1, max_size=5).map("".join)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompt_end=TEXTS, continuation=TEXTS)
def test_the_join_rule(loaded: Any, prompt_end: str, continuation: str) -> None:
    """The continuation owns every token that does not end inside the prompt; nothing is lost or added."""
    parts: Loaded = loaded("text")
    tokenizer = parts.checkpoint.tokenizer
    text = f"<|im_start|>user\nWhat?<|im_end|>\n{prompt_end}"
    ids = tokenizer(text)["input_ids"]
    prompt = Prompt({"input_ids": torch.tensor([ids])}, ids, text)
    (joined,) = parts.prompter.join(prompt, [continuation])
    assert joined.ids == tokenizer(text + continuation)["input_ids"]
    assert joined.start < len(joined.ids)

    inside = len(text.encode())
    ends = [_bytes_until(tokenizer, joined.ids, number + 1) for number in range(len(joined.ids))]
    assert all(end <= inside for end in ends[: joined.start])
    assert ends[joined.start] > inside
    assert ends[-1] == len((text + continuation).encode())


def _bytes_until(tokenizer: Any, ids: list[int], count: int) -> int:
    from model_server.hf.tokens import token_bytes

    return sum(len(token_bytes(tokenizer, number)) for number in ids[:count])


def test_tokens_that_merge_over_the_boundary(loaded: Any) -> None:
    """Prompt "...ans" and continuation "wer" are one token together: it belongs to the continuation."""
    parts: Loaded = loaded("text")
    tokenizer = parts.checkpoint.tokenizer
    whole = tokenizer(" answer")["input_ids"]
    text = "What? ans"
    ids = tokenizer(text)["input_ids"]
    prompt = parts.prompter.prepare([model.Message(role=model.ROLE_USER, parts=[model.Part(text="x")])])
    prompt = dataclasses.replace(
        prompt,
        ids=ids,
        text=text,
        inputs={"input_ids": torch.tensor([ids]), "attention_mask": torch.ones((1, len(ids)), dtype=torch.long)},
    )
    joined = parts.prompter.join(prompt, ["wer", " B", "wers"])
    assert joined[0].ids[joined[0].start :] == whole[-len(joined[0].ids) + joined[0].start :]
    assert joined[0].start < len(ids), "the boundary must be crossed for this test to mean anything"
    assert joined[1].start == len(ids)
    wanted = plain(parts.checkpoint, prompt, joined)
    got = packed(parts.checkpoint, [Question(prompt, joined)])[0]
    for one, other in zip(wanted, got, strict=True):
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_text_that_marks_an_image_is_refused(loaded: Any, ask: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        loaded("llava").prompter.prepare([ask("what is <image> here?")])
    assert caught.value.reason == "placeholder_in_text"


def test_a_continuation_that_marks_an_image_is_refused(loaded: Any, ask: Any, picture: Any) -> None:
    prompt = loaded("llava").prompter.prepare([ask(picture(1), "what is here?")])
    with pytest.raises(InvalidRequest) as caught:
        loaded("llava").prompter.join(prompt, ["yes", "an <image>"])
    assert caught.value.reason == "placeholder_in_text"


async def test_a_prompt_that_is_one_token_with_its_continuation(
    served: Any, hf: Any, ask: Any, checkpoint_folder: Any, tmp_path: Path
) -> None:
    """Without a template and a first token of its own nothing is left that the continuation could be predicted from."""
    folder = shutil.copytree(checkpoint_folder("text"), tmp_path / "bare")
    (folder / "chat_template.jinja").unlink()
    async with served(hf("text", model=str(folder))) as server:
        for texts in (["n"], ["B", "nswer"], ["n", "B"]):
            request = model.LikelihoodRequest(messages=[ask("a")], continuations=texts)
            assert await refusal(server.send(request)) == ("INVALID_ARGUMENT", "no_prompt_token")
        request = model.LikelihoodRequest(messages=[ask("a")], continuations=[" B", "B"])
        assert len((await server.send(request)).scores) == 2


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=12))
def test_the_tree_keeps_every_path(tails: list[list[int]]) -> None:
    tree = Tree()
    for tail in tails:
        tree.add(tail, 0)
    seen = tree.ancestry()
    for tail, path, owned in zip(tails, tree.paths, tree.owned, strict=True):
        assert owned == tail
        assert path[0] == -1
        assert [tree.ids[node] for node in path[1:]] == tail[:-1]
        for node in path[1:]:
            assert [n for n in range(len(tree.ids)) if seen[node, n]] == [n for n in path[1:] if n <= node]
    prefixes = {tuple(tail[: count + 1]) for tail in tails for count in range(len(tail) - 1)}
    assert len(tree.ids) == len(prefixes), "what begins alike is stored once"


async def test_many_continuations_in_several_passes(
    served: Any, hf: Any, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    continuations = [f"{word} {number}" for number in range(30) for word in ("yes", "the answer", "A")]
    request = model.LikelihoodRequest(messages=[ask("Which?")], continuations=continuations)
    async with served(hf("text")) as server:
        whole = await server.send(request)
        monkeypatch.setattr("model_server.hf.likelihood.MAX_NODES", 20)
        parts = await server.send(request)
        request.continuations[:] = reversed(continuations)
        backwards = await server.send(request)
    logprobs = [score.logprob for score in whole.scores]
    assert [score.logprob for score in parts.scores] == pytest.approx(logprobs, abs=1e-4)
    assert [score.logprob for score in reversed(backwards.scores)] == pytest.approx(logprobs, abs=1e-4)


@pytest.mark.parametrize("kind", ["llava", "qwen2_5_vl", "gemma3"])
def test_the_expanded_way_agrees_too(kind: str, loaded: Any, ask: Any, picture: Any) -> None:
    parts: Loaded = loaded(kind)
    prompt = parts.prompter.prepare([ask(picture(3), "What is it?")])
    joined = parts.prompter.join(prompt, [" yes", "no", "The answer is (B).", "7"])
    wanted = plain(parts.checkpoint, prompt, joined)
    got = expanded(parts.checkpoint, Question(prompt, joined), rows=3)
    for one, other in zip(wanted, got, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


class Shifted(Family):
    """Off by one in its positions, as a family with positions from 1 would be."""

    def text_positions(self, positions: Any) -> Any:
        return positions + 1


class Leaking(Family):
    """Continuations see each other."""

    def step(self, model: Any, state: Any, ids: Any, positions: Any, visible: Any) -> Any:
        causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        visible = visible.clone()
        visible[:, :, state.mask.shape[1] :] = causal
        return super().step(model, state, ids, positions, visible)


class Stale(Family):
    """Answers from the image of the request before: the kind of mistake a cache makes."""

    kept: Any = None

    def prefill(self, model: Any, inputs: dict[str, Any]) -> Any:
        if self.kept is None:
            type(self).kept = torch.flip(inputs["pixel_values"], dims=[-1]) * 0.5
        return super().prefill(model, inputs | {"pixel_values": self.kept})


@pytest.mark.parametrize("broken", [Shifted, Leaking, Stale])
def test_the_self_check_finds_mistakes(broken: type[Family], loaded: Any) -> None:
    parts: Loaded = loaded("llava")
    vision = VisionCache(parts.checkpoint, 0, Metrics())
    good = selfcheck.check(parts.checkpoint, parts.prompter, vision)
    assert good.method == "packed"
    assert good.difference < 1e-4 < good.sensitivity
    verdict = selfcheck.check(dataclasses.replace(parts.checkpoint, family=broken()), parts.prompter, vision)
    assert verdict.method != "packed"
    assert "differs" in verdict.reason


def test_a_blind_model_proves_nothing(loaded: Any) -> None:
    """A model that hardly looks at its image agrees with anything: the fast ways are not taken."""
    import copy

    parts: Loaded = loaded("llava")
    checkpoint = dataclasses.replace(parts.checkpoint, model=copy.deepcopy(parts.checkpoint.model))
    with torch.no_grad():
        checkpoint.model.model.multi_modal_projector.linear_2.weight.zero_()
    verdict = selfcheck.check(checkpoint, parts.prompter, VisionCache(checkpoint, 0, Metrics()))
    assert verdict.method == "plain"
    assert "proves nothing" in verdict.reason


async def test_where_long_texts_scale_all_positions_nothing_is_shared(served: Any, hf: Any, ask: Any) -> None:
    """The check at load asks short questions; after the border a pass would scale its shorter texts too."""
    prompts = [ask("Which option" + " yes" * count) for count in (170, 185, 195)]
    config = model.GenerationConfig(max_output_tokens=3, top_logprobs=1)
    sent = [model.GenerateRequest(messages=[prompt], config=config) for prompt in prompts]
    async with served(hf("longrope", batch_wait=0.2)) as server:
        alone = [await server.send(call) for call in sent]
        lengths = [reply.usage.input_tokens for reply in alone]
        assert lengths[0] < lengths[1] < 200 < lengths[2]
        together = await asyncio.gather(*[server.send(call) for call in sent])
        for one, other in zip(alone, together, strict=True):
            wanted = [token.logprob for token in one.logprobs]
            assert [token.logprob for token in other.logprobs] == pytest.approx(wanted, abs=1e-4)

        async def score(*continuations: str) -> list[float]:
            request = model.LikelihoodRequest(messages=[prompts[1]], continuations=continuations)
            return [result.logprob for result in (await server.send(request)).scores]

        crossing = " yes no yes no yes no yes no yes no"
        assert await score("no", crossing) == pytest.approx([*await score("no"), *await score(crossing)], abs=1e-4)


async def test_a_chunk_ends_for_every_continuation(served: Any, hf: Any, ask: Any, loaded: Any) -> None:
    """The check at load makes the chunks short; with their own size prompts and continuations cross a border too."""
    parts: Loaded = loaded("llama4")
    async with served(hf("llama4")) as server:
        assert (await server.info()).properties["likelihood_method"] == "expanded"
        for count in (186, 240):
            prompt = parts.prompter.prepare([message := ask("Which option" + " yes" * count)])
            texts = [" yes no yes no yes no yes", "no"]
            wanted = plain(parts.checkpoint, prompt, parts.prompter.join(prompt, texts))
            request = model.LikelihoodRequest(messages=[message], continuations=texts)
            got = (await server.send(request)).scores
            assert [s.logprob for s in got] == pytest.approx([s.logprob for s in wanted], abs=1e-3)


async def test_attention_that_only_the_eager_way_has(served: Any, hf: Any) -> None:
    async with served(hf("gemma2")) as server:
        info = await server.info()
    assert (info.properties["attention"], info.properties["likelihood_method"]) == ("eager", "packed")
    async with served(hf("text")) as server:
        info = await server.info()
    assert info.properties["attention"] == "sdpa"


async def test_limits_of_likelihood(served: Any, hf: Any, ask: Any, picture: Any) -> None:
    async with served(hf("llava")) as server:
        for message, continuation in ((ask(picture(1), "yes " * 600), "A"), (ask("x"), "yes " * 600)):
            request = model.LikelihoodRequest(messages=[message], continuations=[continuation])
            with pytest.raises(CallError) as caught:
                await server.send(request)
            assert caught.value.code.name == "OUT_OF_RANGE"
            assert caught.value.metadata["limit"] == "512"
            assert int(caught.value.metadata["value"]) > 512


async def test_vision_features_are_kept_and_counted(served: Any, hf: Any, ask: Any, picture: Any) -> None:
    metrics = Metrics()

    def count(result: str) -> float:
        return metrics.registry.get_sample_value("lyncean_image_cache_total", {"result": result}) or 0.0

    async with served(hf("qwen3_vl", metrics=metrics)) as server:
        misses, hits = count("miss"), count("hit")
        for question in ("What is it?", "How many?", "Which color?"):
            message = ask(picture(11), picture(12), question)
            await server.score(message, ["A"])
        config = model.GenerationConfig(max_output_tokens=2)
        await server.send(model.GenerateRequest(messages=[message], config=config))
        assert (count("miss") - misses, count("hit") - hits) == (2, 6)


def test_the_cache_is_bounded(loaded: Any, ask: Any, picture: Any) -> None:
    parts: Loaded = loaded("llava")
    one = 4 * 64 * 4  # tokens, width, bytes
    vision = VisionCache(parts.checkpoint, 2 * one, Metrics())
    for seed in range(5):
        prompt = parts.prompter.prepare([ask(picture(seed), "What?")])
        with torch.inference_mode():
            vision.apply([prompt], dict(prompt.inputs))
        assert vision._kept.size == min(seed + 1, 2) * one
    assert len(vision._kept) == 2


def test_revision_is_the_content(checkpoint_folder: Any, tmp_path: Path) -> None:
    folder = checkpoint_folder("text")
    copied = shutil.copytree(folder, tmp_path / "copy")
    files = sorted(copied.glob("*.safetensors"))
    first = content_hash(files)
    assert first == content_hash(sorted(folder.glob("*.safetensors")))
    data = bytearray(files[0].read_bytes())
    data[-1] ^= 1
    files[0].write_bytes(bytes(data))
    assert content_hash(files) != first


def test_a_checkpoint_with_missing_weights_is_refused(checkpoint_folder: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from model_server.backend import LoadError

    folder = shutil.copytree(checkpoint_folder("text"), tmp_path / "copy")
    weights = load_file(folder / "model.safetensors")
    weights.pop(next(name for name in weights if "layers.1" in name))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(LoadError, match="would be random"):
        checkpoints.load(Settings(model=str(folder)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"device": "cuda:7"}, "GPU|cuda"), ({"device": "tpux"}, "unknown"), ({"dtype": "int3"}, "unknown")],
)
def test_settings_that_cannot_work(checkpoint_folder: Any, changes: dict[str, str], message: str) -> None:
    from model_server.backend import LoadError

    if changes.get("device") == "cuda:7" and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(LoadError, match=message):
        checkpoints.load(Settings(model=str(checkpoint_folder("text")), **changes))
