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
        kind: The way of running that made it.
        sentence: The statement, without a full stop; of a task it begins with the task's name.
        task: The task, "" for the run.
        value: The task's metric over all samples, a fraction; None if nothing is estimated.
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
    """Returns the notes of `results.json`; for an older run they are made from its fields.

    Raises:
        ValueError: If one is damaged.
        KeyError: If an older field lacks a number.
    """
    if "notes" in results:
        return convert(results["notes"], list[Note])
    makers = {"sequential": sequence_note, "sampled": share_note}
    tasks = results.get("tasks", {}).items()
    notes = [make(task, of[kind]) for kind, make in makers.items() for task, of in tasks if kind in of]
    return [*notes, *cut_notes(results.get("reasoning", {}))]


def sequence_note(task: str, details: Mapping[str, Any]) -> Note:
    """Returns the note on a task that was asked up to a stop, from the numbers of its confidence sequence."""
    every, difference = details["of_samples"], details.get("difference")
    count, groups = f"{details['samples']:,} of {every:,} samples", _groups_asked(details)
    if details["stopped"]:
        text = f"{task} stopped early after {count}{groups}"
        text += "" if difference else f": width {100 * details['width']:.1f}"
    else:
        text = f"{task} asked all {every:,} samples{groups}: {details['until']} was not met before"
    if difference:
        text += f", a difference of {_points(difference, '+')} against {details['against']}: {_decision(difference)}"
    brief, comparison = "", {}
    if details["stopped"]:
        text += f"; the {details['level']:.0%} confidence sequence is for {details['metric']} over all {every:,}"
        brief = f"confidence sequence, stopped after {count}"
        fixed = "the intervals of this comparison are for a number of items fixed beforehand"
        comparison = {"differs": "how complete they are", "sentence": fixed}
    ends = _interval(details, details["level"], "confidence sequence")
    return Note("sequential", text, task, details["value"], ends, brief, comparison, details)


def share_note(task: str, details: Mapping[str, Any]) -> Note:
    """Returns the note on a random share of a task, from its numbers; `no_estimate` is the reason for no estimate."""
    every, sharper = details["of_samples"], details.get("with_items")
    brief = f"random {details['samples']:,} of {every:,} samples"
    text = f"{task} asked a {brief}{_groups_asked(details)}"
    comparison = {"differs": "how many samples they asked", "sentence": "this comparison is of the items in both"}
    if "no_estimate" in details:
        text += f": no estimate of all, since {details['no_estimate']}"
        return Note("sampled", text, task, brief=brief, comparison=comparison, details=details)
    text += f"; {details['metric']} of all {every:,} is estimated as {_points(details)} ({details['level']:.0%} CI)"
    if sharper:
        scores = f"the scores of {sharper['runs']:,} other run{'s' if sharper['runs'] > 1 else ''}"
        text += (
            f", with {scores} as {_points(sharper)} ({sharper['explained']:.0%} of the variance explained)"
            if sharper["explained"]
            else f"; {scores} do not narrow it"
        )
    best = sharper or details
    ends = _interval(best, details["level"], "survey")
    return Note("sampled", text, task, best["value"], ends, f"{brief}, of all {_points(best)}", comparison, details)


def cut_notes(details: Mapping[str, int]) -> list[Note]:
    """Returns the note on `cut` of `outputs` that were cut before options were scored after them; none without any."""
    if not details.get("cut"):
        return []
    text = f"{details['cut']:,} of {details['outputs']:,} outputs were cut at their limit, and the options are scored "
    return [Note("cut_outputs", f"{text}behind what there is", details=details)]


def metric_notes(tasks: Mapping[str, Mapping[str, Any]]) -> list[Note]:
    """Returns the notes that metrics of tasks have in their details, on the number of one that is not a slice."""
    return [
        Note("metric", f"{task}: {metric['name']} is {metric['details']['note']}", task)
        for task, results in tasks.items()
        for metric in results["metrics"]
        if "note" in metric["details"] and not metric["labels"]
    ]


def _groups_asked(details: Mapping[str, Any]) -> str:
    """Returns the number of groups asked, as text; "" if each sample is its own group."""
    return (
        f" ({details['units']:,} of {details['of_units']:,} groups)"
        if details["of_units"] != details["of_samples"]
        else ""
    )


def _interval(ends: Mapping[str, Any], level: float, method: str) -> dict[str, Any]:
    return {"low": ends["low"], "high": ends["high"], "level": level, "method": method}


def _points(ends: Mapping[str, float], sign: str = "") -> str:
    value, low, high = (f"{100 * ends[name]:{sign}.1f}" for name in ("value", "low", "high"))
    return f"{value}{' points' if sign else ''} [{low}, {high}]"


def _decision(ends: Mapping[str, float]) -> str:
    if ends["low"] > 0 or ends["high"] < 0:
        return "better" if ends["low"] > 0 else "worse"
    return f"no difference of more than {100 * max(-ends['low'], ends['high']):.1f} points"
