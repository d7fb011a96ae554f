"""Sentences of tasks about settings: printed once, after the names of their tasks."""

from __future__ import annotations

import dataclasses

from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.registry import find
from orchestrator.data.rows import RowSource
from orchestrator.run.plan import Plan, Task
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.notes import metric_notes
from orchestrator.samples import Variant


def test_a_sentence_of_several_tasks_is_said_once() -> None:
    (benchmark,) = find(["vstar_bench"]).values()
    wise = dataclasses.replace(benchmark, advice=lambda _, info: [f"{info.model_name} may be asked otherwise"])
    source = RowSource("none", "", 0, lambda: iter(()))
    names = ["a", "b", "c", "d", "e"]
    tasks = tuple(Task(wise, Variant(task=name, settings=None), source) for name in names)
    silent = Task(benchmark, Variant(task="f", settings=None), source)
    plan = Plan((*tasks, silent), RunRequest(names))
    info = model.GetModelInfoResponse(model_name="m")
    assert plan.advice(info) == ["a, b, c and 2 more: m may be asked otherwise"]


def test_what_a_metric_notes_is_a_note_of_its_task() -> None:
    metric = {"name": "acc", "labels": {}, "details": {"note": "0.5 otherwise"}}
    others = [metric | {"labels": {"a": "b"}}, metric | {"details": {}}]
    (note,) = metric_notes({"t": {"metrics": [metric, *others]}})
    assert (note.sentence, note.task) == ("t: acc is 0.5 otherwise", "t")
