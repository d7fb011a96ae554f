"""Our classes of foreign tasks: with replaced data, and their scoring half, which needs no data."""

from __future__ import annotations

import inspect
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from lyncean_harnesses.library.foreign import no_other_server, quiet

MODEL_NAME = "model_name"
"""The harness's name of the model for which a task is loaded: its attribute, argument and key of `state`."""


class OurTask:
    """Mixin that precedes the harness's class of tasks: replaces its data; skips them if it only scores.

    Attributes:
        read_data: Reads the data: `read_data(task, arguments)`.
        scores_only: Whether the task is built for scoring alone, without documents.
    """

    read_data: Any
    scores_only: bool

    def download(self, dataset_kwargs: Any = None, **_: Any) -> None:
        """Reads the data."""
        self.read_data(self, dataset_kwargs)

    def doc_to_text(self, doc: Any, *more: Any, **named: Any) -> Any:
        """Returns a document's question."""
        return "" if self.scores_only else super().doc_to_text(doc, *more, **named)  # type: ignore[misc]

    def doc_to_target(self, doc: Any, *more: Any, **named: Any) -> Any:
        """Returns a document's target."""
        return "" if self.scores_only else super().doc_to_target(doc, *more, **named)  # type: ignore[misc]

    def doc_to_choice(self, doc: Any, *more: Any, **named: Any) -> Any:
        """Returns a document's options."""
        return ["A"] if self.scores_only else super().doc_to_choice(doc, *more, **named)  # type: ignore[misc]


class Scored(ABC):
    """The scoring half of a task, made without its data.

    Args:
        task: The harness's task.
        modules: The harness's `Library.modules`.

    Attributes:
        starts_programs: Whether its code may start programs.
        include: Further folders with configurations.
    """

    starts_programs = False
    include: tuple[str, ...] = ()

    def __init__(self, task: Any, modules: SimpleNamespace) -> None:
        self._task = task
        self._modules = modules
        self._folder = tempfile.TemporaryDirectory(prefix="lyncean-")

    def results(self, doc: Mapping[str, Any], responses: Sequence[Sequence[Any]]) -> dict[str, dict[str, Any]]:
        """Returns the results of its filters and `process_results` for one document: filter -> metric -> value.

        Args:
            doc: The document with the fields that `process_results` gets in the harness.
            responses: The answers to each of the document's requests, one for each repeat.
        """
        return self.results_of([(doc, responses)])[0]

    def results_of(
        self, documents: Sequence[tuple[Mapping[str, Any], Sequence[Sequence[Any]]]]
    ) -> list[dict[str, dict[str, Any]]]:
        """Returns the results of several documents with their answers, in the evaluator's order: filter by filter."""
        requests = [
            [self.instance(doc, index, list(repeats)) for index, repeats in enumerate(responses)]
            for doc, responses in documents
        ]
        results: list[dict[str, dict[str, Any]]] = [{} for _ in documents]
        with quiet(), no_other_server():
            for (doc, _), instances in zip(documents, requests, strict=True):
                self.filter(instances, doc)
            for key in requests[0][0].filtered_resps if requests else ():
                for (doc, _), instances, metrics in zip(documents, requests, results, strict=True):
                    metrics[key] = dict(self.process(doc, [instance.filtered_resps[key] for instance in instances]))
        return results

    @abstractmethod
    def instance(self, doc: Mapping[str, Any], index: int, responses: list[Any]) -> Any:
        """Returns the harness's object for a request and its responses."""

    @abstractmethod
    def filter(self, instances: list[Any], doc: Mapping[str, Any]) -> None:
        """Applies the task's filters."""

    @abstractmethod
    def likelihoods(self, scores: Sequence[tuple[float, int, bool]]) -> list[Any]:
        """Returns scores of continuations, (log-probability, tokens, greedy), as the harness's models do."""

    def process(self, doc: Mapping[str, Any], filtered: list[Any]) -> Mapping[str, Any]:
        """Returns the result of the task's `process_results`."""
        results: Mapping[str, Any] = self._task.process_results(doc, filtered)
        return results

    def aggregate(self, metric: str, values: list[Any]) -> Any:
        """Returns its aggregation of a metric's values, in the order of the documents.

        Its files are written to a temporary folder.
        """
        function = self._task.aggregation()[metric]
        with quiet(), no_other_server():
            if "args" in inspect.signature(function).parameters:
                return function(values, args=arguments(self._folder.name))
            return function(values)

    def aggregates(self, metric: str) -> bool:
        """Returns True if a metric of `process_results` has an aggregation."""
        return metric in self._task.aggregation()

    def cluster(self, value: Any) -> str | None:
        """Returns the cluster of a metric's value by the task's `cluster_key`; None without one."""
        key = getattr(getattr(self._task, "config", None), "cluster_key", None)
        cluster = value.get(key) if key and isinstance(value, Mapping) else None
        return None if cluster is None else str(cluster)

    def is_mean(self, metric: str) -> bool:
        """Returns True if a metric's aggregation is the harness's own mean."""
        return self._task.aggregation().get(metric) is self._modules.metrics.mean


def state(task: Any) -> dict[str, Any]:
    """Returns the state that a harness derives from a task's data, for scoring without the data."""
    model = getattr(task, MODEL_NAME, None)
    return {
        "features": list(task.features),
        "multiple_target": task.multiple_target,
        "multiple_input": task.multiple_input,
        **({MODEL_NAME: model} if model else {}),
    }


def arguments(folder: str) -> Any:
    """Returns a stand-in for a harness's command line arguments, which some aggregations read."""
    return SimpleNamespace(
        output_path=folder,
        process_with_media=False,
        reasoning_tags=None,
        agentic_trace_mode="basic",
        tasks="",
        model="",
    )


class Docs(list[Any]):
    """Documents as a harness reads them from a data set."""

    features: Mapping[str, Any] = {}


class NoData(dict[str, Docs]):
    """The data of a task that is only scored: any split has one empty document."""

    def __missing__(self, split: str) -> Docs:
        return Docs([{}])
