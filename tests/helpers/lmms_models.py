"""Models of lmms-eval that ask a ModelService, for its own command line: `--model_args endpoint=HOST:PORT`."""

from __future__ import annotations

from typing import Any

from lmms_eval.api.instance import GenerationResult

from helpers.harness_theirs import Asking


class Chat(Asking):
    """Asks as its chat models do."""

    def __init__(self, endpoint: str, **_: Any) -> None:
        super().__init__(endpoint, simple=False)


class Simple(Asking):
    """Asks as its simple models do."""

    def __init__(self, endpoint: str, **_: Any) -> None:
        super().__init__(endpoint, simple=True)

    def loglikelihood(self, requests: list[Any]) -> list[Any]:
        """Answers each request by Likelihood; 0.7.3 makes a string of a plain pair."""
        return [GenerationResult(text=pair) for pair in super().loglikelihood(requests)]
