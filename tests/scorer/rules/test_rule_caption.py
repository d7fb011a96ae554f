import pytest

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules.caption import RULE, rouge_l


def test_caption_is_the_whole_answer():
    verdict = RULE.read(pb.ScoreRequest(key="k", text="a red  bus", targets=["a red bus", "a bus"]))
    assert (verdict.outcome, verdict.extracted) == ("scored", "a red  bus")
    assert 0 < verdict.score < 1
    with pytest.raises(RequestError, match="reference"):
        RULE.read(pb.ScoreRequest(key="k", text="a bus"))


def test_rouge_agrees_with_the_library():
    rouge = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge()
    for caption, references in [
        ("a man on a bike", ["a man riding a bike ", "two men"]),
        ("x", ["y z"]),
        ("a  b", ["a b", "b a"]),
        ("", ["a"]),
    ]:
        assert rouge_l(caption, references) == pytest.approx(rouge.calc_score([caption], references), abs=1e-12)
