import pytest
from hypothesis import given, strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules.reform_kie import RULE as KIE, normalise
from scorer.rules.reform_ocr import RULE as OCR


def ocr(text, *targets):
    return OCR.read(pb.ScoreRequest(key="k", text=text, targets=targets)).score


def kie(text, *targets):
    return KIE.read(pb.ScoreRequest(key="k", text=text, targets=targets)).score


@pytest.mark.parametrize(
    ("text", "targets", "score"),
    [
        ("The sign says STOP!", ["stop"], 1),
        ("stopping", ["stop"], 0),
        ("it is $12.50", ["1250"], 1),
        ("exit only", ["EXIT", "ONLY"], 1),
        ("exit", ["EXIT", "ONLY"], 0),
        ("caf", ["café"], 1),
        ("anything", ["!!!"], 1),
        ("...", ["!!!"], 0),
        ("a  b", ["a b"], 0),
    ],
)
def test_ocr(text, targets, score):
    assert ocr(text, *targets) == score


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("The  Quick\tone\nTEN", "quick 1 10"),
        ("none of an apple", "0 of apple"),
        ("a-b", "b"),
        ("a - b", "b"),
        ("x-y", "x y"),
        ("x -y-z", "x yz"),
        ("1,000 x/y", "1000 xy"),
        ("end. of 3.5 v1.", "end of 3.5 v1"),
        (". " * 33 + "z", ". z"),
        ("dont Im youdve shes couldn'tve", "don't im youdve shes couldn't've"),
        ("It's $12.50", "it's $12.50"),
    ],
)
def test_kie_normalisation(raw, cleaned):
    assert normalise(raw) == cleaned


def test_kie_verdicts():
    assert kie("the total is 4111.", "4111") == 1
    assert kie("b", "a", "b") == 1
    assert kie("$12.50", "$12.50") == 0
    assert kie("50%", "50%") == 0
    assert kie("word", "the") == 1
    assert kie("", "the") == 0


@pytest.mark.parametrize("rule", [OCR, KIE])
def test_without_target_is_a_defect(rule):
    with pytest.raises(RequestError, match="target"):
        rule.read(pb.ScoreRequest(key="k", text="x"))


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_any_text_gets_a_verdict(text, targets):
    assert ocr(text, *targets) in (0, 1)
    assert kie(text, *targets) in (0, 1)
