"""Beginning of an answer: the blank of a chat template, and candidates after ReForm-Eval's layouts."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest
from orchestrator.benchmarks.reform.layouts import LAYOUTS, render
from orchestrator.benchmarks.reform.questions import Question, candidates
from orchestrator.benchmarks.reform.settings import Switches

pytest.importorskip("torch")
from model_server.hf import checkpoint as checkpoints
from model_server.hf.families import FAMILIES
from model_server.hf.prompt import Prompter
from model_server.hf.settings import Settings

VICUNA_ENDS = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
RAW = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
OPTIONS = ("green", "two dogs", "4", "(A) yes", "left", "a café", "no.")


@pytest.fixture(scope="module")
def make_prompter(checkpoint_folder: Any) -> Any:
    @functools.cache
    def get(kind: str, template: str | None = None) -> Prompter:
        checkpoint = checkpoints.load(Settings(model=str(checkpoint_folder(kind))))
        if template is not None:
            checkpoint = dataclasses.replace(checkpoint, template=template)
        return Prompter(checkpoint, 10**8)

    return get


def owned(prompter: Prompter, text: str, continuation: str) -> list[str]:
    """The tokens that are scored."""
    prompt = prompter.prepare([model.Message(role=model.ROLE_USER, parts=[model.Part(text=text)])])
    (joined,) = prompter.join(prompt, [continuation])
    assert joined.ids[: joined.start] == prompt.ids[: joined.start]
    return [str(token) for token in prompter._checkpoint.tokenizer.convert_ids_to_tokens(joined.ids[joined.start :])]


def test_an_answer_begins_as_the_template_begins_it(make_prompter: Any) -> None:
    prompter = make_prompter("llama")
    for option in OPTIONS:
        # By itself this tokenizer begins a text with a blank, as it stands after "ASSISTANT:" in a whole turn.
        assert owned(prompter, "What?", option) == prompter._checkpoint.tokenizer.tokenize(option)
        assert owned(prompter, "What?", f" {option}") == owned(prompter, "What?", option)
    assert owned(prompter, "What?", "yes")[0].startswith("▁")


def test_an_answer_is_left_alone_where_the_template_puts_no_blank(make_prompter: Any) -> None:
    prompter = make_prompter("text")
    tokens = prompter._checkpoint.tokenizer.tokenize
    for option in OPTIONS:
        assert owned(prompter, "What?", option) == tokens(option)
        assert owned(prompter, "What?", f" {option}") == tokens(f" {option}")


@pytest.mark.parametrize(
    ("template", "gap"),
    [
        (VICUNA_ENDS + "{% if add_generation_prompt %}assistant:{% endif %}", " "),
        (VICUNA_ENDS + "{% if add_generation_prompt %}assistant: {% endif %}", ""),
        (VICUNA_ENDS + "{% if add_generation_prompt %}assistant: <think>{% endif %}", ""),
        ("{% if messages | length > 1 %}{{ raise_exception('one at a time') }}{% endif %}Q", ""),
        ("{% for m in messages %}[INST] {{ m['content'] }} [/INST]\n\n{% endfor %}", ""),
        (RAW, ""),
    ],
)
def test_the_blank_is_read_off_the_template(template: str, gap: str, make_prompter: Any) -> None:
    assert make_prompter("text", template).template.gap == gap


def test_the_blank_of_the_librarys_own_template(make_prompter: Any) -> None:
    from transformers.models.smolvlm import processing_smolvlm

    prompter = make_prompter("smolvlm", processing_smolvlm.DEFAULT_CHAT_TEMPLATE)
    assert prompter.template.gap == " "
    assert owned(prompter, "What?", "green") == prompter._checkpoint.tokenizer.tokenize(" green")


def test_a_template_that_stumbles_refuses(make_prompter: Any) -> None:
    prompter = make_prompter("text", "{{ messages[0]['content'] + 1 }}")
    with pytest.raises(InvalidRequest) as caught:
        owned(prompter, "What?", "yes")
    assert caught.value.reason == "template_refused"


async def test_greedy_words_are_greedy_when_they_are_scored(served: Any, hf: Any, ask: Any) -> None:
    async with served(hf("llama")) as server:
        config = model.GenerationConfig(max_output_tokens=1, temperature=0, top_logprobs=1)
        for text in ("What?", "How many dogs?", "left or right", "Which color"):
            reply = await server.send(model.GenerateRequest(messages=[ask(text)], config=config))
            output = reply.parts[0].text if reply.parts else ""
            if not reply.logprobs[0].token.startswith(b" ") or not output.strip():
                continue
            request = model.LikelihoodRequest(messages=[ask(text)], continuations=[output], return_tokens=True)
            (score,) = (await server.send(request)).scores
            assert [token.token for token in score.tokens] == [reply.logprobs[0].token]
            assert score.is_greedy
            assert score.logprob == pytest.approx(reply.logprobs[0].logprob, abs=1e-4)
            return
    pytest.fail("no first word begins with a blank: the test shows nothing")


def test_the_pages_template_adds_nothing_to_a_layout(make_prompter: Any, picture: Any) -> None:
    page = Path(__file__).parents[3] / "docs" / "reform.md"
    template = page.read_text(encoding="utf-8").split("```jinja\n")[1].split("\n```")[0]
    prompter = make_prompter("llava", template)
    text = "User: What colour is it?\nBot:"
    parts = [model.Part(image=model.Image(data=picture())), model.Part(text=text)]
    message = model.Message(role=model.ROLE_USER, parts=parts)
    assert prompter.template.render([message]) == f"<image>{text}"
    prompt = prompter.prepare([message])
    (joined,) = prompter.join(prompt, [" green"])
    tokenizer = prompter._checkpoint.tokenizer
    assert joined.ids[joined.start :] == tokenizer(" green")["input_ids"]
    assert joined.start == len(prompt.ids)


@pytest.mark.parametrize("style", sorted(LAYOUTS))
def test_candidates_behind_a_layout_are_the_references_tokens(style: str, make_prompter: Any) -> None:
    """The reference joins the tokens of the prompt and those of each candidate by itself."""
    layout = LAYOUTS[style]
    question = Question("1", "Which?", OPTIONS, 0, (), "ABCDEFG", "Look.")
    text = render(layout, question.record(), question.marks, likelihood=True)
    scored = candidates(question, Switches(layout=layout, likelihood=True))
    llama = make_prompter("llama", RAW)
    for option, candidate in zip(OPTIONS, scored, strict=True):
        assert owned(llama, text, candidate) == llama._checkpoint.tokenizer.tokenize(option)


@pytest.mark.parametrize("style", ["one", "two", "single", "lynx", "mplug_owl", "pandagpt", "blip2", "bliva"])
def test_candidates_behind_a_layout_stand_as_earlier_answers_do(style: str, make_prompter: Any) -> None:
    layout = LAYOUTS[style]
    question = Question("1", "Which?", OPTIONS, 0, (), "ABCDEFG", None)
    text = render(layout, question.record(), question.marks, likelihood=True)
    prompter = make_prompter("text", RAW)
    for option, candidate in zip(OPTIONS, candidates(question, Switches(layout=layout, likelihood=True)), strict=True):
        turns = [{"from": "human", "value": "Which?"}, {"from": "assistant", "value": option}]
        earlier = render(layout, {"question": "And?", "history": turns}, question.marks, likelihood=True)
        assert text + candidate in earlier
        assert owned(prompter, text, candidate) == prompter._checkpoint.tokenizer.tokenize(candidate)


def test_got_ocr_is_asked_as_its_processor_asks() -> None:
    """Its checkpoints have no chat template; the processor writes a conversation around " OCR: " by itself."""
    from helpers import tiny_types

    tiny = dataclasses.replace(tiny_types.TYPES["got_ocr2"], template="")
    processor = tiny_types._processor("got_ocr2", tiny, 16)
    picture = Image.new("RGB", (40, 30), "red")
    message = model.Message(role=model.ROLE_USER)
    message.parts.add(image=model.Image(data=b"x"))
    message.parts.add(text=" OCR: ")
    family = FAMILIES["got_ocr2"]
    text = family.plain([message], SimpleNamespace(processor=processor))
    reference = processor(images=[picture], return_tensors="pt")
    ours = processor(text=[text], images=family.nest([picture]), return_tensors="pt")
    assert ours["input_ids"].tolist() == reference["input_ids"].tolist()
