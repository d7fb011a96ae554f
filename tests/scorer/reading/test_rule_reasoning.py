"""Reasoning is removed once, and refusals are distinguished from failures to answer."""

from __future__ import annotations

import pytest

from scorer.reading import reasoning, refusals


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("B", "B"),
        ("a < b and b > c", "a < b and b > c"),
        ("<think>A?</think>B", "B"),
        ("<THINK>A?</Think>\n\nB", "\n\nB"),
        ("<thinking>A</thinking>B", "B"),
        ("<thought>A</thought>B", "B"),
        ("<reasoning>A</reasoning>B", "B"),
        ("<analysis>A</analysis>B", "B"),
        ("<|thinking|>A</|thinking|>B", "B"),
        ('<think type="long">A</think>B', "B"),
        ("[THINK]A[/THINK]B", "B"),
        ("◁think▷A◁/think▷B", "B"),
        ("<think>A<think>C</think>D</think>B", "B"),
        ("<think>A</think>B<think>C</think>", "B"),
        ("<think>A</think>x<think>C</think>B", "B"),
        ("A, or rather</think>B", "B"),
        ("A</think>C</think>B", "B"),
        ("<think>A is wrong, so", ""),
        ("<think>A</think><think>C", ""),
        ("The answer is B. <think>sure?", "The answer is B. "),
        ("<think></think>", ""),
        ("<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>", "B"),
        ("<|channel|>analysis<|message|>A?", ""),
        ("analysisRow 1 has 3. So B.assistantfinalB", "B"),
        ("<answer>B</answer>", "<answer>B</answer>"),
        ("I think <b>B</b>", "I think <b>B</b>"),
    ],
)
def test_split(text: str, answer: str) -> None:
    parts = reasoning.split(text)
    assert parts.answer == answer
    assert text[parts.offset : parts.offset + len(answer)] == answer
    assert parts.removed == (answer != text)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I’m unable to help with this request.",
        "As an AI language model, I cannot view images.",
        "I must decline to answer.",
        "抱歉,我无法协助处理这个请求.",
    ],
)
def test_declines(text: str) -> None:
    assert refusals.declines(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "B",
        "I cannot determine the answer from the image.",
        "I'm sorry, the image is not clear enough to tell.",
        "Sorry, I meant B.",
        "I can't see the image.",
        "A cannot be the answer.",
    ],
)
def test_does_not_decline(text: str) -> None:
    assert not refusals.declines(text)
