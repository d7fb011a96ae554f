import pytest
from hypothesis import given, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules.contains_word import RULE, canonical


def read(text, *targets):
    return RULE.read(pb.ScoreRequest(key="k", text=text, targets=targets))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("The sign says STOP.", "stop"),
        ("It reads 'Don’t Walk'", "DONT WALK"),
        ("co op", "co-op"),
        ("EXIT/ENTRY", "exit"),
        ("price: $12.50!", "$12.50"),
        ("50 % off", "50%"),
        ("fifty, i.e. 50 percent", "50%"),
        ("It says\nNo\nParking", "no parking"),
        ("ＦＵＬＬ", "full"),
        ("it is %", "%"),
    ],
)
def test_found(text, target):
    assert read(text, target).score == 1


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("stopping", "stop"),
        ("12.50", "12"),
        ("12.50", "50"),
        ("1250", "12.50"),
        ("12 50", "12.50"),
        ("50", "50%"),
        ("cafe", "café"),
        ("a_b1", "b"),
        ("", "x"),
        ("x", "%"),
    ],
)
def test_not_found(text, target):
    verdict = read(text, target)
    assert (verdict.outcome, verdict.score) == ("scored", 0)


def test_any_target_is_right_and_the_place_is_told():
    verdict = read("It says Open.", "closed", "OPEN")
    assert (verdict.score, verdict.extracted) == (1, "Open")
    assert (verdict.span.start, verdict.span.end) == (8, 12)


def test_declining_is_its_own_outcome_unless_the_word_is_there():
    assert read("I'm sorry, but I can't help with that.", "stop").outcome == "refused"
    assert read("I'm sorry, but I can't help you to stop.", "stop").score == 1
    assert read("I cannot tell what it says.", "stop").outcome == "scored"


def test_blank_target_never_matches():
    assert read("anything", " ").reason == "empty_target"
    with pytest.raises(RequestError):
        read("anything")


@given(st.text(min_size=1).filter(lambda target: canonical(target).strip()))
def test_every_target_is_found_in_itself(target):
    assert read(target, target).score == 1


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_any_text_gets_a_verdict(text, targets):
    assert read(text, *targets).score in (0, 1)
