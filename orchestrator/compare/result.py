"""Compares runs once, for the terminal, the page and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.benchmarks.reform.datasets import DIMENSIONS
from orchestrator.benchmarks.reform.ranks import Standing, scores_of, standings
from orchestrator.compare import facts, flips, gate, scores, statistics
from orchestrator.compare.rows import Match, by_row_instead, matched
from orchestrator.errors import ConfigError
from orchestrator.run_folder.reader import Run, open_run


class OtherQuestionsError(ConfigError):
    """Raised when runs have other questions under the same keys."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """The comparison of the first run with another one.

    Attributes:
        second: The other run.
        cautions: Reasons why the two are not comparable; empty if there are none.
        pairs: The paired tests by step.
        overall: The same over the primary metrics of all tasks; None if none of them is a share.
        flips: The items that the other run scores lower or higher.
        facts: Changes of facts other than scores, for runs with tools.
    """

    second: Run
    cautions: Sequence[scores.Caution]
    pairs: Sequence[statistics.Paired]
    overall: statistics.Paired | None
    flips: flips.Flips
    facts: Sequence[facts.FactChange] = ()

    @property
    def caution(self) -> str:
        """The cautions in one sentence, "" without any."""
        return scores.in_one_sentence(self.cautions)

    @property
    def rows(self) -> Sequence[statistics.Paired]:
        """The rows of its table: the steps, then all tasks as one if there are several."""
        return [*self.pairs, self.overall] if self.overall and self.overall.step == statistics.POOLED else self.pairs

    @property
    def p_name(self) -> str:
        """Name of the column of p-values; a single test has nothing to correct for."""
        return "p (Holm)" if sum(pair.p is not None for pair in self.pairs) > 1 else "p"

    @property
    def beyond_reach(self) -> str:
        """A sentence about the tests that could not have been significant, "" if all could."""
        steps = [str(pair.step) for pair in self.pairs if pair.beyond_reach]
        if not steps:
            return ""
        which = "the test" if self.p_name == "p" else f"the tests of {', '.join(steps[:3])}" + " ..." * (len(steps) > 3)
        return f"{which} cannot reach 5%, whichever way the changes go: at least 6 items must differ, so ask more"


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranks of all runs in one step, over the items that all of them have."""

    step: scores.Step
    items: int
    places: Sequence[statistics.Place]


class DimensionRow(NamedTuple):
    """One of ReForm-Eval's dimensions, or their average: mean and rank of each run as printed, "–" and "" for none."""

    name: str
    cells: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of several runs.

    Attributes:
        runs: The runs, the baseline first.
        pairings: The comparison of the baseline with each other run.
        rankings: The leaderboard by step.
        findings: Findings of the gate, empty without a gate.
        standings: Run -> its means and ranks as in ReForm-Eval's tables; empty without its tasks.
    """

    runs: Sequence[Run]
    pairings: Sequence[Pairing]
    rankings: Sequence[Ranking]
    findings: Sequence[gate.Finding]
    standings: Mapping[str, Standing]

    @property
    def passed(self) -> bool:
        """True if every condition of the gate is met."""
        return self.verdict == gate.PASS

    @property
    def verdict(self) -> str:
        """Verdict of the gate: the worst of its findings' verdicts."""
        return gate.worst(self.findings)

    @property
    def dimension_rows(self) -> list[DimensionRow]:
        """ReForm-Eval's dimensions and their average; empty without runs of it."""
        every = list(self.standings.values())
        if not every:
            return []
        rows = [
            DimensionRow(DIMENSIONS[key], [_cell(one.dimensions[key], one.ranks[key]) for one in every])
            for key in every[0].dimensions
        ]
        return [*rows, DimensionRow("average", [_cell(one.average, one.average_rank) for one in every])]

    def as_json(self) -> dict[str, Any]:
        """Returns the comparison as JSON."""
        return {
            "runs": [
                {"name": run.name, "path": str(run.path), "model": run.model_name}
                | ({"doubt": run.doubt} if run.doubt else {})
                for run in self.runs
            ],
            "comparisons": [
                {
                    "first": self.runs[0].name,
                    "second": pairing.second.name,
                    "warnings": [caution.text for caution in pairing.cautions],
                    "pairs": [_pair_json(pair) for pair in pairing.pairs],
                    "overall": None if pairing.overall is None else _pair_json(pairing.overall),
                    "flips": {
                        "items": pairing.flips.items, "gained": pairing.flips.gained, "lost": pairing.flips.lost
                    },
                    **({"facts": [asdict(change) for change in pairing.facts]} if pairing.facts else {}),
                }
                for pairing in self.pairings
            ],
            "leaderboard": [
                {
                    "step": str(ranking.step),
                    "items": ranking.items,
                    "places": [asdict(standing) for standing in ranking.places],
                }
                for ranking in self.rankings
            ],
            "reform": {name: asdict(standing) for name, standing in self.standings.items()},
            "gate": {
                "passed": self.passed, "verdict": self.verdict, "findings": [asdict(one) for one in self.findings]
            },
        }  # fmt: skip


