"""lm-evaluation-harness' own evaluator over a gRPC server: what our metrics are compared with."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Mapping
from typing import Any
from unittest import mock

import datasets
import grpc
import numpy as np
from lm_eval import evaluator
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager

from lyncean.model.v1 import model_pb2 as model, model_pb2_grpc
from lyncean_harnesses.library.lm_eval import LIBRARY


class Asking(LM):  # type: ignore[misc]
    """A model of the harness that asks a ModelService; images stand at their placeholders."""

    MULTIMODAL = True

    def __init__(self, address: str) -> None:
        super().__init__()
        self._stub = model_pb2_grpc.ModelServiceStub(grpc.insecure_channel(address))

    def generate_until(self, requests: list[Any]) -> list[str]:
        """Answers each request by Generate."""
        answers = []
        for request in requests:
            context, settings, *seen = request.args
            until = settings.get("until") or []
            config = model.GenerationConfig(
                max_output_tokens=settings.get("max_gen_toks", 256),
                stop=[word for word in ([until] if isinstance(until, str) else until) if word],
            )
            response = self._stub.Generate(model.GenerateRequest(messages=[_user(context, *seen)], config=config))
            answers.append("".join(part.text for part in response.parts))
        return answers

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Answers each request by Likelihood."""
        answers = []
        for request in requests:
            context, continuation = request.args
            query = model.LikelihoodRequest(messages=[_user(context)], continuations=[continuation])
            score = self._stub.Likelihood(query).scores[0]
            answers.append((score.logprob, score.is_greedy))
        return answers

    def loglikelihood_rolling(self, requests: list[Any]) -> list[float]:
        """Is not asked for."""
        raise NotImplementedError


def _user(text: str, seen: Mapping[str, Any] | None = None) -> model.Message:
    images = iter((seen or {}).get("visual") or [])
    parts = []
    for piece in re.split("(<image>)", text):
        if piece == "<image>":
            buffer = io.BytesIO()
            next(images).save(buffer, "PNG")
            parts.append(model.Part(image=model.Image(data=buffer.getvalue(), media_type="image/png")))
        elif piece:
            parts.append(model.Part(text=piece))
    return model.Message(role=model.ROLE_USER, parts=parts)


def figures(data: Mapping[str, datasets.DatasetDict], address: str) -> dict[str, dict[str, Any]]:
    """Evaluates tasks by the harness's evaluator and returns its metrics by task."""
    by_task = {}
    for name, splits in data.items():
        random.seed(0)  # as its evaluator does before it reads a task's data
        np.random.seed(1234)
        with mock.patch.object(datasets, "load_dataset", lambda *_, splits=splits, **__: datasets.DatasetDict(splits)):
            task = ConfigurableTask(config={**LIBRARY.config(name), "task": name})
        manager = mock.Mock(task_index={})
        manager.load.return_value = {"tasks": {name: task}, "groups": {}, "group_map": {}}
        results = evaluator.simple_evaluate(
            model=Asking(address), tasks=[name], task_manager=manager, bootstrap_iters=0, log_samples=False
        )
        metrics = results["results"][name]
        by_task[name] = {key: value for key, value in metrics.items() if "," in key and "_stderr" not in key}
    return by_task


def groups(name: str, data: Mapping[str, datasets.DatasetDict], address: str) -> dict[str, dict[str, Any]]:
    """Evaluates a group by the harness's evaluator, found and opened by it, and returns metrics by group and task.

    Args:
        name: The group.
        data: Splits by the name of the data set's configuration.
        address: The model server.
    """
    _ = LIBRARY.modules

    def load(*_: Any, name: str, **__: Any) -> datasets.DatasetDict:
        return datasets.DatasetDict(data[name])

    with mock.patch.object(datasets, "load_dataset", load):
        results = evaluator.simple_evaluate(
            model=Asking(address), tasks=[name], bootstrap_iters=0, log_samples=False, task_manager=TaskManager()
        )
    return {
        key_: {key: value for key, value in metrics.items() if "," in key and "_stderr" not in key}
        for key_, metrics in results["results"].items()
    }
