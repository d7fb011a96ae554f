"""The page of equality: what it holds against each other, and that it does (`make equality` writes its table)."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import equality_draw, equality_explained, equality_lmms

ABSENT = importlib.util.find_spec("lmms_eval") is None
installed = pytest.mark.skipif(ABSENT, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'")
FIXTURE: dict[str, Any] = json.loads(equality_lmms.FIXTURE.read_text())
STRATA = {"judge", "group", "visual CoT", "multi-round", "audio", "video", "dice", "others"}


def test_the_list_is_a_draw_of_every_stratum() -> None:
    counts = Counter(about["stratum"] for about in FIXTURE["drawn"].values())
    assert (FIXTURE["seed"], FIXTURE["version"], set(counts)) == (equality_draw.SEED, "0.7.3", STRATA)
    assert counts == equality_draw.QUOTA
    assert counts.total() == 60
    assert not FIXTURE["drawn"].keys() & FIXTURE["passed over"].keys()
    cases = equality_lmms.cases(FIXTURE, 8)
    assert {case.about["stratum"] for case in cases[:-2]} == STRATA, "the first of each stratum come first"
    assert [(case.name, case.answers) for case in cases[-2:]] == [("mmmu_val", "readable70")] * 2


@installed
@pytest.mark.weekly
@pytest.mark.timeout(1800)
def test_the_list_is_that_of_the_seed() -> None:
    for stratum, names in equality_draw.population().items():
        order = equality_draw.shuffled(stratum, names)
        taken = [name for name in order if FIXTURE["drawn"].get(name, {}).get("stratum") == stratum]
        looked_at = order[: order.index(taken[-1]) + 1]
        assert not set(looked_at) - set(taken) - FIXTURE["passed over"].keys(), stratum


def _metric(name: str, value: float | None, **details: Any) -> dict[str, Any]:
    return {"task": "lmms:t", "name": name, "value": value, "labels": {}, "details": details}


@installed
def test_a_number_is_equal_by_item_or_in_the_evaluators_order_or_has_a_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality_lmms, "harness", lambda _: SimpleNamespace(groups=lambda _: []))
    ours = [
        _metric("same", 0.5),
        _metric("dice", 0.5, in_harness_order=0.25),
        _metric("off", 0.5, no_harness_order="its data draw random numbers as well"),
        _metric("none", None),
    ]
    case = equality_lmms.Case("t", {"stratum": "dice", "kind": "generate_until"}, "")
    expected: dict[tuple[str, str], Any] = {("t", "same"): 0.5, ("t", "dice"): 0.25, ("t", "none"): float("nan")}
    equality_lmms.compare(case, expected, ours)
    assert (case.metrics, case.in_order, case.cause) == (2, 1, "")
    equality_lmms.compare(case, {("t", "off"): 0.75, ("t", "lost"): 1.0}, ours)
    assert case.cause == (
        "off is 0.75, here 0.5 (its data draw random numbers as well); lost is 1.0, here there is none"
    )
    assert "| dice | 1 | 1 | 0 | 0 of 4 | 1 |" in equality_lmms.table([case], FIXTURE)


@installed
@pytest.mark.weekly
@pytest.mark.timeout(3600)
def test_the_first_of_every_stratum_give_the_metrics_of_lmms_evals_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("HF_HOME", str(tmp_path / "hub")), ("HF_HUB_OFFLINE", "1"), ("HF_DATASETS_OFFLINE", "1")):
        monkeypatch.setenv(name, value)
    cases = list(equality_lmms.played(equality_lmms.cases(FIXTURE, 8), tmp_path))
    wrong = {case.label: case.cause for case in cases if case.cause and case.name not in FIXTURE.get("unequal", {})}
    assert not wrong
    assert sum(case.metrics for case in cases) >= 8
    assert all(case.in_order == case.metrics for case in cases if case.answers)


def test_every_configuration_gets_a_cause_that_can_be_planted_in_it() -> None:
    every = equality_lmms.cases(FIXTURE)
    cases = equality_explained.planted(every)
    assert [(case.name, case.model) for case in cases] == [(case.name, case.model) for case in every[:-2]]
    counts = Counter(case.plant for case in cases)
    assert counts.keys() == equality_explained.RIGHT_CAUSES.keys()
    assert all((case.plant == "model") is bool(case.model) for case in cases)
    one, other = (equality_explained.Explained(cases[0]) for _ in range(2))
    one.causes.update({cases[0].plant: 3, "noise": 1})
    one.answers.update({cases[0].plant: 9, "noise": 1})
    other.imported = "it differs"
    assert equality_explained.summary([one, other]).splitlines()[::2] == [
        "imported with lmms-eval's metrics: 1 of 2",
        "put down to what was planted: 75.0% (3 of 4) with another score, 90.0% (9 of 10) with another answer or score",
    ]


def test_what_a_file_has_is_not_played_again(tmp_path: Path) -> None:
    first, *rest = equality_explained.planted(equality_lmms.cases(FIXTURE, 3))
    entry = equality_explained.Explained(first, imported="it differs", failed="no samples")
    entry.causes.update({"limit": 2})
    entry.answers.update({"limit": 3, "decoding": 1})
    file = tmp_path / "done.jsonl"
    file.write_text(json.dumps(equality_explained.outcome(entry)) + "\n")
    assert list(equality_explained.stored(file, [first, *rest])) == [entry]
    assert not list(equality_explained.stored(file, rest))


@installed
@pytest.mark.weekly
@pytest.mark.timeout(3600)
def test_samples_of_the_first_of_every_stratum_are_imported_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("HF_HOME", str(tmp_path / "hub")), ("HF_HUB_OFFLINE", "1"), ("HF_DATASETS_OFFLINE", "1")):
        monkeypatch.setenv(name, value)
    outcomes = list(equality_explained.played(equality_explained.planted(equality_lmms.cases(FIXTURE, 8)), tmp_path))
    assert not [
        (outcome.case.label, outcome.imported or outcome.failed)
        for outcome in outcomes
        if outcome.imported or outcome.failed
    ]
    for name in ("causes", "answers"):
        counted = [(outcome, getattr(outcome, name)) for outcome in outcomes]
        right, items = sum(outcome.right(each) for outcome, each in counted), sum(each.total() for _, each in counted)
        assert right >= 0.95 * items > 0, equality_explained.summary(outcomes)
