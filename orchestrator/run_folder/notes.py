"""Notes of a run: statements about itself that `results.json` has beside the metrics.

A way of running makes its notes once, with the results; readers print them without knowing the kinds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, convert


class Note(Struct, frozen=True, omit_defaults=True):
    """A statement of a run about itself.

    Attributes:
        kind: The way of running that it comes from.
        sentence: The statement, without a full stop; of a task it begins with the task's name.
        task: The task, "" for the run.
        value: The task's metric over all samples, a fraction; None where nothing is estimated.
        interval: Of `value`: `low`, `high`, `level` and `method`.
        brief: How the task's interval differs from a 95% CI of all samples, in a few words; "" where all were asked.
        comparison: `differs` and `sentence`: the consequence for a comparison with another run; empty without one.
        details: Numbers of its kind.
    """

    kind: str
    sentence: str
    task: str = ""
    value: float | None = None
    interval: Mapping[str, Any] = {}
    brief: str = ""
    comparison: Mapping[str, str] = {}
    details: Mapping[str, Any] = {}


def read(results: Mapping[str, Any]) -> Sequence[Note]:
    """Returns the notes of `results.json`; for a run of before they are made from its fields.

    Raises:
        ValueError: If one is damaged.
        KeyError: If a field of before lacks a number.
    """
    if "notes" in results:
        return convert(results["notes"], list[Note])
    makers = {"sequential": sequence_note, "sampled": share_note}
    tasks = results.get("tasks", {}).items()
    found = [make(task, of[kind]) for kind, make in makers.items() for task, of in tasks if kind in of]
    return [*found, *cut_notes(results.get("reasoning", {}))]


def sequence_note(task: str, found: Mapping[str, Any]) -> Note:
    """Returns the note on a task that was asked up to a stop, from the numbers of its confidence sequence."""
    every, difference = found["of_samples"], found.get("difference")
    asked, groups = f"{found['samples']:,} of {every:,} samples", _groups_asked(found)
    if found["stopped"]:
        text = f"{task} stopped early after {asked}{groups}"
        text += "" if difference else f": width {100 * found['width']:.1f}"
    else:
        text = f"{task} asked all {every:,} samples{groups}: {found['until']} was not met before"
    if difference:
        text += f", a difference of {_points(difference, '+')} against {found['against']}: {_decision(difference)}"
    brief, comparison = "", {}
    if found["stopped"]:
        text += f"; the {found['level']:.0%} confidence sequence is for {found['metric']} over all {every:,}"
        brief = f"confidence sequence, stopped after {asked}"
        fixed = "the intervals of this comparison are for a number of items fixed beforehand"
        comparison = {"differs": "how complete they are", "sentence": fixed}
    ends = _interval(found, found["level"], "confidence sequence")
    return Note("sequential", text, task, found["value"], ends, brief, comparison, found)


def share_note(task: str, found: Mapping[str, Any]) -> Note:
    """Returns the note on a random share of a task, from its numbers; `no_estimate` is why nothing is estimated."""
    every, sharper = found["of_samples"], found.get("with_items")
    brief = f"random {found['samples']:,} of {every:,} samples"
    text = f"{task} asked a {brief}{_groups_asked(found)}"
    comparison = {"differs": "how many samples they asked", "sentence": "this comparison is of the items in both"}
    if "no_estimate" in found:
        text += f": no estimate of all, since {found['no_estimate']}"
        return Note("sampled", text, task, brief=brief, comparison=comparison, details=found)
    text += f"; {found['metric']} of all {every:,} is estimated as {_points(found)} ({found['level']:.0%} CI)"
    if sharper:
        scores = f"the scores of {sharper['runs']:,} other run{'s' if sharper['runs'] > 1 else ''}"
        text += (
            f", with {scores} as {_points(sharper)} ({sharper['explained']:.0%} of the variance explained)"
            if sharper["explained"]
            else f"; {scores} do not narrow it"
        )
    best = sharper or found
    ends = _interval(best, found["level"], "survey")
    return Note("sampled", text, task, best["value"], ends, f"{brief}, of all {_points(best)}", comparison, found)


def cut_notes(found: Mapping[str, int]) -> list[Note]:
    """Returns the note on `cut` of `outputs` that were cut before options were scored after them; none without any."""
    if not found.get("cut"):
        return []
    text = f"{found['cut']:,} of {found['outputs']:,} outputs were cut at their limit, and the options are scored "
    return [Note("cut_outputs", f"{text}behind what there is", details=found)]


def metric_notes(tasks: Mapping[str, Mapping[str, Any]]) -> list[Note]:
    """Returns the notes that metrics of tasks have in their details, on the number of one that is not a slice."""
    return [
        Note("metric", f"{task}: {metric['name']} is {metric['details']['note']}", task)
        for task, found in tasks.items()
        for metric in found["metrics"]
        if "note" in metric["details"] and not metric["labels"]
    ]


def _groups_asked(found: Mapping[str, Any]) -> str:
    """Returns how many groups were asked, "" where each sample is one."""
    return f" ({found['units']:,} of {found['of_units']:,} groups)" if found["of_units"] != found["of_samples"] else ""


def _interval(ends: Mapping[str, Any], level: float, method: str) -> dict[str, Any]:
    return {"low": ends["low"], "high": ends["high"], "level": level, "method": method}


def _points(ends: Mapping[str, float], sign: str = "") -> str:
    value, low, high = (f"{100 * ends[name]:{sign}.1f}" for name in ("value", "low", "high"))
    return f"{value}{' points' if sign else ''} [{low}, {high}]"


def _decision(ends: Mapping[str, float]) -> str:
    if ends["low"] > 0 or ends["high"] < 0:
        return "better" if ends["low"] > 0 else "worse"
    return f"no difference of more than {100 * max(-ends['low'], ends['high']):.1f} points"
