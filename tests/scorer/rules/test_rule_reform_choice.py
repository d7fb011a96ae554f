import pytest
from hypothesis import given, strategies as st

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules.reform_choice import RULE

OPTIONS = ["yes", "no", "maybe"]


def ask(text="", target="0", options=OPTIONS, scores=(), **params):
    request = pb.ScoreRequest(key="k", targets=[target], options=options, text=text)
    request.params.update(params)
    request.scores.extend(model.ContinuationScore(logprob=value, token_count=count) for value, count in scores)
    return RULE.read(request)


@pytest.mark.parametrize(
    ("text", "target", "score", "extracted"),
    [
        ("(A) yes", "0", 1, "yes"),
        ("The answer is (b).", "1", 1, "no"),
        ("(3)", "2", 1, "maybe"),
        ("(1) or (B)", "1", 0, "yes"),
        ("see (x) then (A)", "0", 0, "see (x) then (A)"),
    ],
)
def test_first_mark_decides(text, target, score, extracted):
    verdict = ask(text, target)
    assert (verdict.outcome, verdict.score, verdict.extracted) == ("scored", score, extracted)
    assert verdict.scores["format_hit"] == 1


@pytest.mark.parametrize("text", ["A", "yes", "(0)", "(10)", "( A )", "（A）", "(Ä)", "(AB)", "[A]", "(A"])
def test_everything_else_misses_the_format(text):
    verdict = ask(text)
    assert (verdict.outcome, verdict.score, verdict.scores["format_hit"]) == ("unparsed", 0, 0)


def test_mark_beyond_the_options_is_a_hit_that_scores_nothing():
    verdict = ask("(Z)", "0")
    assert (verdict.score, verdict.scores["format_hit"], verdict.scores["index"]) == (0, 1, 25)
    assert verdict.reason == "out_of_range"


def test_equal_option_counts_only_where_asked_for():
    assert ask("no", "1").outcome == "unparsed"
    assert ask("no", "1", use_options=True).score == 1
    assert ask("No", "1", use_options=True).outcome == "unparsed"
    assert ask("no", "0", options=["no", "no"], use_options=True).scores["index"] == 0


def test_predicted_index():
    assert ask("1", "1", infer="likelihood").score == 1
    assert ask("-1", "2", infer="likelihood").score == 0
    assert ask("-1", "2", infer="likelihood").extracted == "maybe"
    with pytest.raises(RequestError, match="decimal"):
        ask("(A)", "1", infer="likelihood")


def test_scores_are_losses_summed_or_averaged():
    scores = [(-4.0, 1), (-6.0, 3), (-9.0, 1)]
    assert ask(scores=scores).scores["index"] == 0
    assert ask(scores=scores, reduction="mean").scores["index"] == 1
    with pytest.raises(RequestError, match="sum or mean"):
        ask(scores=scores, reduction="none")


def test_a_servers_broken_numbers_are_its_own_failure():
    assert ask(scores=[(float("nan"), 1), (-1.0, 1)]).reason == "invalid_scores"
    assert ask(scores=[(-2.0, 0), (-1.0, 1)]).outcome == "unparsed"


def test_a_target_may_be_a_mark():
    assert ask("(B)", "(b)").score == 1
    assert ask("(A)", "(2)").score == 0
    doubles = pb.ScoreRequest(key="k", text="(C)", targets=["(A)", "(C)"], options=["x", "y", "x"])
    assert RULE.read(doubles).score == 0


def test_defects_are_named():
    with pytest.raises(RequestError, match="targets"):
        ask("(A)", "yes")
    with pytest.raises(RequestError, match="one target"):
        RULE.read(pb.ScoreRequest(key="k", text="(A)"))


@given(st.text(), st.sampled_from("ABCabc123"), st.text(alphabet="xyz ,."))
def test_mark_is_found_wherever_it_stands(before, mark, after):
    before = before.replace("(", "")
    verdict = ask(f"{before}({mark}){after}", "0")
    assert verdict.scores["index"] == {"a": 0, "b": 1, "c": 2, "1": 0, "2": 1, "3": 2}[mark.lower()]
