"""The prompt layouts, to the last blank."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.benchmarks.reform.layouts import (
    LAYOUTS,
    Layout,
    answered,
    render,
)
from orchestrator.benchmarks.reform.prompts import ALPHABETS, CONTEXTS, marks_of, with_options

SHARED = Path(os.environ.get("LYNCEAN_SHARED_DATA", Path(__file__).parents[4] / ".." / "shared" / "data"))
SHIPPED = SHARED / "reform" / "shipped_predictions"
UPPER = ALPHABETS["upper"]
ITEM = {
    "instruct": "Look.",
    "question": "Which?",
    "answer_options": ["a", "b"],
    "history": [{"from": "human", "value": "See?"}, {"from": "assistant", "value": "(A) yes"}],
}
QUESTION = "Which? Options: (A) a; (B) b."


@pytest.mark.skipif(not SHIPPED.exists(), reason="the shipped ReForm-Eval predictions are not here")
@pytest.mark.parametrize(
    ("file", "layout", "likelihood", "count"),
    [
        ("FUNSD_KIEOpenEnded_generation_blip2_blip2_t5_instruct", LAYOUTS["blip2"], False, 588),
        ("MSCOCO_Generation_generation_lynx_LYNX", replace(LAYOUTS["lynx"], prefix=None), False, 500),
        ("TDIUC_SingleChoice_likelihood_imagebindLLM_imagebindLLM", LAYOUTS["imagebind_llm"], True, 55),
    ],
)
def test_published_prompts_come_out_of_their_records(file, layout, likelihood, count):
    records = json.loads((SHIPPED / f"{file}.json").read_text())
    assert len(records) == count
    for record in records:
        assert render(layout, record, UPPER, likelihood=likelihood) == record["text"]
        if likelihood:
            assert record["history"] == CONTEXTS["V1n"].turns("The answer is")


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (
            Layout("one", "\n", roles=("User", "Bot"), system="S", prefix="The answer is"),
            f"S\nUser: Look. See?\nBot: (A) yes\nUser: {QUESTION}\nBot: The answer is",
        ),
        (
            Layout("two", " ", "</s>", roles=("U", "A"), system="S"),
            f"S U: Look. See? A: (A) yes</s>U: {QUESTION} A:",
        ),
        (
            Layout("two", " ", "|", roles=("U", "A"), init=(("U", "<image>"),), prefix="P"),
            f"U: <image> U: Look. See?|A: (A) yes U: {QUESTION}|A: P",
        ),
        (
            Layout("otter", " ", "|", roles=("User", "GPT"), system="S", first_query="<image>{}", prefix="P"),
            f"SUser: <image>Look. See? GPT:<answer> (A) yes|User: {QUESTION} GPT:<answer> P",
        ),
        (
            Layout("llama_adapter2", "##", roles=("Input", "Response"), system="S", prefix="P"),
            f"S##Instruction:\nLook.##Input:\nSee?##Response:\n(A) yes##Input:\n{QUESTION}##Response:\nP",
        ),
        (
            Layout("visualglm", "\n", roles=("Q", "A"), prefix="P"),
            f"[Round 1]\nQ：Look. See?\nA：(A) yes\n[Round 2]\nQ：{QUESTION}\nA：P",
        ),
        (
            Layout("llama_2", "<s>", "</s>", roles=("U", "A"), system="S", prefix="P"),
            f"[INST] <<SYS>>\nS\n<</SYS>>\n\nLook. See? [/INST] (A) yes </s><s>[INST] {QUESTION} [/INST]P",
        ),
        (
            Layout("llama_2", "<s>", "</s>", roles=("U", "A")),
            f"[INST] <<SYS>>\nNone\n<</SYS>>\n\nLook. See? [/INST] (A) yes </s><s>[INST] {QUESTION} [/INST]",
        ),
        (
            Layout("single", " ", "\n"),
            f"Look.\nQuestion: See? Answer: (A) yes\nQuestion: {QUESTION} Answer:",
        ),
        (
            Layout("mmgpt", "#", "#", roles=("I", "R"), system="S", prefix="P"),
            f"S#Image:\n<image>#I:\nLook. See?#R:\n(A) yes#I:\n{QUESTION}#R:\nP",
        ),
    ],
)
def test_styles(layout, text):
    assert render(layout, ITEM, UPPER) == text


def test_likelihood_is_bare_and_ends_in_the_role():
    layout = Layout("one", "\n", roles=("U", "A"), prefix="The answer is")
    assert render(layout, {"question": "Which?", "answer_options": ["a"]}, UPPER, likelihood=True) == "U: Which?\nA:"


def test_the_end_strips_characters_not_a_prefix():
    layout = Layout("llama_2", "[I ", "|", system="S")
    assert render(layout, {"question": "q"}, UPPER).startswith("NST] <<SYS>>")


def test_an_empty_turn_is_printed_as_an_open_slot():
    item = ITEM | {"history": [{"from": "human", "value": "See?"}, {"from": "assistant", "value": ""}]}
    text = render(Layout("one", "\n", roles=("U", "A"), prefix="P"), item, UPPER)
    assert text == f"U: Look. See?\nA: PU: {QUESTION}\nA: P"


def test_unknown_style():
    with pytest.raises(NotImplementedError, match="three"):
        Layout("three")


def test_options_behind_a_question():
    assert with_options("q", ["x", "y", "z"], ALPHABETS["number"]) == "q Options: (1) x; (2) y; (3) z."
    assert with_options("q", [], UPPER) == "q Options: "
    assert with_options("q", None, UPPER) == "q"
    with pytest.raises(IndexError):
        with_options("q", ["o"] * 10, ALPHABETS["number"])


def test_random_marks_are_one_of_three_alphabets():
    drawn = {marks_of("random", random.Random(seed)) for seed in range(50)}
    assert drawn == set(ALPHABETS.values())


def test_answers_of_a_history():
    assert answered("b", ["a", "b"], UPPER, None) == "(B) b"
    assert answered("", ["a"], UPPER, "P") == "P "


def test_in_context_turns():
    assert CONTEXTS["V3"].turns("P")[1]["value"] == "P (A) yes"
    assert CONTEXTS["V1n"].turns("P")[1]["value"] == "(A) yes"
    assert CONTEXTS["V1n"].turns("P", faithful=False)[1]["value"] == "P (A) yes"
    assert (
        CONTEXTS["V2-3"].human == "What is the shape of this image? Options: (A) rectangle; (B) circle; (C) triangle."
    )
    assert CONTEXTS["V2-3"].answer == "(A) rectangle."
    assert CONTEXTS["V2-4"].answer == "(A) rectangle;"
    assert CONTEXTS["V2-4c"].human.endswith("(D) hexagon;")
    assert "(B) refuted (C)" in CONTEXTS["V8"].human
    assert CONTEXTS["V1c capitalised"].human == (
        "Can you see the image? Options: (A) Yes; (B) No; (C) Maybe; (D) Not sure."
    )
