"""Documents in the order of the harness's evaluator: what a task's code that draws random numbers makes of all of them.

An answer is scored by itself, its random numbers seeded by its key. The evaluator seeds once and scores one document
after the other, so that a draw depends on those before it. Where every answer is there, its order can be played.
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
"""Key of a record whose scoring drew random numbers: its document and responses, None where they are too long."""

Responses = Sequence[Sequence[Any]]
"""The answers to each of a document's requests, one for each repeat."""

Results = Mapping[str, Mapping[str, Any]]
"""Filter -> metric -> value."""


class NoOrderError(Exception):
    """The evaluator's order cannot be played; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a task's code scored it.

    Attributes:
        results: Its metrics.
        drew: Whether it drew random numbers.
        asked: The document and its responses, of one that drew; None where they are not known.
    """

    results: Results
    drew: bool = False
    asked: tuple[Mapping[str, Any], Responses] | None = None


def scored_together(task: Scored, doc: Mapping[str, Any], responses: Responses, words: str) -> Document:
    """Scores a document of several responses; `words` are what its random numbers depend on."""
    with seeded(words), watched() as drew:
        results = task.results(doc, responses)
        return Document(results, drew(), (doc, responses) if drew() else None)


def values(documents: Iterable[Document], metric: str, key: str) -> list[Any]:
    """Returns the values of a metric, of the documents that have it."""
    return [found.results[key][metric] for found in documents if metric in found.results.get(key, {})]


class InOrder:
    """The metrics of a task as the harness's evaluator computes them for it alone, until one fails.

    Args:
        library: The harness.
        task: The task's scoring half.
        name: The task.
        documents: All of them, by number.
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
            NoOrderError: A document is missing, or what it takes to score it again.
            Exception: What the task's code raises.
        """
        if (metric, key) not in self._values:
            raise self._error
        return self._values[metric, key]

    def _play(self, library: Library, task: Scored, name: str, documents: Mapping[int, Document]) -> None:
        listed = [found for _, found in sorted(documents.items())]
        drawn = [place for place, found in enumerate(listed) if found.drew]
        asked = [found.asked for found in listed if found.drew and found.asked]
        if sorted(documents) != list(range(len(listed))):
            raise NoOrderError("these are not the first documents of the data")
        if len(asked) < len(drawn):
            raise NoOrderError("a document whose scoring draws is too long to be kept")
        if library.runs_text(name, task.include):
            raise NoOrderError("its code runs answers, each of which is scored by itself")
        with seeded(library.seeds):
            library.config(name, task.include)  # runs the modules of its functions, some of which seed
            for place, results in zip(drawn, task.results_of(asked), strict=True):
                listed[place] = Document(results)
            names = dict.fromkeys(
                (metric, key) for key in _keys(listed) for found in listed for metric in found.results[key]
            )
            for metric, key in names:
                if task.aggregates(metric):
                    self._values[metric, key] = task.aggregate(metric, copy.deepcopy(values(listed, metric, key)))


def _keys(documents: Sequence[Document]) -> Iterable[str]:
    return documents[0].results if documents else ()
