"""number, yes_no, anls, vqa and box: answers that are right within a tolerance, in part, or by position."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.reading.amounts import amount_of
from scorer.rules import anls, rules
from scorer.scoring import Scorer

SCORER = Scorer(rules())


def verdict(rule: str, text: str, *targets: str, **params: object) -> pb.Verdict:
    request = pb.ScoreRequest(key="k", rule=rule, text=text, targets=targets)
    if params:
        request.params.update(params)
    result = SCORER.begin(request)
    assert isinstance(result, pb.Verdict)
    return result


RIGHT = [
    ("12.50", "12.5"),
    ("1,250 km", "1250"),
    ("The distance is 1,250 km.", "1250"),
    ("1.25 km", "1250 m"),
    ("8.04672 km", "5 miles"),
    ("10 min", "600 s"),
    ("about 12.5%", "12.5%"),
    ("12.5 percent", "0.125"),
    ("0.125", "12.5%"),
    ("45%", "45"),
    ("The answer is **3.14**.", "3.14"),
    ("$1,250.00", "1250"),
    ("-5", "-5"),
    ("It is -3.2 degrees", "-3.2"),
    ("2.5 million", "2,500,000"),
    ("roughly 3.3 billion people", "3300000000"),
    ("twelve thousand", "12000"),
    ("twelve", "12"),
    ("3/4", "0.75"),
    (r"\frac{3}{4}", "0.75"),
    (r"\boxed{12.5}", "12.5"),
    ("1.2 × 10^3", "1200"),
    ("The value is 1.2e3", "1200"),
    ("1.250,5", "1250.5"),
    ("12,5", "12.5"),
    ("1\u202f250", "1250"),
    ("3.5 + 4.5 = 8.0", "8"),
    ("3 red and 4 blue, so 7 in total", "7"),
    ("In 2019 it was 12.3%, in 2020 it was 14.5%. The difference is 2.2 percentage points.", "2.2"),
    ("7 apples", "7"),
    ("$5", "$5"),
    ("$5", "5 dollars"),
    ("It costs $5, not $6.", "$5"),
    ("$5$", "5 €"),
    ("$x = 5$", "5 kg"),
    ("The mass is $5$ kg", "5 kg"),
    ("$5 + 1 = 6$", "6 km"),
    ("5 €", "€5"),
    ("Yes.", "Yes"),
    ("It is blue.", "Blue"),
]
WRONG = [
    ("$5", "5 €"),
    (r"It costs \$5.", "5 €"),
    ("5 €", "$5"),
    ("It costs $5, and the other $6 more: $5.", "5 kg"),
    ("2020", "2019"),
    ("-5", "5"),
    ("5 miles", "5 km"),
    ("5 kg", "5 m"),
    ("No.", "Yes"),
    ("It is red.", "Blue"),
]
UNREAD = [
    ("12 or 13", "12"),
    ("between 12.5 and 13.5", "13"),
    ("at least 5.5", "5.5"),
    ("It shows 45% for men and 55% for women.", "45%"),
    ("The ratio of A is 1.2. The ratio of B is 1.3.", "1.3"),
    ("3.5 and 4.5", "4.5"),
    ("Version 3.10.2", "3"),
    ("2019-05-03", "2019"),
    ("I don't know", "5"),
    ("Yes or no? It is hard to tell.", "5"),
    ("Yes or no? It is hard to tell.", "no"),
]


@pytest.mark.parametrize(("text", "target"), RIGHT)
def test_a_number_is_right_however_it_is_written(text: str, target: str) -> None:
    assert (verdict("number", text, target).outcome, verdict("number", text, target).score) == ("scored", 1)


@pytest.mark.parametrize(("text", "target"), WRONG)
def test_another_number_sign_or_kind_of_unit_is_wrong(text: str, target: str) -> None:
    assert (verdict("number", text, target).outcome, verdict("number", text, target).score) == ("scored", 0)


@pytest.mark.parametrize(("text", "target"), UNREAD)
def test_several_numbers_or_none_are_unparsed(text: str, target: str) -> None:
    assert verdict("number", text, target).outcome == "unparsed"


@pytest.mark.parametrize(
    ("text", "params", "score"),
    [
        ("95", {"relative": 0.05}, 1),
        ("105", {"relative": 0.05}, 1),
        ("94.9", {"relative": 0.05}, 0),
        ("100.4", {"absolute": 0.5}, 1),
        ("100.6", {"absolute": 0.5}, 0),
        ("100.0", {}, 1),
        ("100,0", {"decimal": ","}, 1),
    ],
)
def test_a_tolerance_reaches_as_far_as_it_says(text: str, params: dict[str, object], score: float) -> None:
    assert verdict("number", text, "100", **params).score == score


def test_the_decimal_sign_decides_what_a_thousand_is() -> None:
    assert verdict("number", "1.250", "1250", decimal=",").score == 1
    assert verdict("number", "1.250", "1250").score == 0


@pytest.mark.parametrize("params", [{"relative": -1}, {"relative": "5%"}, {"decimal": ";"}])
def test_a_parameter_that_cannot_be_is_named(params: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=next(iter(params))):
        verdict("number", "1", "1", **params)


@given(st.integers(-(10**12), 10**12))
def test_a_whole_number_is_read_with_and_without_separators(number: int) -> None:
    for text in (str(number), f"{number:,}", f"{number:,}.00"):
        assert verdict("number", text, str(number)).score == 1, text


@given(st.text())
def test_an_amount_is_finite(text: str) -> None:
    result = amount_of(text)
    assert result is None or abs(result.value) < float("inf")


@pytest.mark.parametrize(
    ("text", "target", "extracted", "score"),
    [
        ("Yes", "yes", "yes", 1),
        ("No, there is not.", "False", "no", 1),
        ("False.", "True", "no", 0),
        ("The statement is false.", "no", "no", 1),
        ("Yes, there is no cat.", "Y", "yes", 1),
        ("Ja", "true", "yes", 1),
    ],
)
def test_yes_and_no(text: str, target: str, extracted: str, score: float) -> None:
    result = verdict("yes_no", text, target)
    assert (result.outcome, result.extracted, result.score) == ("scored", extracted, score)


@pytest.mark.parametrize("text", ["Yes or no? It is hard to tell.", "both yes and no", "maybe", "True or false?"])
def test_neither_yes_nor_no(text: str) -> None:
    assert [verdict("yes_no", text, target).outcome for target in ("yes", "no")] == ["unparsed"] * 2


def test_yes_no_wants_a_target_that_is_one() -> None:
    with pytest.raises(RequestError, match="not yes or no"):
        verdict("yes_no", "yes", "perhaps")


@pytest.mark.parametrize(
    ("text", "targets", "score"),
    [
        ("hello world", ["hello world"], 1),
        ("Hello  World", ["hello world"], 1),
        ("hello worl", ["no", "hello world"], 1 - 1 / 11),
        ("ab", ["ac"], 0.5),
        ("abc", ["xyc"], 0),
        ("The text says hello world", ["hello world"], 0),
    ],
)
def test_anls_is_one_less_the_normalized_distance(text: str, targets: list[str], score: float) -> None:
    assert verdict("anls", text, *targets).score == pytest.approx(score)


@given(st.text("ab ", max_size=8), st.text("ab ", max_size=8))
def test_the_distance_is_a_metric(one: str, other: str) -> None:
    assert anls.distance(one, other) == anls.distance(other, one)
    assert (anls.distance(one, other) == 0) is (one == other)
    assert abs(len(one) - len(other)) <= anls.distance(one, other) <= max(len(one), len(other))


def test_of_a_much_longer_answer_no_distance_is_computed() -> None:
    assert verdict("anls", "word " * 200_000, "word " * 200).score == 0


@pytest.mark.parametrize(
    ("text", "people", "score"),
    [
        ("2", ["two"] * 10, 1),
        ("A dog.", ["dog"] * 4 + ["cat"] * 6, 1),
        ("dog", ["dog"] * 3 + ["cat"] * 7, (7 * 1 + 3 * 2 / 3) / 10),
        ("dog", ["dog"] * 2 + ["cat"] * 8, (8 * 2 / 3 + 2 * 1 / 3) / 10),
        ("dog", ["dog"] * 1 + ["cat"] * 9, 9 / 3 / 10),
        ("cow", ["dog"] * 1 + ["cat"] * 9, 0),
        ("don't walk", ["dont walk"] * 10, 1),
        ("1,000", ["1000"] * 10, 1),
    ],
)
def test_vqa_accuracy_leaves_each_person_out_once(text: str, people: list[str], score: float) -> None:
    assert verdict("vqa", text, *people).score == pytest.approx(score)


def test_vqa_of_one_person_names_the_rules_to_use() -> None:
    with pytest.raises(RequestError, match="use contains_word or anls"):
        verdict("vqa", "dog", "dog")


@pytest.mark.parametrize(
    ("text", "target", "params", "score"),
    [
        ("[10, 10, 20, 20]", "10,10,20,20", {}, 1),
        ("The box is (0,0),(10,10).", "0 0 10 5", {}, 1),
        ("[0, 0, 10, 4.9]", "0 0 10 10", {}, 0),
        ("[0, 0, 10, 4.9]", "0 0 10 10", {"threshold": 0.4}, 1),
        ('{"bbox_2d": [1, 2, 3, 4], "label": "cat"}', "1,2,3,4", {}, 1),
        (
            "<box>(100, 100, 200, 200)</box>",
            "64 48 128 96",
            {"answer_size": [1000, 1000], "target_size": [640, 480]},
            1,
        ),
        ("(15, 12)", "10,10,20,20", {"measure": "point"}, 1),
        ('{"x": 25, "y": 12}', "10,10,20,20", {"measure": "point"}, 0),
    ],
)
def test_a_box_overlaps_and_a_point_lies_in_it(text: str, target: str, params: dict[str, object], score: float) -> None:
    result = verdict("box", text, target, **params)
    assert (result.outcome, result.score) == ("scored", score)


@pytest.mark.parametrize("text", ["[1, 2, 3, 4] or [5, 6, 7, 8]", "I see nothing.", "It is at 3."])
def test_several_boxes_or_none_are_unparsed(text: str) -> None:
    assert verdict("box", text, "1,2,3,4").outcome == "unparsed"


@pytest.mark.parametrize(
    ("text", "target", "outcome", "score"),
    [
        ("Yes or no? It is hard to tell.", "yes", "unparsed", 0),
        ("Yes, there is no cat.", "no", "scored", 0),
        ("Yes, there is no doubt about it.", "yes", "scored", 1),
        ("12 or 13", "12", "unparsed", 0),
        ("12-13", "13", "unparsed", 0),
        ("12 or 13? It is 12.", "12", "scored", 1),
        ("Red or blue? Hard to say.", "red", "unparsed", 0),
        ("Is it red or blue? Red.", "red", "scored", 1),
        ("The door is open, not closed.", "open", "scored", 1),
        ("No parking", "no", "scored", 1),
    ],
)
def test_a_rival_beside_the_target_is_no_answer(text: str, target: str, outcome: str, score: float) -> None:
    result = verdict("contains_word", text, target)
    assert (result.outcome, result.score) == (outcome, score)
