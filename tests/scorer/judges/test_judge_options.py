"""The judge that options open: its endpoint, and the identity under which replies are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.judge_server import JudgeServer, Vendor

from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.judges.base import VENDOR
from scorer.judges.options import Judging, Opened
from scorer.rules import rules
from scorer.scoring import Scorer


def opened(spec: str, **settings: Any) -> Opened:
    judges = Judging(specs=(spec,), key="k3y", **settings).open()
    assert judges
    return judges


@pytest.mark.parametrize("kind", ["openai", "batch"])
async def test_the_environments_address_is_part_of_who_is_asked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def known(spec: str) -> tuple[str, list[str]]:
        judges = opened(spec)
        identity = judges.judge.identity, judges.names
        await judges.close()
        return identity

    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    vendors = await known(f"{kind}:gpt")
    # Kept replies were paid for, and are found by this exact identity.
    assert vendors[0] == '{"endpoint":"default","model":"gpt","seed":20250101,"temperature":0}'
    named = await known(f"{kind}:gpt@http://localhost:8000/v1")
    assert json.loads(named[0])["endpoint"] == "http://localhost:8000/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    assert await known(f"{kind}:gpt") == named
    assert await known(f"{kind}:gpt@http://other/v1") != named
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:s3cret@localhost:8000/v1")
    assert (await known(f"{kind}:gpt"))[0] == named[0]
    assert "s3cret" not in str(await known(f"{kind}:gpt"))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{VENDOR}/")
    assert await known(f"{kind}:gpt") == vendors


async def test_the_environments_address_is_where_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with JudgeServer(Vendor(lambda _: {"explanation": "because", "correct": True})) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        judges = opened("openai:gpt")
        request = pb.ScoreRequest(key="a", rule="judge_answer", text="blue", targets=["blue"])
        try:
            verdict = await Scorer(rules(), judges.judge).verdict(request)
        finally:
            await judges.close()
    assert verdict.judge.model == "gpt-2026"
