"""`--model lyncean` of lm-evaluation-harness, which has no entry points for models.

From Python, `import lyncean_harnesses.library.models.lm_eval` registers the model. `lyncean-lm-eval` is its own
command line with the model registered.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from tqdm import tqdm

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean_harnesses.library.models.client import SERVER_SIDE, Client, ModelError, text_of, user
from lyncean_harnesses.library.requests import (
    LM_EVAL_TOKENS,
    PLACEHOLDER,
    ROLES,
    NotAskableError,
    decoding,
    interleaved,
    shown,
    without_clips,
)


class _Chat(str):
    """A conversation in JSON, which lm-evaluation-harness treats as a rendered prompt."""

    __slots__ = ()


@register_model("lyncean")
class Lyncean(LM):  # type: ignore[misc]
    """A ModelService: generation and log-likelihood, with images.

    Args:
        arguments: `endpoint=HOST:PORT`, and those of `Client.from_arguments`. Sizes of batches and the device are the
            server's own, and without effect.

    Raises:
        UserError: The arguments are wrong, or the server cannot be asked.
    """

    MULTIMODAL = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        arguments = {name: value for name, value in arguments.items() if name not in SERVER_SIDE}
        self._client = Client.from_arguments(arguments)
        self._info = self._client.describe()

    def get_model_info(self) -> dict[str, str]:
        """Returns the description of the model that its results record."""
        info = self._info
        hashes = ("model_revision", "chat_template_sha256", "processor_sha256")
        names = ("model_name", *hashes, "compute_dtype", "server_version")
        return {f"lyncean_{name}": str(getattr(info, name)) for name in names}

    @property
    def tokenizer_name(self) -> str:
        """The identity of the chat template for lm-evaluation-harness' cache of requests."""
        return f"{self._info.model_name} {self._info.chat_template_sha256}"

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """Returns a conversation that the model server renders with its own template.

        Raises:
            ModelError: The task begins the answer (`gen_prefix`).
        """
        if not add_generation_prompt:
            raise ModelError("a task with a gen_prefix begins the model's answer, which ModelService cannot")
        return _Chat(json.dumps(chat_history))

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Returns the answer to each request.

        Raises:
            UserError: The model does not answer one of them.
        """

        def build() -> Iterator[model.GenerateRequest]:
            for context, settings, *more in (request.args for request in requests):
                config = decoding(settings, tokens=LM_EVAL_TOKENS, stops=True)
                yield model.GenerateRequest(messages=_messages(context, more), config=config)

        with tqdm(total=len(requests), disable=disable_tqdm, desc="Running generate_until requests") as bar:
            answers = [text_of(response) for response in self._client.ask(build(), bar.update)]
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("generate_until", request.args, answer)
        return answers

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Returns the log-probability of each continuation, and whether it is greedy.

        Neighbours with the same context and images are one call of Likelihood.

        Raises:
            UserError: The model does not score one of them.
        """
        groups = [list(group) for _, group in itertools.groupby(requests, key=_same)]

        def build() -> Iterator[tuple[list[model.Message], list[str]]]:
            for group in groups:
                context, _, *more = group[0].args
                yield _messages(context, more), [request.args[1] for request in group]

        with tqdm(total=len(groups), disable=disable_tqdm, desc="Running loglikelihood requests") as bar:
            responses = self._client.score(build(), bar.update)
        scores = [(score.logprob, score.is_greedy) for score in responses]
        for request, score in zip(requests, scores, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, score)
        return scores

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Refuses: ModelService scores answers, not raw texts.

        Raises:
            ModelError: Always.
        """
        raise ModelError("loglikelihood_rolling needs the probability of a raw text; ModelService scores answers only")


def _same(request: Any) -> tuple[Any, ...]:
    """Returns the key of requests that can share one call; repeats of a document have equal keys."""
    context, _, *more = request.args
    return (request.task_name, request.doc_id, type(context), context, len(more))


def _messages(context: str, more: Sequence[Any]) -> list[model.Message]:
    """Returns the conversation of a context: one message, or the messages passed to `apply_chat_template`."""
    seen = more[0] if more else {}
    if seen.get("audio"):
        raise NotAskableError("the task's questions have sound, and requests hold text and images")
    visuals = list(without_clips(shown(seen.get("visual"))))
    if visuals and (places := context.count(PLACEHOLDER)) > len(visuals):
        raise ModelError(
            f"a context has places for {places} images and {len(visuals)} of them: lm-evaluation-harness hands over "
            "the question's images, not those of its examples",
            fix="ask without --num_fewshot",
        )
    if not isinstance(context, _Chat):
        return [user(interleaved(context, visuals))]
    turns = json.loads(context)
    messages = []
    for turn in turns:
        images = visuals if turn is turns[-1] else []
        messages.append(user(interleaved(turn["content"], images), ROLES[turn["role"]]))
    return messages


def main() -> None:
    """Runs lm-evaluation-harness' own command line; prints one line and exits with 2 if the model cannot be asked."""
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except UserError as error:
        sys.exit(_fail(error))


def _fail(error: UserError) -> int:
    print(f"lyncean-lm-eval: {error}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    main()
