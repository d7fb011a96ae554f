"""The parity rules, against the documented behaviour of the reference, bugs included."""

from __future__ import annotations

import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules import rules

NAMES = ("rubber", "Bob", "12", "leather")


def verdict(
    rule: str, text: str, *, options: tuple[str, ...] = (), key: str = "k", target: str = "A", **params: object
) -> pb.Verdict:
    request = pb.ScoreRequest(key=key, rule=rule, text=text, options=options, targets=[target])
    request.params.update(params)
    return rules().get(rule).read(request)


@pytest.mark.parametrize(
    ("text", "letter", "number"),
    [
        ("A", "A", 1),
        (" b) cotton", "B", 1),
        ("Answer: D", "A", 1),
        ("Based on the image, the answer is (A).", "B", 1),
        ("Cannot determine", "C", 1),
        ("blue", "B", 1),
        ("As an AI", "A", 1),
        ("The answer is black.", "B", 2),
        ("The option is: (C)", "C", 3),
        ("the choice  is:\nc", "C", 2),
        ("exclude option A. The answer is B", "A", 2),
        ("multichoice:d", "D", 2),
        ("The answer is not A.", "A", 4),
        ("It is (B), not (C)", "B", 3),
        ("it says ( B )", "B", 4),
        ("The color is red.", "D", 4),
        ("The lid ]", "D", 4),
        ("this is a cat", "A", 5),
        ("It: X\nB\nY", "B", 5),
        ("the ring", None, 0),
        ("bed", "B", 1),
        ("Perhaps", "A", 6),
        ("<think>B</think>C", "C", 1),
        ("<analysis>B</analysis>  D.", "D", 1),
        ("<THINK>x</THINK>: yes", None, 0),
        ("x</think>y</think> C", "C", 1),
        ("<think>B", "B", 6),
        ("The answer is Ｂ", "A", 6),
        ("", None, 0),
        ("\\boxed{B}", None, 0),
    ],
)
def test_vstar(text: str, letter: str | None, number: int) -> None:
    got = verdict("lmms_vstar", text, target=" b ")
    assert got.outcome == ("scored" if letter else "unparsed")
    assert got.extracted == (letter or "")
    assert got.reason == (f"rule_{number}" if letter else "no_choice")
    assert got.score == (letter == "B")


@pytest.mark.parametrize(
    ("text", "letter", "number"),
    [
        ("Answer: (A) wait Answer: C", "A", 1),
        ("Answer: (A) Answer:(b)", "b", 1),
        ("Answer: A ... Final Answer: B", "A", 2),
        ("Answer: Because of symmetry", "B", 2),
        ("Answer: cannot tell", "c", 2),
        ("Answer: E Answer: D Answer: x", "D", 2),
        ("Final Answer: B", "B", 3),
        ("answer: B, see (c)", "c", 4),
        ("(A) or (D) or (x)", "D", 4),
        ("Reasoning (abridged): so it is 37", "d", 5),
        ("A) no B) yes", "B", 5),
        ("so {C}", "C", 6),
        ("so $D$", "D", 7),
        ("I take B. really", "B", 8),
        ("Blue", "B", 9),
        ("d", "d", 9),
        ("answer: 12!", "C", 10),
        ("answer: Bob", "B", 11),
        ("It is leather, not rubber", "A", 11),
        ("bobBob", "B", 11),
    ],
)
def test_visualpuzzles(text: str, letter: str, number: int) -> None:
    got = verdict("lmms_visualpuzzles", text, options=NAMES, target=letter.lower())
    assert (got.outcome, got.extracted, got.reason, got.score) == ("scored", letter, f"rule_{number}", 1)


def test_visualpuzzles_option_quirks() -> None:
    contained = ("1", "12", "2", "21")
    assert verdict("lmms_visualpuzzles", "answer: 12 it is", options=contained).extracted == "A"
    assert verdict("lmms_visualpuzzles", "There are 21", options=contained).extracted == "A"
    assert verdict("lmms_visualpuzzles", "It is leather", options=("leather", "", "x", "y")).extracted == "B"
    assert verdict("lmms_visualpuzzles", "37! (not 40)", options=("37", "40", "41", "42")).extracted == "B"
    assert verdict("lmms_visualpuzzles", "same same", options=("same", "same", "x", "y")).extracted == "A"


def test_visualpuzzles_draws_by_the_key_or_not_at_all() -> None:
    drawn = [verdict("lmms_visualpuzzles", "no idea whatsoever", key=f"VisualPuzzles_cot/{i}") for i in range(400)]
    assert {got.reason for got in drawn} == {"random_draw"}
    assert {got.outcome for got in drawn} == {"scored"}
    share = [sum(got.extracted == letter for got in drawn) / len(drawn) for letter in "ABCD"]
    assert min(share) > 0.17
    again = [verdict("lmms_visualpuzzles", "other words entirely", key=f"VisualPuzzles_cot/{i}") for i in range(400)]
    assert [got.extracted for got in drawn] == [got.extracted for got in again]
    left = verdict("lmms_visualpuzzles", "no idea whatsoever", variant="unig2u")
    assert (left.outcome, left.reason) == ("unparsed", "no_choice")


def test_reasoning_is_kept_where_asked() -> None:
    text = "<think>Answer: A</think>Answer: B"
    assert verdict("lmms_visualpuzzles", text).extracted == "B"
    assert verdict("lmms_visualpuzzles", "Answer: B <think>Answer: A</think>", strip_reasoning=False).extracted == "A"
    assert verdict("lmms_vstar", "<think>D</think>B").extracted == "B"
    assert verdict("lmms_vstar", "<think>", strip_reasoning=False).outcome == "unparsed"


def test_defects_of_a_request_are_named() -> None:
    with pytest.raises(RequestError, match="variant"):
        verdict("lmms_visualpuzzles", "B", variant="other")
    with pytest.raises(RequestError, match="target"):
        rules().get("lmms_vstar").read(pb.ScoreRequest(key="k", rule="lmms_vstar", text="B"))
