"""Duties of every rule towards the service, for any input."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.rules import rules
from scorer.scoring import Scorer

REGISTRY = rules()
SCORER = Scorer(REGISTRY)
WORDS = "A (B) C. answer is not the one two 3 1/2 cat yes $12.50 <think> </think> ** \\boxed{D} cannot 選択肢 Ｂ é 🙂"
vocabulary = st.sampled_from([*WORDS.split(), "\n", "\x00", "I'm sorry"])
texts = st.lists(vocabulary, max_size=12).map(" ".join) | st.text(max_size=60)
SETS = [
    (["A"], ["cat", "dog", "one", "two"]),
    (["2"], ["1", "2", "3", "4"]),
    (["cat"], ["cat", "dog"]),
    (["yes"], ["yes", "no"]),
    (["0"], ["a cat", "a dog"]),
    (["7"], []),
    (["$12.50", "12"], []),
    (["number = one subject = cats action = running"], []),
    ([""], [""]),
    ([], ["a", "b"]),
]


def gives_a_verdict_or_names_a_defect(name: str, text: str, pair: tuple[list[str], list[str]]) -> None:
    request = pb.ScoreRequest(key="k", rule=name, text=text, targets=pair[0], options=pair[1])
    before = request.SerializeToString(deterministic=True)
    try:
        session = SCORER.begin(request)
    except RequestError as error:
        named = str(error)
        assert "'k'" in named
        assert "\n" not in named
        return
    assert isinstance(session, pb.Verdict)
    assert request.SerializeToString(deterministic=True) == before, "the request was changed"
    assert session == SCORER.begin(request), "two verdicts of one request"
    assert session.key == "k"
    assert session.outcome in ("scored", "unparsed", "refused")
    assert session.HasField("score")
    assert math.isfinite(session.score)
    assert all(math.isfinite(part) for part in session.scores.values())
    if session.outcome != "scored":
        assert session.score == 0.0
        assert session.reason
        # A reference's own measures may need the answer that it could not read.
        assert not session.extracted or REGISTRY.get(name).parity
    if session.HasField("span"):
        assert 0 <= session.span.start <= session.span.end <= len(text)


def refuses_an_unknown_parameter(name: str) -> None:
    request = pb.ScoreRequest(key="k", rule=name, text="A", targets=["A"])
    request.params.update({"no_such_parameter": 1})
    with pytest.raises(RequestError, match="no_such_parameter"):
        SCORER.begin(request)
