"""Answers that hold in different cases, that are alternatives, or that the text retracts are not read."""

from __future__ import annotations

import pytest
from helpers.corpus import verdict_of

COLORS = ["red", "green", "blue", "yellow"]


def read(rule: str, text: str, options: list[str] | None = None, *, cut: bool = False) -> str:
    case = {"case": "", "rule": rule, "text": text, "options": options or [], "params": {}, "expected": "unparsed"}
    if not options and rule != "count":
        case["params"] = {"count": 5}
    verdict = verdict_of(case | {"cut": cut})
    return verdict.extracted if verdict.outcome == "scored" else verdict.outcome


@pytest.mark.parametrize(
    "text",
    [
        "If the arrow is read from the tail, the answer is B; if it is read from the tip, the answer is D.",
        "From the front it's C, from above it's A.",
        "Assuming the axis starts at zero, the answer is C. Assuming it starts at ten, the answer is A.",
        "If you see a racket, choose A. If you see a ball on grass, choose B.",
        "According to the rows the answer is A, according to the columns it is D.",
        "It depends on the viewpoint: seen from the driver it's A, seen from the pedestrian it's C.",
        "Depende de la perspectiva: desde arriba es la A, desde abajo la D.",
        "Se si considera il bordo la risposta è A, altrimenti è C.",
        "Если смотреть сверху, ответ B, а если сбоку — D.",
        "从颜色来看应选A,从形状来看应选C。",
        "The correct answer is A. The correct answer is B.",
        "Either the second or the third option could be right here.",
        "Either the answer is A or it is B.",
        "A could be right, provided that the triangle is isosceles.",
        "The answer is A. Hmm, no. I'm no longer sure which direction it is.",
        "The answer seems to be A, but then the second row is broken. So it's not A, and the others do not fit.",
        "Die Antwort ist B. Nein, doch nicht. Ich weiß es nicht.",
        'The sign reads "Gate C".',
    ],
)
def test_an_answer_of_several_cases_is_none(text: str) -> None:
    assert read("choice", text) == "unparsed"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("It looks like A from the front, but the shadow shows that the answer is C.", "C"),
        ("Initially, I thought the answer is C. After looking closer, the answer is B.", "B"),
        ("Which figure fits depends on the number of dots. There are five dots, so the answer is B.", "B"),
        ("B is correct... wait, the legend is inverted. C is correct.", "C"),
        ("The answer is A. Let's check: if the answer is C, the dots would not match.", "A"),
        ("1994 is the first such year, i.e. option D; 1990 (A) and 1991 (B) are not.", "D"),
        ("Zunächst dachte ich an A, aber die Nadel zeigt auf 6 bar. Also D.", "D"),
        ("Zuerst dachte ich an A, aber das Tier hat Flügel. Also ist D richtig.", "D"),
        ("Please take B as my answer instead of D.", "B"),
        ("There are 24 chairs in the room, which falls in the 20-30 range: C.", "C"),
        ("analysisThe bars fall. So B.assistantfinalB", "B"),
    ],
)
def test_the_last_word_of_a_text_that_turns_is_its_answer(text: str, label: str) -> None:
    assert read("choice", text) == label


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Under daylight it's blue, under the lamp it's green.", "unparsed"),
        ("The ball is red and the box is blue.", "unparsed"),
        ("Red: 12. Green: 30. Blue: 25.\n\nGreen is the most common.", "B"),
        ("The lamp beside the red chair is green.", "B"),
    ],
)
def test_a_plain_statement_on_one_option_is_read(text: str, expected: str) -> None:
    assert read("choice", text, COLORS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two cups on the left, three on the right.", "unparsed"),
        ("Two in the front row, three in the back row, and one next to the window.", "unparsed"),
        ("Top: 3, bottom: 2", "unparsed"),
        ("One dog, one cat.", "unparsed"),
        ("Four chairs around the table, another by the window.", "unparsed"),
        ("Il y a un chat sur le canapé et deux autres sous la table.", "unparsed"),
        ("Zwei Hunde auf der Wiese, einer am Zaun.", "unparsed"),
        ("It depends on what counts as a window: 6 with the skylight, 5 without.", "unparsed"),
        ("I count 5. Wait, one of them is a shadow... or not. I can't tell.", "unparsed"),
        ("The clock shows 10:15.", "unparsed"),
        ("Five people: three standing and two sitting.", "5"),
        ("There are five dogs, three brown and two white.", "5"),
        ("9 panels (5 in the context + 4 choices)", "9"),
        ("A dozen eggs, 12, are in the carton.", "12"),
        ("Taking the 2 red ones from the 6 leaves 4.", "4"),
    ],
)
def test_parts_without_a_sum_are_not_a_count(text: str, expected: str) -> None:
    assert read("count", text) == expected


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("It could be true if the chart is in thousands, but if not it would be false.", ["true", "false"], "unparsed"),
        ("The statement is true for the first panel but false for the second.", ["true", "false"], "unparsed"),
        ("Yes if you include the shadow, no if you don't.", ["yes", "no"], "unparsed"),
        ("Yes. Actually, no, hold on: it may be the lamp. I really can't say.", ["yes", "no"], "unparsed"),
        ("One window is open, the other is closed.", ["open", "closed"], "unparsed"),
        ("There is no image attached to your message.", ["yes", "no"], "unparsed"),
        ("There is no dog in the image.", ["yes", "no"], "no"),
        ("That is right.", ["yes", "no"], "yes"),
        ("Yes, if you look closely, there is a bird on the roof.", ["yes", "no"], "yes"),
        ("At first glance yes, but it has only three wheels. No.", ["yes", "no"], "no"),
    ],
)
def test_an_answer_under_a_condition_is_none_of_two(text: str, options: list[str], expected: str) -> None:
    assert read("two_way", text, options) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Choice 1 matches the silhouette. Choices 2-4 lack the notch.", "1"),
        ("The one with the most birds is picture 2.", "2"),
        ("Bild 2 zeigt das passende Netz des Würfels.", "2"),
        ("The shadow matches silhouette 2.", "2"),
        ("I count 4 lines in the second figure.", "unparsed"),
        ("Image 4 is blurry.", "unparsed"),
    ],
)
def test_a_choice_is_named_by_its_noun_and_its_number(text: str, expected: str) -> None:
    assert read("choice_number", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So far C looks best. Let me check D as", "unparsed"),
        ("I'm leaning towards D because of the hooked beak. Let's look at the wing", "unparsed"),
        ("Hmm, B. Or is it", "unparsed"),
        ("A. The bar for March is the highest, whereas", "unparsed"),
        ("B. The bar for March is the highest, whereas", "B"),
        ("The answer is B. However, to be sure, let me", "B"),
    ],
)
def test_a_cut_text_that_leans_or_turns_states_nothing(text: str, expected: str) -> None:
    assert read("choice", text, cut=True) == expected
