"""The conformance kit tells a server's fault from a defect of a check."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.conformance_mutants import Whole, broken, served

from lyncean.model.v1 import model_pb2 as model
from orchestrator.conformance import Status, judge
from orchestrator.conformance.check import RUNS
from orchestrator.conformance.server import Server

_NO_NUMBER = 99


async def judged(server: type[Whole], name: str) -> tuple[Status, str]:
    async with served(server) as address:
        ((status, detail),) = [(one.status, one.detail) async for one in judge(address, timeout=10.0, only=[name])]
    return status, detail


def ended_otherwise(_: Any, response: model.GenerateResponse) -> None:
    response.finish_reason = _NO_NUMBER  # type: ignore[assignment]


def other_scores(_: Any, response: model.LikelihoodResponse) -> None:
    del response.scores[1:]
    response.scores.add()
    response.scores.add()


def unscored_ids(request: model.LikelihoodRequest, response: model.LikelihoodResponse) -> None:
    if request.raw_prompt.tokens.ids:
        response.ClearField("prompt_tokens")


@pytest.mark.parametrize(
    ("server", "name", "detail"),
    [
        (broken(said=ended_otherwise), "output_limit_holds", "an output cut at 2 tokens ends with 99"),
        (broken(said=ended_otherwise), "stop_strings_end_the_output", "with 99"),
        (broken(scored=other_scores), "scores_stand_behind_the_beginning", "1 continuations were sent and 3 scores"),
        (broken(scored=unscored_ids), "raw_prompts_are_scored", "tokens are 0 when sent"),
    ],
)
async def test_a_response_that_a_check_does_not_expect_is_the_servers_fault(
    server: type[Whole], name: str, detail: str
) -> None:
    status, text = await judged(server, name)
    assert (status, detail in text) == (Status.FAILED, True), text


async def test_a_defect_of_a_check_is_not_the_servers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def defective(_: Server) -> str:
        return str(int("a defect"))

    monkeypatch.setitem(RUNS, "info_names_the_model", defective)
    with pytest.raises(ValueError, match="a defect"):
        await judged(Whole, "info_names_the_model")
