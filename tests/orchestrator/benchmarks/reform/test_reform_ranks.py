"""Averages and ranks over several models."""

from __future__ import annotations

import pytest

from orchestrator.benchmarks.reform.ranks import scores_of, standings


def metric(name, value, unit="fraction", labels=None):
    return {"name": name, "value": value, "unit": unit, "labels": labels or {}}


def test_scores_of_a_run():
    results = {
        "tasks": {
            "reform_gqa": {"metrics": [metric("Accuracy", 0.5, labels={"a": "b"}), metric("Accuracy", 0.25)]},
            "reform_mscoco": {"metrics": [metric("BLEU-4 (raw text)", 0.2), metric("CIDEr (raw text)", 0.8)]},
            "reform_nocaps": {"metrics": [metric("CIDEr (PTB tokens)", None)]},
            "marvel": {"metrics": [metric("Accuracy", 1.0)]},
        }
    }
    assert scores_of(results) == {"reform_gqa": 25.0, "reform_mscoco": 80.0}


def test_dimensions_are_plain_means_and_ties_share_the_better_rank():
    models = {
        "a": {"reform_gqa": 40.0, "reform_whoops": 60.0, "reform_vsr": 70.0},
        "b": {"reform_gqa": 50.0, "reform_whoops": 50.0, "reform_vsr": 80.0},
        "c": {"reform_gqa": 10.0, "reform_whoops": 10.0, "reform_vsr": 90.0},
    }
    ranked = standings(models)
    assert ranked["a"].dimensions == {"vgr": 50.0, "spatial": 70.0}
    assert [ranked[name].ranks["vgr"] for name in "abc"] == [1, 1, 3]
    assert [ranked[name].ranks["spatial"] for name in "abc"] == [3, 2, 1]
    assert ranked["a"].average == 60.0
    assert ranked["b"].average_rank == pytest.approx(1.5)


def test_means_that_differ_by_rounding_tie():
    tasks = ("reform_gqa", "reform_ok_vqa", "reform_whoops")
    rights = {"a": (1, 1, 19), "b": (7, 7, 7)}  # of 50
    ranked = standings(
        {name: {task: 100 * (n / 50) for task, n in zip(tasks, of, strict=True)} for name, of in rights.items()}
    )
    assert ranked["a"].dimensions["vgr"] != ranked["b"].dimensions["vgr"], "floating point makes them differ"
    assert [ranked[name].ranks["vgr"] for name in "ab"] == [1, 1]


def test_a_gap_leaves_a_dimension_open_and_is_named():
    ranked = standings({"a": {"reform_gqa": 40.0, "reform_vsr": 1.0}, "b": {"reform_gqa": 50.0}})
    assert ranked["b"].dimensions == {"vgr": 50.0, "spatial": None}
    assert ranked["b"].average is None
    assert ranked["b"].average_rank is None
    assert ranked["b"].missing == ("reform_vsr",)
    assert ranked["a"].average_rank == 1.5
    assert standings({}) == {}


def test_published_rows():
    """The average of the paper's BLIP-2 row by likelihood is the mean of its six dimensions."""
    row = dict(zip(("cg", "fg", "vgr", "spatial", "dialog", "cmi"), (60.7, 74.4, 51.1, 69.8, 62.6, 58.9), strict=True))
    tasks = {
        "cg": "reform_medic",
        "fg": "reform_refcoco",
        "vgr": "reform_gqa",
        "spatial": "reform_vsr",
        "dialog": "reform_visdial",
        "cmi": "reform_snli_ve",
    }
    (standing,) = standings({"BLIP-2": {tasks[key]: value for key, value in row.items()}}).values()
    assert standing.average == pytest.approx(62.92, abs=0.005)
