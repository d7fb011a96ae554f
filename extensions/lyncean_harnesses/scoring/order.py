"""Scores documents in the order of the harness's evaluator, for tasks whose code draws random numbers.

The scorer scores answers independently, with random numbers seeded by the key. The evaluator seeds once and scores
documents in sequence, so that a draw depends on earlier ones. With all answers, its order can be replayed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lyncean_harnesses.library import seeded
from lyncean_harnesses.library.dice import watched
from lyncean_harnesses.library.library import Library
from lyncean_harnesses.library.scored import Scored

DRAWN = "drawn"
"""Key of a record whose scoring drew random numbers: its document and responses, None if they are too long."""

Responses = Sequence[Sequence[Any]]
"""The answers to a document's requests, one for each repeat."""

Results = Mapping[str, Mapping[str, Any]]
"""Filter -> metric -> value."""


class NoOrderError(Exception):
    """The evaluator's order cannot be replayed; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a task's code scored it.

    Attributes:
        results: Its metrics.
        drew: Whether its scoring drew random numbers.
        inputs: The document and its responses if its scoring drew; None if unknown.
    """

    results: Results
    drew: bool = False
    inputs: tuple[Mapping[str, Any], Responses] | None = None


def scored_together(task: Scored, doc: Mapping[str, Any], responses: Responses, key: str) -> Document:
    """Scores a document with several responses; `key` seeds its random numbers."""
    with seeded(key), watched() as drew:
        results = task.results(doc, responses)
        return Document(results, drew(), (doc, responses) if drew() else None)


def values(documents: Iterable[Document], metric: str, key: str) -> list[Any]:
    """Returns a metric's values over the documents that have it."""
    return [document.results[key][metric] for document in documents if metric in document.results.get(key, {})]


class InOrder:
    """The metrics of a task as the harness's evaluator computes them for this task alone, up to the first failure.

    Args:
        library: The harness.
        task: The task's scoring half.
        name: The task.
        documents: All documents, by number.
    """

    def __init__(self, library: Library, task: Scored, name: str, documents: Mapping[int, Document]) -> None:
        self._values: dict[tuple[str, str], Any] = {}
        self._error: Exception = NoOrderError("it has no such metric there")
        try:
            self._play(library, task, name, documents)
        except Exception as error:
            self._error = error.with_traceback(None)

    def value(self, metric: str, key: str) -> Any:
        """Returns a metric of a filter.

        Raises:
            NoOrderError: A document is missing, or the inputs to score it again.
            Exception: The task's code raises it.
        """
        if (metric, key) not in self._values:
            raise self._error
        return self._values[metric, key]

    def _play(self, library: Library, task: Scored, name: str, documents: Mapping[int, Document]) -> None:
        listed = [document for _, document in sorted(documents.items())]
        drawn = [index for index, document in enumerate(listed) if document.drew]
        inputs = [document.inputs for document in listed if document.drew and document.inputs]
        if sorted(documents) != list(range(len(listed))):
            raise NoOrderError("these are not the first documents of the data")
        if len(inputs) < len(drawn):
            raise NoOrderError("a document whose scoring draws is too long to be kept")
        if library.runs_text(name, task.include):
            raise NoOrderError("its code runs answers, each of which is scored by itself")
        with seeded(library.seeds):
            library.config(name, task.include)  # runs the modules of its functions; some of them set a seed
            for index, results in zip(drawn, task.results_of(inputs), strict=True):
                listed[index] = Document(results)
            names = dict.fromkeys(
                (metric, key) for key in _keys(listed) for document in listed for metric in document.results[key]
            )
            for metric, key in names:
                if task.aggregates(metric):
                    self._values[metric, key] = task.aggregate(metric, copy.deepcopy(values(listed, metric, key)))


def _keys(documents: Sequence[Document]) -> Iterable[str]:
    return documents[0].results if documents else ()
