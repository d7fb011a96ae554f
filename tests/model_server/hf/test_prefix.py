"""Answers that the conversation has begun, against the library's own template and a plain loop over the logits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from helpers.model_serving import refusal

from lyncean.model.v1 import model_pb2 as model

torch = pytest.importorskip("torch")
import transformers as tf  # noqa: E402
from helpers.tiny import TEMPLATE  # noqa: E402

QUESTION = "Which option is correct? (A) red (B) blue"
OPTIONS = [" A", " B", " C, because it is"]
KEEPS = TEMPLATE.replace(
    "{{ '<|im_start|>' + m['role'] + '\n' }}",
    "{{ '<|im_start|>' + m['role'] + '\n' }}{% if m['role'] == 'assistant' and loop.last %}"
    "{{ '<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' }}{% endif %}",
)
"""Shows the reasoning of the last answer and marks it even where there is none, as Qwen3's does."""
BEFORE = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"


def begun(text: str, reasoning: str = "") -> list[model.Message]:
    parts = [model.Part(text=QUESTION)]
    answer = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text=text)], reasoning=reasoning)
    return [model.Message(role=model.ROLE_USER, parts=parts), answer]


class Loop:
    """One token after another, by `transformers` alone."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = tf.AutoTokenizer.from_pretrained(folder)
        self.net = tf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def logprobs(self, prompt: str, continuation: str) -> list[float]:
        """The log-probability of each token after the prompt, each by a forward pass of its own."""
        before = self.tokenizer(prompt)["input_ids"]
        ids = self.tokenizer(prompt + continuation)["input_ids"]
        assert ids[: len(before)] == before, "the texts of this test do not merge"
        logprobs = []
        for position in range(len(before), len(ids)):
            with torch.no_grad():
                logits = self.net(torch.tensor([ids[:position]])).logits[0, -1].float()
            logprobs.append(float(logits.log_softmax(-1)[ids[position]]))
        return logprobs

    def greedy(self, prompt: str, count: int) -> list[int]:
        ids = self.tokenizer(prompt)["input_ids"]
        start = len(ids)
        for _ in range(count):
            with torch.no_grad():
                ids.append(int(self.net(torch.tensor([ids])).logits[0, -1].argmax()))
        return ids[start:]


CASES = {
    "text": ("text", "", "", BEFORE + "The answer is"),
    "left_out": ("thinking", "", "It is red.", BEFORE + "<think>\nIt is red.\n</think>\n\nThe answer is"),
    "kept": ("thinking", KEEPS, "It is red.", BEFORE + "<think>\nIt is red.\n</think>\n\nThe answer is"),
    "none": ("thinking", KEEPS, "", BEFORE + "<think>\n\n</think>\n\nThe answer is"),
    "label": ("gemma_channels", "", "Red.", BEFORE + "<|channel>thought\nRed.\n<channel|>\n\nThe answer is"),
}
"""Checkpoint, template in place of its own, reasoning, and the prompt as it has to be."""


@pytest.mark.parametrize("case", CASES)
async def test_scores_and_words_behind_a_beginning_equal_a_plain_loop(
    case: str, served: Any, hf: Any, checkpoint_folder: Any, tmp_path: Path
) -> None:
    kind, template, reasoning, prompt = CASES[case]
    more: dict[str, Any] = {}
    if template:
        more["chat_template"] = tmp_path / "template.jinja"
        more["chat_template"].write_text(template)
    loop, messages = Loop(checkpoint_folder(kind)), begun("The answer is", reasoning)
    async with served(hf(kind, **more)) as server:
        assert model.CAPABILITY_ANSWER_PREFIX in (await server.info()).capabilities
        request = model.LikelihoodRequest(messages=messages, continuations=OPTIONS, return_tokens=True)
        reply = await server.send(request)
        for text, score in zip(OPTIONS, reply.scores, strict=True):
            wanted = loop.logprobs(prompt, text)
            assert [token.logprob for token in score.tokens] == pytest.approx(wanted, abs=1e-5)
        assert reply.usage.input_tokens == len(loop.tokenizer(prompt)["input_ids"])

        config = model.GenerationConfig(max_output_tokens=6, temperature=0)
        generated = await server.send(model.GenerateRequest(messages=messages, config=config))
        ids = loop.greedy(prompt, 6)
        assert "".join(part.text for part in generated.parts) == loop.tokenizer.decode(ids, skip_special_tokens=True)
        assert generated.reasoning == ""
        # The same among others, all in one batch.
        others = [begun("Yes", reasoning), messages, begun("I am not sure that it is the", reasoning)]
        calls = [model.LikelihoodRequest(messages=conversation, continuations=OPTIONS) for conversation in others]
        for one, other in zip((await asyncio.gather(*map(server.send, calls)))[1].scores, reply.scores, strict=True):
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)


async def test_a_beginning_behind_an_image_is_the_librarys_own(
    served: Any, hf: Any, checkpoint_folder: Any, picture: Any
) -> None:
    import io

    from PIL import Image

    folder = checkpoint_folder("llava")
    processor = tf.AutoProcessor.from_pretrained(folder)
    net = tf.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    chat = [
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": QUESTION}]},
        {"role": "assistant", "content": [{"type": "text", "text": "The answer is"}]},
    ]
    prompt = processor.apply_chat_template(chat, tokenize=False, continue_final_message=True)
    image = Image.open(io.BytesIO(picture(5))).convert("RGB")
    before = processor(text=[prompt], images=[[image]], return_tensors="pt")["input_ids"].shape[1]
    messages = begun("The answer is")
    messages[0].parts.insert(0, model.Part(image=model.Image(data=picture(5))))
    async with served(hf("llava")) as server:
        reply = await server.send(model.LikelihoodRequest(messages=messages, continuations=OPTIONS))
    for text, score in zip(OPTIONS, reply.scores, strict=True):
        inputs = processor(text=[prompt + text], images=[[image]], return_tensors="pt")
        with torch.no_grad():
            rows = net(**inputs).logits[0, before - 1 : -1].double().log_softmax(-1)
        owned = inputs["input_ids"][0, before:]
        assert score.logprob == pytest.approx(float(rows.gather(1, owned[:, None]).sum()), abs=1e-5)


async def test_what_a_template_cannot_do_is_not_claimed(served: Any, hf: Any, tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{% if messages[-1]['role'] != 'user' %}{{ raise_exception('ask!') }}{% endif %}" + TEMPLATE)
    async with served(hf("text", chat_template=template)) as server:
        assert model.CAPABILITY_ANSWER_PREFIX not in (await server.info()).capabilities
        attempt = server.send(model.LikelihoodRequest(messages=begun("x"), continuations=["y"]))
        assert await refusal(attempt) == ("UNIMPLEMENTED", "no_answer_prefix")
    async with served(hf("text")) as server:
        attempt = server.send(model.LikelihoodRequest(messages=begun("x", "I see."), continuations=["y"]))
        assert await refusal(attempt) == ("UNIMPLEMENTED", "no_reasoning")
