import pytest
from hypothesis import example, given, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.rules.contains_word import canonical
from scorer.rules.key_information import RULE


def score(text, *targets):
    return RULE.read(pb.ScoreRequest(key="k", text=text, targets=targets)).score


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("$12.50", "$12.50"),
        ("The total is 12.50.", "$12.50"),
        ("50%", "50%"),
        ("1,000 units", "1000"),
        ("three pages", "3"),
        (
            "Piedmont Research Laboratory, 2748 Patterson Ave Greensboro",
            "Piedmont Research Laboratory 2748 Patterson Ave., Greensboro,",
        ),
        ("acme company", "The Acme Company"),
        ("#42 & sons", "#42 & sons"),
    ],
)
def test_found(text, target):
    assert score(text, target) == 1


@pytest.mark.parametrize(
    ("text", "target"), [("112.50", "12.50"), ("12.5", "12.50"), ("mcdonalds", "Acme"), ("1000", "1,0000")]
)
def test_not_found(text, target):
    assert score(text, target) == 0


@given(st.text(min_size=1))
@example("\xad")
@example("the\xad")
def test_every_value_is_found_in_itself(value):
    # Nothing is left to search of articles and invisible signs.
    is_empty = set(canonical(value).lower().split()) <= {"a", "an", "the"}
    assert score(value, value) in ((0, 1) if is_empty else (1,))
