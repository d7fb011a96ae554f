"""Reading only the end of a long answer, where that states one, reads what reading all of it does."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from test_rule_corpus import request_of

from scorer.reading import answer
from scorer.rules import rules

BLIND = Path(__file__).parent / "corpus" / "blind.jsonl"
CASES = [json.loads(line) for line in BLIND.read_text("utf-8").splitlines()]


def test_the_end_of_a_long_answer_is_read_as_the_whole_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: dict[str, list[dict[str, object]]] = {}
    for case in CASES:
        if case["rule"].startswith("choice"):
            pools.setdefault(json.dumps([case["rule"], case["options"], case["params"]]), []).append(case)
    pick = random.Random(11)
    requests = []
    for _ in range(300):
        pool = pick.choice([cases for cases in pools.values() if len(cases) > 3])
        text = ""
        while len(text) < 1600:
            text += f"{pick.choice(pool)['text']}{pick.choice([' ', '. ', chr(10)])}"
        requests.append(request_of({**pool[0], "text": text}))
    short = [rules().get(request.rule).read(request) for request in requests]
    used = []
    read_end = answer.read_end
    monkeypatch.setattr(answer, "read_end", lambda *args: used.append(read_end(*args)) or used[-1])
    assert [rules().get(request.rule).read(request) for request in requests] == short
    assert sum(reading is not None for reading in used) > 20
    monkeypatch.setattr(answer, "END", 10**9)
    assert [rules().get(request.rule).read(request) for request in requests] == short
