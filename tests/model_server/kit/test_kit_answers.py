"""Answers of a kit's model that are none."""

from __future__ import annotations

from typing import Any

import pytest

from lyncean.rpc import CallError
from model_server.kit.backend import KitBackend
from model_server.kit.model import Model, Request
from model_server.metrics import Metrics


class Forgetful(Model):
    """Returns what it is made with."""

    name = "forgetful"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def generate(self, request: Request) -> str:
        answer: str = self.answer
        return answer


@pytest.mark.parametrize(("answer", "kind"), [(None, "NoneType"), (7, "int"), (["A"], "list")])
async def test_an_answer_that_is_no_text_is_named(served: Any, ask: Any, answer: object, kind: str) -> None:
    async with served(KitBackend(Forgetful(answer), Metrics())) as server:
        with pytest.raises(CallError, match=f"the model returned {kind}, and not a text or an Output") as caught:
            await server.generate(ask("x"))
    assert (caught.value.code.name, caught.value.reason) == ("INTERNAL", "wrong_answer")
