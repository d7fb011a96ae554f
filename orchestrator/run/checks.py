"""The checks of a complete run: whether it came to results, which is what its exit code says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.errors import LimitError
from orchestrator.run import results as run_results
from orchestrator.run.asked import check_asked, shortened
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.files import PARITY_FOLDER
from orchestrator.run_folder.metrics import counts, metric_results, undefined
from orchestrator.run_folder.reader import open_run
from orchestrator.run_folder.validity import Cause, may_be, of_results

_LOOK = "look at the answers in {}/report.html"
_FIXES: Mapping[str, str] = {
    Cause.UNREAD: f"{_LOOK}; a limit of yours, --max-unparsed SHARE, replaces that of half of the answers",
    Cause.UNANSWERED: f"{_LOOK}; limits of yours, --max-rejected SHARE and its like, replace that of half of the items",
}
_LIMITED = ("unparsed", "failed", "rejected", "unjudged")


def check(run: Path, request: RunRequest) -> None:
    """Makes sure that a complete run of a request comes to results.

    Raises:
        ConfigError: If the model was asked nothing of a task, by a mistake that the message names.
        IncompleteError: If it was not for another reason.
        LimitError: If too many items have no result, none could be judged, or a metric failed or has no result.
    """
    check_asked(run, shard=bool(request.shard))
    check_limits(run, request)
    check_metrics(run)
    if not request.shard:  # it may hold a single item of a task, which says nothing; the merged run shows the rest
        check_results(run, [name for name in _LIMITED if getattr(request, f"max_{name}") is not None])


def check_limits(run: Path, request: RunRequest) -> None:
    """Holds a complete run against the shares of items without a result that its request allows.

    Raises:
        LimitError: If there are more, or no item at all could be judged.
    """
    total = counts(run_results.read(run)["tasks"])
    for name in _LIMITED:
        limit = getattr(request, f"max_{name}")
        if limit is not None and total[name] > limit * total["planned"]:
            raise LimitError(
                f"{total[name]:,} of {total['planned']:,} items are {name}, --max-{name} allows {limit:.1%}"
            )
    check_judged(run)


def check_judged(run: Path) -> None:
    """Makes sure that judges, and code of tasks, decided something in a complete run.

    Raises:
        LimitError: If no item at all could be judged.
    """
    total = counts(run_results.read(run)["tasks"])
    if total["unjudged"] and not total["scored"] + total["unparsed"]:
        again = f"{run.parent} --parity" if run.name == PARITY_FOLDER else run
        left = [line for line in open_run(run).unscored() if line.outcome == Outcome.UNJUDGED]
        if all(line.by_judge for line in left):
            fix = f"orchestrator score {again} asks the judge again"
        else:
            line = next(line for line in left if not line.by_judge)
            fix = f"{line.reason}: {shortened(line.detail)}; mend it, then run: orchestrator score {again}"
        raise LimitError(f"none of the {total['unjudged']:,} items could be judged; {fix}")


def check_metrics(run: Path) -> None:
    """Checks that no metric of a complete run failed; a metric without the data it needs is not a failure.

    Raises:
        LimitError: One did; the message has the first reason, results.json and the report have all.
    """
    failed = undefined([result for result in metric_results(run_results.read(run)["tasks"]) if result.failed])
    if failed:
        raise LimitError(
            f"{len(failed):,} metric{'s' if len(failed) > 1 else ''} could not be computed, all others stand: "
            f"{failed[0]}; mend it, then run: orchestrator score {run}"
        )


def check_results(run: Path, allowed: Collection[str] = ()) -> None:
    """Makes sure that the metrics of a complete run are results.

    Args:
        run: The run folder.
        allowed: Outcomes whose share the command bounds itself, so that the limit of half of the items does not apply.

    Raises:
        LimitError: Those of a task are not; the message has the first reason, the report has all.
    """
    void = [
        (task, doubt)
        for task, results in open_run(run).tasks.items()
        for doubt in of_results(results)
        if doubt.void and not may_be(doubt, counts({task: results}), allowed)
    ]
    if void:
        (task, doubt), *more = void
        others = f", and {len(more):,} more task{'s' if len(more) > 1 else ''}" if more else ""
        raise LimitError(f"{task}: {doubt.sentence}{others}", fix=_FIXES.get(doubt.cause, _LOOK).format(run))
