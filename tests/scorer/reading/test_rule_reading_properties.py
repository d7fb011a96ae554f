"""Properties of the reading rules for any answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from helpers.corpus import CORPUS, cases, named
from hypothesis import HealthCheck, given, settings, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.reading import reasoning
from scorer.rules import rules

CASES = [
    case
    for path in sorted(CORPUS.glob("*.jsonl"))
    for case in cases(path)
    if not case.get("open") and not case.get("cut")
]
MATERIALS = ("rubber", "cotton", "kevlar", "leather")
VOCABULARY = (
    *(
        "A",
        "B",
        "C",
        "D",
        "a",
        "b",
        "c",
        "d",
        "I",
        "(A)",
        "(B)",
        "B.",
        "C)",
        "**D**",
        "option",
        "choice",
        "answer",
        "the",
    ),
    *("is", "not", "so", "therefore", "because", "wait", "or", "and", "either", "it's", "1", "2", "3", "4", "5", "12"),
    *(
        "three",
        "third",
        "total of",
        "=",
        "+",
        "cotton",
        "leather",
        "yes",
        "no",
        "left",
        "right",
        ",",
        ".",
        "!",
        "?",
        ":",
    ),
    *(";", "-", "\n", "\n\n", "\\boxed{B}", "<answer>", "</answer>", "答案是", "選", "は", "sorry", "cannot determine"),
    *(
        "if",
        "only",
        "→",
        "✅",
        "❌",
        "|",
        "$",
        "{",
        "}",
        "~~",
        "`",
        "\u3000",
        "Ｂ",
        "③",
        "the answer is",
        "I'd go with",
    ),
)
MESS = st.lists(st.sampled_from(VOCABULARY), max_size=25).map(" ".join) | st.text(max_size=60)
QUICK = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])


def verdict(
    rule: str, text: str, options: Sequence[str] = (), params: Mapping[str, Any] | None = None, target: str = ""
) -> pb.Verdict:
    target = target or {"choice": "A", "choice_number": "1", "count": "1"}.get(rule) or options[0]
    request = pb.ScoreRequest(key="k", rule=rule, text=text, options=options, targets=[target])
    request.params.update(params or {})
    return rules().get(rule).read(request)


def read(case: Mapping[str, Any], text: str) -> str:
    target = case["expected"] if case["expected"] not in ("unparsed", "refused") else ""
    if not target and case["rule"] == "choice":
        target = case["params"].get("labels", ["A"])[0]
    with named(case):
        got = verdict(case["rule"], text, case["options"], case["params"], target)
    return got.extracted if got.outcome == "scored" else got.outcome


@QUICK
@given(MESS, st.sampled_from([((), 4), (MATERIALS, 4), (("left", "right"), 2), (tuple("123456789"), 9)]))
def test_choice_never_leaves_its_labels(text: str, options: tuple[tuple[str, ...], int]) -> None:
    got = verdict("choice", text, options[0])
    assert got.outcome in ("scored", "unparsed", "refused")
    assert got.outcome != "scored" or got.extracted in "ABCDEFGHI"[: options[1]]
    assert got.span.end <= len(text)


@QUICK
@given(MESS, st.integers(2, 9), st.booleans())
def test_choice_number_never_leaves_its_numbers(text: str, count: int, letters: bool) -> None:
    got = verdict("choice_number", text, params={"count": count, "letters": letters})
    assert got.outcome != "scored" or got.extracted in "123456789"[:count]


@QUICK
@given(MESS)
def test_count_is_a_whole_number(text: str) -> None:
    got = verdict("count", text)
    assert got.outcome != "scored" or (got.extracted.isascii() and got.extracted.isdigit())


@QUICK
@given(MESS, st.sampled_from([("yes", "no"), ("left", "right"), ("two", "three"), ("top left", "bottom right")]))
def test_two_way_never_leaves_its_options(text: str, options: tuple[str, str]) -> None:
    got = verdict("two_way", text, options)
    assert got.outcome != "scored" or got.extracted in options


@QUICK
@given(MESS)
def test_reasoning_leaves_one_piece_of_the_text(text: str) -> None:
    for wrapped in (text, f"<think>{text}</think>B", f"{text}<think>{text}"):
        parts = reasoning.split(wrapped)
        assert wrapped[parts.offset : parts.offset + len(parts.answer)] == parts.answer
        assert parts.removed == (parts.answer != wrapped)


SAME = [
    pytest.param(lambda text: f"  \n{text}\n\n ", id="blanks around"),
    pytest.param(lambda text: text.replace(" ", "  "), id="blanks doubled"),
    pytest.param(lambda text: text.replace("\n", "\r\n"), id="line ends"),
    pytest.param(lambda text: text.replace("\n", "\n\n"), id="empty lines"),
    pytest.param(lambda text: text.replace(" ", "\u00a0"), id="no-break blanks"),
    pytest.param(lambda text: f"**{text}**", id="bold"),
    pytest.param(lambda text: f"{text}<|im_end|>", id="end token"),
    pytest.param(lambda text: f"<think>The answer is D. Or 4?</think>{text}", id="reasoning before"),
]


@pytest.mark.parametrize("change", SAME)
def test_typography_changes_nothing(change: Any) -> None:
    changed = []
    for case in CASES[::7]:
        text = change(case["text"])
        got = read(case, reasoning.split(text).answer)
        if got != read(case, reasoning.split(case["text"]).answer):
            changed.append((case["case"], text, case["expected"], got))
    assert not changed, "\n".join(map(str, changed))


@pytest.mark.parametrize("after", ["I hope this helps!", "Let me know about further questions.", "Thank you."])
def test_a_neutral_sentence_after_an_answer_changes_nothing(after: str) -> None:
    changed = []
    for case in CASES[::5]:
        text = reasoning.split(case["text"]).answer.rstrip()
        if text[-1:] not in (".", "!"):
            continue
        got = read(case, f"{text}\n\n{after}")
        if got not in (case["expected"], case.get("misread")):
            changed.append((case["case"], text, case["expected"], got))
    assert not changed, "\n".join(map(str, changed))


@pytest.mark.parametrize(
    "piece",
    [
        "B ",
        "A or B ",
        "(",
        "[",
        "<",
        "\\boxed{",
        "~~a",
        "$",
        " ",
        "\n",
        "The answer is not A. ",
        "answer ",
        "5 ",
        "A→",
        "<think>",
        "B. red\n",
        "，",
    ],
)
@pytest.mark.parametrize("rule", ["choice", "count", "two_way", "lmms_vstar", "lmms_visualpuzzles"])
def test_a_megabyte_of_anything_is_read(rule: str, piece: str) -> None:
    text = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    options = ("left", "right") if rule == "two_way" else MATERIALS
    text = reasoning.split(text).answer
    assert verdict(rule, text, options, target="left" if rule == "two_way" else "1" if rule == "count" else "A").outcome


def test_a_long_answer_is_read_at_both_ends() -> None:
    filler = "The weather was fine and people walked along the river. " * 20_000
    late = verdict("choice", filler + "\nThe answer is B.")
    early = verdict("choice", "The answer is C.\n" + filler)
    assert (late.extracted, early.extracted) == ("B", "C")
    assert (filler + "\nThe answer is B.")[late.span.start : late.span.end] == "B"
