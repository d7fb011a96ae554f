"""The 19 rules: their spaces, indices, texts, and the published rows."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import product
from math import prod

import pytest
from helpers.bench_scoring import shared_data
from hypothesis import given, strategies as st

from orchestrator.benchmarks.voila.rules import ALL, ANY, ND_RULES, QUADS, RULES, Space, Spec, hidden_values, recognise
from orchestrator.benchmarks.voila.sampling import Permutation, SpaceError, draw, draw_balanced, shares
from orchestrator.benchmarks.voila.texts import (
    SPECS,
    combined_description,
    describe,
    file_prefix,
    read_combined,
    read_description,
    relations,
    wanted_image,
)

SPACES = {
    1: ("S S C", 340_704, 340_704),
    2: ("D S C", 170_352, 170_352),
    3: ("S D C", 57_238_272, 4_088_448),
    4: ("D D C", 28_619_136, 2_044_224),
    5: ("S C S", 340_704, 340_704),
    6: ("D C S", 170_352, 170_352),
    7: ("S C D", 48_720_672, 3_747_744),
    8: ("D C D", 24_360_336, 1_873_872),
    9: ("A S S", 794_976, 794_976),
    10: ("A D S", 133_555_968, 9_539_712),
    11: ("A S D", 113_681_568, 8_744_736),
    12: ("A D D", 19_098_503_424, 104_936_832),
    13: ("S C C", 340_704, 340_704),
    14: ("D C C", 170_352, 170_352),
    15: ("A C S", 794_976, 794_976),
    16: ("A C D", 113_681_568, 8_744_736),
    17: ("A S C", 794_976, 794_976),
    18: ("A D C", 133_555_968, 9_539_712),
    19: ("A' C C", 454_272, 454_272),
}


def full_space(rule):
    """Counts questions with every fourth image that "any" allows, as the paper does."""
    hidden = [len(hidden_values(prop, QUADS[prop]["D"][0])) for prop, kind in rule.kinds.items() if kind == "D"]
    return rule.space * prod(hidden)


@pytest.mark.parametrize("number", SPACES)
def test_space(number):
    rule = RULES[number]
    assert (" ".join(rule.kinds.values()), full_space(rule), rule.space) == SPACES[number]


def test_totals():
    assert sum(full_space(rule) for rule in RULES.values()) == 19_756_289_280
    assert ALL.size == 157_632_384
    assert Space(ND_RULES).size == 3_861_312
    assert ND_RULES == (1, 5, 9, 13, 15, 17, 19)


def test_quads():
    sizes = {(prop, kind): len(quads) for prop, kinds in QUADS.items() for kind, quads in kinds.items()}
    assert sizes == {
        **{("number", "S"): 12, ("number", "A"): 28, ("number", "A'"): 16, ("number", "D"): 6},
        **{("subject", "S"): 182, ("subject", "C"): 182, ("subject", "D"): 2184},
        **{("action", "S"): 156, ("action", "C"): 156, ("action", "D"): 1716},
    }
    assert Counter(quad[1] - quad[0] for quad in QUADS["number"]["A"]) == {-3: 1, -2: 4, -1: 9, 1: 9, 2: 4, 3: 1}
    assert Counter(quad[1] - quad[0] for quad in QUADS["number"]["A'"]) == {-2: 2, -1: 6, 1: 6, 2: 2}
    named = {tuple(value + 1 for value in quad[:3]) for quad in QUADS["number"]["D"]}
    assert named == {(4, 1, 2), (4, 1, 3), (4, 2, 1), (4, 3, 1), (3, 1, 2), (3, 2, 1)}
    hidden = {quad[:3]: hidden_values("number", quad) for quad in QUADS["number"]["D"]}
    assert all(len(values) == 1 and values[0] != 0 for values in hidden.values())


def test_visible_triples_of_kinds_are_disjoint():
    for kinds in QUADS.values():
        triples = Counter(quad[:3] for kind, quads in kinds.items() if kind != "A'" for quad in quads)
        assert set(triples.values()) == {1}


@given(st.integers(0, ALL.size - 1))
def test_every_question_has_one_position_and_is_recognised(position):
    question = ALL.question(position)
    assert ALL.position(question) == position
    assert recognise(*question.images) == question
    assert read_combined(combined_description(question)) == question.images
    assert len(set(question.images)) == 3
    if question.rule in ND_RULES:
        assert question.answer not in question.images
        assert ANY not in question.answer
    assert [value == ANY for value in question.answer] == [kind == "D" for kind in RULES[question.rule].kinds.values()]


def test_a_whole_rule_has_no_question_twice():
    rule = RULES[6]
    assert len({rule.question(index)[1] for index in range(rule.space)}) == rule.space


def test_beyond_the_space():
    with pytest.raises(IndexError, match="rule 2 has 170,352 questions"):
        RULES[2].question(170_352)
    with pytest.raises(IndexError, match="157,632,384"):
        ALL.question(ALL.size)


@given(st.tuples(*[st.sampled_from(SPECS)] * 3))
def test_three_images_without_a_rule_are_no_question(specs):
    question = recognise(*specs)
    assert question is None or question.images == specs


def test_rule_19_does_not_repeat_image_1():
    assert recognise(Spec(0, 1, 2), Spec(1, 3, 4), Spec(0, 1, 2)) is None


def test_texts():
    one, two = Spec(0, 2, 10), Spec(1, 2, 12)
    assert (describe(one), describe(two)) == ("one woman reading", "two women eating food")
    assert describe(Spec(ANY, 7, 3)) == "any foxes walking"
    assert describe(Spec(0, ANY, ANY)) == "one any any"
    assert wanted_image(Spec(ANY, 7, ANY)) == "foxes"
    assert wanted_image(Spec(1, ANY, 1)) == "two driving a car"
    assert file_prefix(Spec(3, 11, 2)) == "four_male children_ice-skating_"
    question = recognise(one, two, Spec(1, 5, 10))
    assert question.rule == 17
    assert relations(question) == (
        "Number is changed from one to two. Action is changed from reading to eating food. "
        "Subject type remains constant woman. "
    )


def test_descriptions_are_read_back():
    assert len({describe(spec) for spec in SPECS}) == len(SPECS) == 728
    assert all(read_description(describe(spec)) == spec for spec in SPECS)
    assert read_description("two woman reading") is None
    code = "Image 1:one man reading. Image 2:one man walking. Image 3:two cats reading"
    assert read_combined(code) == (Spec(0, 1, 10), Spec(0, 1, 3), Spec(1, 5, 10))
    assert read_combined("Image 1: one man reading. Image 3: one man walking. Image 2: two cats reading") is None


def test_the_published_rows_agree_in_every_column():
    table = shared_data("voila", "VOILA_ND_Testing_No_Distraction_LLM_3.6K.csv")
    with table.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    numbers = set()
    for row in rows:
        question = recognise(*(read_description(row[f"desc_img{image}"]) for image in (1, 2, 3)))
        answer = describe(question.answer)
        number = int(row["question"].removeprefix("image_questions_").removesuffix(".png"))
        numbers.add(number)
        assert {
            "rule": str(question.rule),
            "img4": wanted_image(question.answer),
            "desc_im4": answer,
            "combined_description": combined_description(question),
            "Real_relations": relations(question),
        }.items() <= row.items()
        assert (question.rule - 1) * 527 < number <= question.rule * 527
        for image, spec in enumerate(question.images, 1):
            assert row[f"desc_img{image}"] == describe(spec)
            assert row[f"img{image}"].startswith(file_prefix(spec))
    assert len(rows) == len(numbers) == 3689


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 1000, 4096, 4097])
@pytest.mark.parametrize("seed", ["a", "b"])
def test_permutation(size, seed):
    permuted = Permutation(size, seed)(range(size)).tolist()
    assert sorted(permuted) == list(range(size))


@given(st.integers(1, 1 << 40), st.integers(0, 100), st.data())
def test_permutation_of_any_size(size, seed, data):
    places = data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=20))
    permutation = Permutation(size, str(seed))
    permuted = [int(permutation(position)[0]) for position in places]
    assert len(set(permuted)) == len(places)
    assert all(0 <= value < size for value in permuted)
    assert permutation(places).tolist() == permuted


def test_draws_are_spread_over_the_space():
    drawn = [RULES[12].index(question) for question in draw(12, 4000, 7)]
    assert len(set(drawn)) == 4000
    tenths = Counter(index * 10 // RULES[12].space for index in drawn)
    assert all(300 < tenths[tenth] < 500 for tenth in range(10))
    assert [RULES[12].index(q) for q in draw(12, 10, 7)] == drawn[:10]
    assert [RULES[12].index(q) for q in draw(12, 10, 8)] != drawn[:10]


def test_balanced_draw_takes_rules_in_turn():
    questions = draw_balanced(ND_RULES, 1)
    assert [next(questions).rule for _ in range(14)] == [*ND_RULES, *ND_RULES]


def test_shares():
    assert list(shares(ND_RULES, 3600).values()) == [515, 515, 514, 514, 514, 514, 514]
    assert list(shares(ND_RULES, 3).values()) == [1, 1, 1, 0, 0, 0, 0]
    assert sum(shares(tuple(RULES), 19 * 170_352).values()) == 3_236_688
    with pytest.raises(SpaceError, match=r"rule 2 has 170,352 .* asks it for 170,353; at most 3,236,688"):
        shares(tuple(RULES), 19 * 170_352 + 2)
    with pytest.raises(SpaceError, match="at most 2,384,928"):
        shares(ND_RULES, 7 * 340_704 + 1)


def test_arithmetic_kind_is_complete():
    expected = {(a, b, c, c + b - a) for a, b, c in product(range(4), repeat=3) if b != a and 0 <= c + b - a < 4}
    assert set(QUADS["number"]["A"]) == expected
