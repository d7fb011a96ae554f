"""lmms-eval's own evaluator over a gRPC server: what our figures are compared with."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import datasets
import grpc
import numpy as np
from lmms_eval import evaluator, utils
from lmms_eval.api import samplers
from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.api.task import ConfigurableMessagesTask, ConfigurableTask
from lmms_eval.tasks import TaskManager

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean_harnesses.library.lmms_eval import LIBRARY
from lyncean_harnesses.library.requests import _wave
from lyncean_harnesses.library.scored import arguments

SHRINK = 1
"""By what images are made smaller before they are sent."""

ROLES = {"system": model.ROLE_SYSTEM, "user": model.ROLE_USER, "assistant": model.ROLE_ASSISTANT}


class Asking(lmms):  # type: ignore[misc]
    """A model of lmms-eval that asks a ModelService: images as PNG of what the task's code returned."""

    def __init__(self, address: str, *, simple: bool) -> None:
        super().__init__()
        self.is_simple = simple
        self._stub = model_pb2_grpc.ModelServiceStub(grpc.insecure_channel(address))

    def generate_until(self, requests: list[Any]) -> list[Any]:
        """Answers each request by Generate; of a cut answer the tokens are counted."""
        answers: list[Any] = []
        for request in requests:
            if self.is_simple:
                text, settings, visual, doc_id, task, split = request.args
                shown = visual(self.task_dict[task][split][doc_id]) or []
                messages = [self._user(text, shown)]
            else:
                _, to_messages, settings, doc_id, task, split = request.args
                messages = [self._message(turn) for turn in to_messages(self.task_dict[task][split][doc_id])]
            config = model.GenerationConfig(max_output_tokens=settings.get("max_new_tokens", 1024))
            response = self._stub.Generate(model.GenerateRequest(messages=messages, config=config))
            answer = "".join(part.text for part in response.parts)
            if response.finish_reason == model.FINISH_REASON_MAX_TOKENS:
                answer = GenerationResult(answer, TokenCounts(output_tokens=config.max_output_tokens))
            answers.append(answer)
        return answers

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Answers each request by Likelihood, as lmms-eval's models do: mean loss of a token, and whether greedy."""
        answers = []
        for request in requests:
            text, continuation, visual, doc_id, task, split = request.args
            doc = self.task_dict[task][split][doc_id]
            query = model.LikelihoodRequest(
                messages=[self._user(text, visual(doc) or [])], continuations=[continuation]
            )
            score = self._stub.Likelihood(query).scores[0]
            answers.append((-score.logprob / score.token_count, score.is_greedy))
        return answers

    def generate_until_multi_round(self, requests: list[Any]) -> list[list[str]]:
        """Asks in rounds, as lmms-eval's LLaVA does: what the task's code shows and says next, until it ends."""
        transcripts = []
        for request in requests:
            text, settings, visual, next_round, doc_id, task, split = request.args
            doc = self.task_dict[task][split][doc_id]
            shown, answers, info, index = visual(doc), list[str](), None, 0
            while True:
                if index:
                    shown, text, ends, answers, info = next_round(
                        doc, previous_output=answers, round_idx=index, previous_round_info=info
                    )
                    if ends:
                        break
                answers = [*answers, self._said(self._user(text, shown or []), settings).strip()]
                index += 1
            transcripts.append(list(answers))
        return transcripts

    def generate_visual_cot(self, requests: list[Any]) -> list[str]:
        """Asks for a drawing and then with it, as lmms-eval's models that draw do."""
        answers = []
        for request in requests:
            text, settings, visual, doc_id, task, split = request.args
            shown = visual(self.task_dict[task][split][doc_id])
            draw, question = (
                text.partition(f"[{tag}]")[2].partition(f"[/{tag}]")[0].strip() for tag in ("GEN_PROMPT", "QUESTION")
            )
            query = model.GenerateRequest(
                messages=[self._user(draw.replace("{question}", question), shown)], modality=model.MODALITY_IMAGE
            )
            drawn = next(part.image for part in self._stub.Generate(query).parts if part.HasField("image"))
            parts = [*map(_image, shown), model.Part(image=drawn), model.Part(text=question)]
            answers.append(self._said(model.Message(role=model.ROLE_USER, parts=parts), settings))
        return answers

    def _said(self, message: model.Message, settings: Mapping[str, Any]) -> str:
        config = model.GenerationConfig(max_output_tokens=settings.get("max_new_tokens", 1024))
        response = self._stub.Generate(model.GenerateRequest(messages=[message], config=config))
        return "".join(part.text for part in response.parts)

    def _user(self, text: str, visuals: list[Any]) -> model.Message:
        return model.Message(role=model.ROLE_USER, parts=[*map(_image, visuals), model.Part(text=text)])

    def _message(self, turn: Mapping[str, Any]) -> model.Message:
        content = turn["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        parts = [model.Part(text=c["text"]) if c["type"] == "text" else _image(c["url"]) for c in content]
        return model.Message(role=ROLES[turn["role"]], parts=parts)


def _image(image: Any) -> model.Part:
    if isinstance(image, str):
        return model.Part(video=model.Video(data=Path(image).read_bytes()))
    if isinstance(image, dict):
        return model.Part(audio=model.Audio(data=_wave(image["array"], image["sampling_rate"])))
    if SHRINK > 1:
        image = image.resize([max(1, side // SHRINK) for side in image.size])
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return model.Part(image=model.Image(data=buffer.getvalue(), media_type="image/png"))


def figures(
    data: Mapping[str, datasets.DatasetDict], address: str, output: str, *, simple: bool
) -> dict[str, dict[str, Any]]:
    """Evaluates tasks by lmms-eval's evaluator and returns its metrics by task.

    Args:
        data: Each task's splits, by lmms-eval's name of it.
        address: The model server.
        output: A folder for the files that aggregations write.
        simple: Whether to ask as its simple models do; its chat models have no likelihood.
    """
    _ = LIBRARY.modules
    kind = ConfigurableTask if simple else ConfigurableMessagesTask
    tasks = []
    for name, splits in data.items():
        random.seed(0)  # as its evaluator does before it reads a task's data
        np.random.seed(1234)
        with mock.patch.object(datasets, "load_dataset", lambda *_, splits=splits, **__: datasets.DatasetDict(splits)):
            task = kind(config=utils.load_yaml_config(LIBRARY.index()[name]["yaml_path"], mode="full"))
        if task.config.num_fewshot and not hasattr(task, "sampler"):  # 0.7.3 fails on these
            task.sampler = samplers.get_sampler("default")(list(task.fewshot_docs()), task, rnd=random.Random(1234))
        tasks.append(task)
    with _mended():
        results = evaluator.simple_evaluate(
            model=Asking(address, simple=simple),
            tasks=tasks,
            task_manager=mock.Mock(),
            bootstrap_iters=0,
            log_samples=False,
            cli_args=arguments(output),
            process_docs_parallel=1,
        )
    return {
        name: {metric: value for metric, value in results["results"][name].items() if not _is_error(metric)}
        for name in data
    }


def groups(
    names: Sequence[str], data: Mapping[str, datasets.DatasetDict], address: str, output: str, *, simple: bool
) -> dict[str, dict[str, Any]]:
    """Evaluates groups by lmms-eval's evaluator, found and opened by it, and returns its metrics by group and task.

    Args:
        names: The groups.
        data: Splits by the name of the data set's configuration.
        address: The model server.
        output: A folder for the files that aggregations write.
        simple: As for `figures`.
    """
    _ = LIBRARY.modules

    def load(*_: Any, name: str, **__: Any) -> datasets.DatasetDict:
        return datasets.DatasetDict(data[name])

    with mock.patch.object(datasets, "load_dataset", load), _mended():
        results = evaluator.simple_evaluate(
            model=Asking(address, simple=simple),
            tasks=list(names),
            task_manager=TaskManager(),
            bootstrap_iters=0,
            log_samples=False,
            cli_args=arguments(output),
            process_docs_parallel=1,
        )
    return {
        name: {metric: value for metric, value in metrics.items() if not _is_error(metric)}
        for name, metrics in results["results"].items()
    }


def _is_error(metric: str) -> bool:
    return "," not in metric or "_stderr" in metric


@contextlib.contextmanager
def _mended() -> Iterator[None]:
    """Undoes what makes 0.7.3 fail on every multiple_choice task: it turns a pair of loss and greedy into its text."""
    real = evaluator.unwrap_generation_output

    def kept(output: Any) -> Any:
        return (output, None) if isinstance(output, tuple) and len(output) == 2 else real(output)

    with mock.patch.object(evaluator, "unwrap_generation_output", kept):
        yield
