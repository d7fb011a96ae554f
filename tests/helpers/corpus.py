"""The published corpus of answers, and the request that each case makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.reading import reasoning
from scorer.rules import rules

CORPUS = Path(__file__).parents[1] / "scorer" / "corpus"


def cases(path: Path) -> list[dict[str, Any]]:
    """Reads a file of cases; each has its place as "case": `choice.jsonl:12`."""
    lines = path.read_text("utf-8").splitlines()
    return [{**json.loads(line), "case": f"{path.name}:{number}"} for number, line in enumerate(lines, 1)]


CASES = {path.stem: cases(path) for path in CORPUS.glob("*.jsonl") if not path.stem.startswith("blind")}
OUTCOMES = ("unparsed", "refused")


def request_of(case: dict[str, Any]) -> pb.ScoreRequest:
    target = case["expected"]
    if target in OUTCOMES:
        labels = case["params"].get("labels") if case["rule"] == "choice" else None
        target = {"choice": (labels or ["A"])[0], "choice_number": "1", "count": "1"}.get(case["rule"]) or case[
            "options"
        ][0]
    text = reasoning.split(case["text"]).answer
    request = pb.ScoreRequest(key=case["case"], rule=case["rule"], text=text, options=case["options"], targets=[target])
    request.params.update(case["params"])
    request.cut = bool(case.get("cut"))
    return request


@contextmanager
def named(case: dict[str, Any]) -> Iterator[None]:
    """Adds the place of a case and its text to what fails in the block."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{case['case']}: {case['text']!r}")
        raise


def verdict_of(case: dict[str, Any]) -> pb.Verdict:
    with named(case):
        return rules().get(case["rule"]).read(request_of(case))
