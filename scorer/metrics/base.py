"""The types of a metric: a function from a table of items to one result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from google.protobuf import struct_pb2
from google.protobuf.json_format import MessageToDict

from lyncean.arrays import Floats, Ints
from lyncean.scorer.v1 import scorer_pb2 as pb
from scorer.errors import RequestError
from scorer.metrics.table import Table

COMMON_PARAMS = {
    "level": "coverage of the interval, default 0.95",
    "unit": '"fraction" (default) or "percent", which multiplies the metric and its interval by 100',
    "bootstrap": '"samples" or "groups": the interval comes from resamples of these; default the metric\'s own',
    "draws": "resamples of the bootstrap, each of which computes the metric again, default 1000",
}
"""Parameters that every metric takes; the summarizer reads all but `level`."""


class Params:
    """Typed access to MetricSpec.params; all getters raise `RequestError`, which names the key.

    Attributes:
        values: The parameters as JSON values.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values

    @classmethod
    def of(cls, message: struct_pb2.Struct) -> Params:
        """Reads the parameters of a message.

        Raises:
            RequestError: One is infinite, not a number, or nested without end.
        """
        try:
            return cls(MessageToDict(message))
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the parameters cannot be read: {error}", "invalid_param") from None

    def word(self, name: str, default: str, allowed: tuple[str, ...] = ()) -> str:
        """Returns a string; one of `allowed`, unless that is empty."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or (allowed and value not in allowed):
            raise _wrong(name, value, " | ".join(allowed) or "a string")
        return value

    def strings(self, name: str) -> tuple[str, ...] | None:
        """Returns a list of strings; None if the parameter is missing."""
        values = self.values.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise _wrong(name, values, "a list of strings")
        return tuple(dict.fromkeys(values))

    def flag(self, name: str, default: bool) -> bool:
        """Returns true or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise _wrong(name, value, "true or false")
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Returns a number strictly between `low` and `high`."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value < high:
            raise _wrong(name, value, f"a number in ({low}, {high})")
        return float(value)

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        """Returns a whole number from `low` to `high`."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
            raise _wrong(name, value, "a whole number")
        if not low <= value <= high:
            raise _wrong(name, value, f"{low} to {high}")
        return int(value)

    @property
    def level(self) -> float:
        """Coverage of the interval."""
        return self.number("level", 0.95, 0.0, 1.0)


def _wrong(name: str, value: object, wanted: str) -> RequestError:
    return RequestError(f"parameter {name!r} is {value!r}: give {wanted}", "invalid_param")


@dataclass(frozen=True, slots=True)
class Plan:
    """A metric with the parameters of one MetricSpec.

    Attributes:
        compute: Computes the metric over a table of at least one item; the summarizer sets name,
            labels and counts. Depends on the items alone, never on their order.
        columns: Text columns that it reads: "key", "params", "extracted", "details", "targets", "options", "reason",
            "rule" and "panel".
        labels: Labels that it reads.
        parts: Parts of Verdict.scores that it reads.
        facts: Numbers of ScoreRequest.facts that it reads.
        bootstrap: "samples" or "groups": the unit of resampling from which the summarizer computes an interval if the
            result has none. Every resample calls `compute`; copies of a sample or group have different numbers.
        items: For a metric that is a mean over items: the value of each row, and its cluster or
            None where all are independent. Slices are then compared with the rest.
        graded: Whether those values are scores of answers, of which 1 is the best: the result then has the band that
            cut answers leave open (`cut_band`).
        check: Checks before the first item that `compute` will have all that it needs besides the parameters, such as
            a program; raises `RequestError`. Called when a run tries its metrics on no items.
        no_interval: The reason why its value has no interval, if neither it nor `bootstrap` computes one.
        of_scores: Whether it reads `Table.score`: it is then undefined for rules that give single items no score.
    """

    compute: Callable[[Table], pb.MetricResult]
    columns: frozenset[str] = frozenset()
    labels: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    bootstrap: str = ""
    items: Callable[[Table], tuple[Floats, Ints | None]] | None = None
    graded: bool = False
    check: Callable[[], None] = lambda: None
    no_interval: str = "the metric makes none; the parameter bootstrap asks for one"
    of_scores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric that a task's MetricSpec can name.

    Attributes:
        name: Value of MetricSpec.metric.
        description: One paragraph: the quantity that it computes and the data that it needs.
        plan: Reads the parameters; raises `RequestError` for invalid ones.
        params: Its parameters besides `COMMON_PARAMS`, and their meanings.
        unit: The metric's unit, unless `compute` sets another.
        cell: Whether `compute` runs in a closed process, without files, network and secrets; `items` is then unused.
    """

    name: str
    description: str
    plan: Callable[[Params], Plan]
    params: Mapping[str, str] = field(default_factory=dict)
    unit: str = "fraction"
    cell: bool = False
