"""Our classes of foreign tasks: their data from elsewhere, and their scoring half, made without data."""

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
    """What our classes of foreign tasks put before the harness's: data from elsewhere, and none where it only scores.

    Attributes:
        read_data: Reads the data: `read_data(task, arguments)`.
        scores_only: Whether the task is being made to score, without documents to make texts of.
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
        modules: What `Library.modules` has of the harness.

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
        """Returns what its filters and `process_results` make of one document: filter -> metric -> value.

        Args:
            doc: The document, without what `process_results` does not get there.
            responses: The answers to each of the document's requests, one for each repeat.
        """
        return self.results_of([(doc, responses)])[0]

    def results_of(
        self, documents: Sequence[tuple[Mapping[str, Any], Sequence[Sequence[Any]]]]
    ) -> list[dict[str, dict[str, Any]]]:
        """Returns the same of several documents, each with its answers, in the evaluator's order: filter by filter."""
        requests = [
            [self.instance(doc, place, list(repeats)) for place, repeats in enumerate(responses)]
            for doc, responses in documents
        ]
        found: list[dict[str, dict[str, Any]]] = [{} for _ in documents]
        with quiet(), no_other_server():
            for (doc, _), instances in zip(documents, requests, strict=True):
                self.filter(instances, doc)
            for key in requests[0][0].filtered_resps if requests else ():
                for (doc, _), instances, own in zip(documents, requests, found, strict=True):
                    own[key] = dict(self.process(doc, [each.filtered_resps[key] for each in instances]))
        return found

    @abstractmethod
    def instance(self, doc: Mapping[str, Any], place: int, responses: list[Any]) -> Any:
        """Returns the harness's object for a request and its responses."""

    @abstractmethod
    def filter(self, instances: list[Any], doc: Mapping[str, Any]) -> None:
        """Applies the task's filters."""

    @abstractmethod
    def likelihoods(self, scores: Sequence[tuple[float, int, bool]]) -> list[Any]:
        """Returns what a model of the harness returns of continuations, each (log-probability, tokens, greedy)."""

    def process(self, doc: Mapping[str, Any], filtered: list[Any]) -> Mapping[str, Any]:
        """Returns what the task's `process_results` returns."""
        results: Mapping[str, Any] = self._task.process_results(doc, filtered)
        return results

    def aggregate(self, metric: str, values: list[Any]) -> Any:
        """Returns its aggregation of a metric's values, in the order of the documents.

        Files that it writes go to a folder that is deleted.
        """
        function = self._task.aggregation()[metric]
        with quiet(), no_other_server():
            if "args" in inspect.signature(function).parameters:
                return function(values, args=arguments(self._folder.name))
            return function(values)

    def aggregates(self, metric: str) -> bool:
        """Whether a metric that `process_results` returns has an aggregation."""
        return metric in self._task.aggregation()

    def cluster(self, value: Any) -> str | None:
        """Returns what a metric's value belongs to, as the task's `cluster_key` names it; None without one."""
        key = getattr(getattr(self._task, "config", None), "cluster_key", None)
        found = value.get(key) if key and isinstance(value, Mapping) else None
        return None if found is None else str(found)

    def is_mean(self, metric: str) -> bool:
        """Whether a metric's aggregation is the harness's own mean."""
        return self._task.aggregation().get(metric) is self._modules.metrics.mean


def state(task: Any) -> dict[str, Any]:
    """Returns what a harness learns of a task from its data, for the half that scores without them."""
    model = getattr(task, MODEL_NAME, None)
    return {
        "features": list(task.features),
        "multiple_target": task.multiple_target,
        "multiple_input": task.multiple_input,
        **({MODEL_NAME: model} if model else {}),
    }


def arguments(folder: str) -> Any:
    """Returns what stands for a harness's command line where an aggregation asks for it."""
    return SimpleNamespace(
        output_path=folder,
        process_with_media=False,
        reasoning_tags=None,
        agentic_trace_mode="basic",
        tasks="",
        model="",
    )


class Docs(list[Any]):
    """Documents as a harness reads them of a data set."""

    features: Mapping[str, Any] = {}


class NoData(dict[str, Docs]):
    """The data of a task that is only scored: any split has one empty document."""

    def __missing__(self, split: str) -> Docs:
        return Docs([{}])
