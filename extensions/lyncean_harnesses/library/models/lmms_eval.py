"""`--model lyncean` of lmms-eval, found by its entry points."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.models.registry_v2 import ModelManifest
from tqdm import tqdm

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean_harnesses.library.models.client import SERVER_SIDE, Client, ModelError, text_of, user
from lyncean_harnesses.library.requests import LMMS_EVAL_TOKENS, ROLES, decoding, pieces, shown, without_clips

MANIFEST = ModelManifest(
    "lyncean",
    simple_class_path="lyncean_harnesses.library.models.lmms_eval.Simple",
    chat_class_path="lyncean_harnesses.library.models.lmms_eval.Chat",
)
"""Manifest that the entry point names; lmms-eval takes the chat model, or with `--force_simple` the simple one."""


class Simple(lmms):  # type: ignore[misc]
    """A ModelService, asked like lmms-eval's simple models: images, then the whole context; stop strings.

    lmms-eval scores continuations (`multiple_choice`, `loglikelihood`) with simple models only.

    Args:
        arguments: `endpoint=HOST:PORT`, and those of `Client.from_arguments`. Sizes of batches and the device are the
            server's own, and without effect.

    Raises:
        UserError: The arguments are wrong, or the server cannot be asked. On lmms-eval's command line one line and
            exit code 2: it would print a traceback and end with 0.
    """

    is_simple = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        arguments = {name: value for name, value in arguments.items() if name not in SERVER_SIDE}
        with _one_line():
            self._client = Client.from_arguments(arguments)
            self._client.describe()

    def generate_until(self, requests: list[Any]) -> list[Any]:
        """Returns the answer to each request.

        Raises:
            UserError: The model does not answer one of them.
        """
        calls = (self._generate(request.args) for request in requests)
        with _one_line(), tqdm(total=len(requests), disable=self.rank != 0, desc="Model Responding") as bar:
            return [_result(response) for response in self._client.ask(calls, bar.update)]

    def _generate(self, arguments: tuple[Any, ...]) -> model.GenerateRequest:
        context, settings, to_visual, doc_id, task, split = arguments
        visuals = without_clips(shown(to_visual(self.task_dict[task][split][doc_id])))
        config = decoding(settings, tokens=LMMS_EVAL_TOKENS, stops=True)
        return model.GenerateRequest(messages=[user([*visuals, context])], config=config)

    def loglikelihood(self, requests: list[Any]) -> list[Any]:
        """Returns the mean loss of each continuation's tokens, as lmms-eval's models do, and whether it is greedy.

        Neighbours with the same context and images are one call of Likelihood.

        Raises:
            UserError: The model does not score one of them.
        """
        groups = [list(group) for _, group in itertools.groupby(requests, key=_same)]

        def build() -> Iterator[tuple[list[model.Message], list[str]]]:
            for group in groups:
                context, _, *where = group[0].args
                to_visual, doc_id, task, split = where or (None, None, None, None)
                doc = self.task_dict[task][split][doc_id] if where else None
                visuals = without_clips(shown(to_visual(doc) if to_visual else None))
                after = [request.args[1] for request in group]
                yield (
                    [user([*visuals, context])],
                    [str(continuation(doc)) if callable(continuation) else continuation for continuation in after],
                )

        with _one_line(), tqdm(total=len(groups), disable=self.rank != 0, desc="Model Responding") as bar:
            responses = self._client.score(build(), bar.update)
        scores = [(-score.logprob / score.token_count, score.is_greedy) for score in responses]
        return [GenerationResult(text=score) for score in scores]  # 0.7.3 makes a string of a plain pair, and fails

    def generate_until_multi_round(self, requests: list[Any]) -> list[Any]:
        """Refuses: `orchestrator eval` asks in rounds.

        Raises:
            ModelError: Always.
        """
        with _one_line():
            raise ModelError("model lyncean does not answer tasks of several rounds (generate_until_multi_round)")


class Chat(Simple):
    """A ModelService, asked like lmms-eval's chat models: the task's messages, without its stop strings."""

    is_simple = False

    def _generate(self, arguments: tuple[Any, ...]) -> model.GenerateRequest:
        _, to_messages, settings, doc_id, task, split = arguments
        turns = to_messages(self.task_dict[task][split][doc_id])
        messages = [user(list(without_clips(pieces(turn["content"]))), ROLES[turn["role"]]) for turn in turns]
        return model.GenerateRequest(messages=messages, config=decoding(settings, tokens=LMMS_EVAL_TOKENS, stops=False))


def _same(request: Any) -> tuple[Any, ...]:
    """Returns the key of requests that can share one call."""
    context, _, *where = request.args
    return (request.task_name, request.doc_id, context, bool(where))


def _result(response: model.GenerateResponse) -> Any:
    usage = response.usage
    counts = TokenCounts(usage.input_tokens, usage.output_tokens, usage.reasoning_tokens)
    return GenerationResult(text=text_of(response), token_counts=counts)


@contextmanager
def _one_line() -> Iterator[None]:
    """Prints an error in one line and ends lmms-eval's command line; re-raises it in other programs."""
    try:
        yield
    except UserError as error:
        program = getattr(sys.modules["__main__"], "__spec__", None)
        if "lmms_eval.__main__" not in sys.modules and (program is None or not program.name.startswith("lmms_eval")):
            raise
        print(f"lyncean: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
