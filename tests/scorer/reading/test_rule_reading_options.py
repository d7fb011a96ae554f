"""Options are found by their text, also in other wording, and nothing else is."""

from __future__ import annotations

import pytest

from scorer.reading.answer import read_choice
from scorer.reading.options import options_of
from scorer.reading.partial_match import short_for

LABELS = ("A", "B", "C", "D")
PEOPLE = ("The woman in the red dress", "The man with the umbrella", "The boy on the bicycle", "The dog")
ACTS = ("The man is riding a horse.", "The man is feeding a horse.", "A horse is jumping over a fence.", "No horse")


@pytest.mark.parametrize(
    ("text", "options", "labels"),
    [
        ("the man holding an umbrella", PEOPLE, ["B"]),
        ("boy on bicycle", PEOPLE, ["C"]),
        ("the man without an umbrella", PEOPLE, []),
        ("a woman, and a red dress", PEOPLE, []),
        ("The man rides his horse.", ACTS, ["A"]),
        ("The man is not riding a horse.", ACTS, []),
        ("a hot dog", ("a dog", "a cat", "a bear", "a mouse"), []),
        ("hot dogs and a big dog", ("dog", "cat", "bear", "mouse"), ["A"]),
        ("the upper left", ("left", "right", "above", "below"), []),
        ("the upper left", ("left", "right", "inside", "outside"), ["A"]),
        ("the left-hand side", ("left", "right", "above", "below"), ["A"]),
        ("to the north-east", ("north", "east", "northeast", "south"), ["C"]),
        ("to the north-west", ("north", "east", "northeast", "south"), []),
        ("Cairo", ("Rome, Italy", "Cairo, Egypt", "Oslo, Norway", "Bonn, Germany"), ["B"]),
        ("red", ("red, blue", "blue, red", "green, red", "red, green"), []),
        ("He is sad.", ("joy", "sadness", "anger", "fear"), ["B"]),
        ("grey", ("red", "gray", "blue", "pink"), ["B"]),
    ],
)
def test_finds_options_by_their_words(text: str, options: tuple[str, ...], labels: list[str]) -> None:
    assert [mention.value for mention in options_of(LABELS, options).find(text)] == labels


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("A woman in a dress", "A"),
        ("dress woman", ""),
        ("The woman", "A"),
        ("A woman in a blue dress", ""),
        ("the", ""),
        ("woman red " * 20, ""),
    ],
)
def test_a_part_of_one_option_stands_for_it(text: str, label: str) -> None:
    assert short_for(text, options_of(LABELS, PEOPLE).pairs) == label


def test_options_of_which_one_is_within_another_are_not_found_in_other_wording() -> None:
    options = ("The cat on the table", "The cat under the table", "The table", "The cat on the table by the door")
    assert [name.label for name in options_of(LABELS, options).loose] == ["B", "D"]


FORMED = ("The car is behind the tree.", "The car is in front of the tree.", "The car is on the tree.")


@pytest.mark.parametrize(
    ("text", "options", "label"),
    [
        ("behind", FORMED, "A"),
        ("It is in front.", FORMED, "B"),
        ("The tree is behind the car.", FORMED, ""),
        ("behind or in front", FORMED, ""),
        ("Yes", ("Yes, both are red.", "No, only one is red."), "A"),
        ("only one is red", ("Yes, both are red.", "No, only one is red."), "B"),
        ("4", ("two", "three", "four"), "C"),
        ("There are 3 birds.", ("There are two birds.", "There are three birds."), "B"),
        ("brown and white", ("brown", "black", "gray"), ""),
        ("white and brown", ("brown", "black", "brown and white"), "C"),
        ("10 - 12", ("5", "10", "12"), ""),
        ("between 10 and 12", ("5-10", "10-12", "12-15"), "B"),
        ("Angle C is right.", ("30", "60", "90"), ""),
        ("3rd option", ("red", "green", "blue"), "C"),
        ("The second one.", ("red", "green", "blue"), "B"),
    ],
)
def test_options_of_one_form_are_named_by_what_differs(text: str, options: tuple[str, ...], label: str) -> None:
    assert read_choice(text, LABELS[: len(options)], options).value == label
