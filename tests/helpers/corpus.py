"""The published corpus of answers, and the request that each case makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.reading import reasoning

CORPUS = Path(__file__).parents[1] / "scorer" / "corpus"
CASES = {
    path.stem: [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for path in CORPUS.glob("*.jsonl")
    if not path.stem.startswith("blind")
}
OUTCOMES = ("unparsed", "refused")


def request_of(case: dict[str, Any]) -> pb.ScoreRequest:
    target = case["expected"]
    if target in OUTCOMES:
        labels = case["params"].get("labels") if case["rule"] == "choice" else None
        target = {"choice": (labels or ["A"])[0], "choice_number": "1", "count": "1"}.get(case["rule"]) or case[
            "options"
        ][0]
    text = reasoning.split(case["text"]).answer
    request = pb.ScoreRequest(key="k", rule=case["rule"], text=text, options=case["options"], targets=[target])
    request.params.update(case["params"])
    return request