def compare(
    paths: Sequence[Path],
    conditions: Sequence[gate.Condition] = (),
    *,
    other_data: bool = False,
    match: Match = None,
) -> Comparison:
    """Compares the first run with each of the others, and ranks all of them.

    A single run is only judged by the gate. `other_data` also compares runs that have other questions under the same
    keys. `match` is the pairing of items.

    Raises:
        ConfigError: A folder is not a run, the runs have nothing in common or other questions, a condition
            names something that a run does not have, or there are conditions and a run is not complete.
    """
    runs = scores.named([open_run(path) for path in paths])
    if conditions:
        _check_complete(runs)
    return compare_scores([scores.read(run) for run in runs], conditions, other_data=other_data, match=match)


def compare_scores(
    read: Sequence[scores.Scores],
    conditions: Sequence[gate.Condition] = (),
    *,
    other_data: bool = False,
    match: Match = None,
) -> Comparison:
    """Compares runs whose scores have been read; see `compare`."""
    runs = [side.run for side in read]
    pairings = [_pairing(read[0], other, match, other_data) for other in read[1:]]
    rankings = []
    if len(read) > 1:
        rankings = [Ranking(step, *statistics.leaderboard(read, step)) for step in read[0].steps]
    findings: list[gate.Finding] = []
    if conditions:
        if not pairings:
            findings += gate.judge(conditions, runs[0], None)
        for pairing in pairings:
            findings += gate.judge(conditions, pairing.second, pairing.pairs, read[0].steps, pairing.overall, runs[0])
    reform = {run.name: scores_of(run.results) for run in runs}
    placed = standings(reform) if len(runs) > 1 and any(reform.values()) else {}
    return Comparison(runs, pairings, [ranking for ranking in rankings if ranking.items], findings, placed)


def _pairing(one: scores.Scores, other: scores.Scores, match: Match, other_data: bool) -> Pairing:
    first, second = matched(one, other, match)
    if (why := scores.other_questions(first, second)) and not other_data:
        raise OtherQuestionsError(f"{why}; --other-data compares them all the same")
    # Two tools name their metrics differently, but their items have scores.
    units = statistics.shared(first, second) or statistics.shared(first.by_item(), second.by_item())
    pairs = statistics.compare_units(units)
    if not pairs:
        raise ConfigError(
            f"{first.run.name} and {second.run.name} have no scored item in common: "
            f"{_tasks(first)} and {_tasks(second)}; compare complete runs of the same tasks and rows, "
            f"or of tasks that are variants of one benchmark{by_row_instead(one.items, other.items, match)}"
        )
    cautions, overall = scores.cautions(first, second), statistics.pool(units)
    changed = facts.changes(first.run, second.run)
    return Pairing(second.run, cautions, pairs, overall, flips.flips(first, second), changed)


def _pair_json(pair: statistics.Paired) -> dict[str, Any]:
    return asdict(pair) | {"step": str(pair.step), "difference": pair.difference, "regression": pair.regression}


def _check_complete(runs: Sequence[Run]) -> None:
    for run in runs:
        if not run.tasks:
            raise ConfigError(
                f"--gate: {run.name} is not complete, it has no results.json: run its command again to the end, "
                "or compare without --gate"
            )


def _cell(value: float | None, rank: float | None) -> tuple[str, str]:
    return ("–", "") if value is None or rank is None else (f"{value:.1f}", f"{rank:g}")


def _tasks(run: scores.Scores) -> str:
    return ", ".join(sorted(run.items)) or "nothing scored"
