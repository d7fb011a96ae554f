"""Reading only the end of an answer has the same result as reading all of it."""

from __future__ import annotations

import json
import random

import pytest
from helpers.corpus import CORPUS, cases, request_of

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.reading import answer, resolve
from scorer.rules import rules

CASES = [case for path in sorted(CORPUS.glob("blind*.jsonl")) for case in cases(path)]


def joined(times: int, size: int) -> list[pb.ScoreRequest]:
    """Returns requests with texts of at least `size`, joined from answers to one question."""
    pools: dict[str, list[dict[str, object]]] = {}
    for case in CASES:
        if case["rule"].startswith("choice"):
            pools.setdefault(json.dumps([case["rule"], case["options"], case["params"]]), []).append(case)
    pick = random.Random(11)
    requests = []
    for _ in range(times):
        pool = pick.choice([pool for pool in pools.values() if len(pool) > 3])
        text = ""
        while len(text) < size:
            text += f"{pick.choice(pool)['text']}{pick.choice([' ', '. ', chr(10)])}"
        requests.append(request_of({**pool[0], "text": text, "case": f"joined {len(requests)}"}))
    return requests


def read(request: pb.ScoreRequest) -> pb.Verdict:
    return rules().get(request.rule).read(request)


def read_otherwise(requests: list[pb.ScoreRequest], verdicts: list[pb.Verdict]) -> str:
    """Returns the cases whose verdict has changed, one per line."""
    pairs = zip(requests, verdicts, strict=True)
    return "\n".join(f"{request.key}: {request.text!r}" for request, verdict in pairs if read(request) != verdict)


def test_a_statement_that_decides_alone_is_the_reading_of_all_text(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request_of(case) for case in CASES] + joined(600, 120)
    early = [read(request) for request in requests]
    alone = []
    stated_last = resolve._stated_last
    monkeypatch.setattr(resolve, "_stated_last", lambda *args: alone.append(stated_last(*args)))
    assert not read_otherwise(requests, early)
    assert sum(reading is not None for reading in alone) > 1000


def test_the_end_of_a_long_answer_is_read_like_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = joined(300, 1600)
    short = [read(request) for request in requests]
    used = []
    read_end = answer.read_end
    monkeypatch.setattr(answer, "read_end", lambda *args: used.append(read_end(*args)) or used[-1])
    assert not read_otherwise(requests, short)
    assert sum(reading is not None for reading in used) > 20
    monkeypatch.setattr(answer, "END", 10**9)
    assert not read_otherwise(requests, short)
