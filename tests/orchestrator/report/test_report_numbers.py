"""What reports and exports make of metrics: none lost under another's name, none in another's unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest
from helpers.report_runs import Writer, accuracy, marvel_run

from lyncean_interop import lmms_eval_export, tables, trackers
from orchestrator.report import page as page_of, plots, published
from orchestrator.report.blind import twin
from orchestrator.run_folder.metrics import metric_results
from orchestrator.run_folder.reader import Run, open_run
from scorer.metrics import calibration
from scorer.metrics.base import Params
from scorer.metrics.table import CODES, Table


def sliced_run(path: Path) -> Path:
    """A result sliced by two labels that have a value in common, and by one that is empty."""
    writer = Writer(path, tasks=["voila_wd"])
    writer.item("voila_wd/1", answer="x", score=1.0)
    slices = {"rule": {"1": 0.25}, "distractions": {"1": 0.75}, "source": {"": 0.5}}
    made = [accuracy("all three", writer.verdicts)]
    for label, values in slices.items():
        made += [made[0] | {"labels": {label: value}, "value": share} for value, share in values.items()]
    return writer.close({"voila_wd": made})


def test_slices_of_the_same_value_are_different_metrics_to_a_tracker(tmp_path: Path) -> None:
    found = trackers.metrics(open_run(sliced_run(tmp_path / "run")))
    values = {
        name: value
        for name, value in found.items()
        if name.startswith("voila_wd/") and name[-4:] not in ("high", " low")
    }
    assert {name: value for name, value in values.items() if not name.startswith("items/")} == {
        "voila_wd/all three": 1.0,
        "voila_wd/all three rule=1": 0.25,
        "voila_wd/all three distractions=1": 0.75,
        "voila_wd/all three source=": 0.5,
    }


def test_slices_of_the_same_value_are_different_metrics_to_inspect(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai.log")
    from inspect_ai.log import read_eval_log

    from lyncean_interop import inspect

    (path,) = inspect.write(open_run(sliced_run(tmp_path / "run")), tmp_path / "logs", embed=False)
    results = read_eval_log(str(path)).results
    assert results is not None
    assert {name: metric.value for name, metric in results.scores[0].metrics.items()} == {
        "all three": 1.0,
        "all three [rule=1]": 0.25,
        "all three [distractions=1]": 0.75,
        "all three [source=]": 0.5,
    }


def test_an_empty_label_is_no_overall_metric(tmp_path: Path) -> None:
    lines = tables.markdown([open_run(sliced_run(tmp_path / "run"))]).splitlines()
    assert [line.split(" | ")[0] for line in lines if " 50.0 " in line] == ["| –"]


def test_lmms_eval_is_told_which_way_is_up_and_a_standard_error_of_its_level(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(4):
        writer.item(f"marvel/{number}", answer="1", score=float(number < 2))
    made = accuracy("AVR", writer.verdicts)
    wide = {"low": 0.5 - 2.575829 * 0.1, "high": 0.5 + 2.575829 * 0.1, "level": 0.99, "method": "wilson"}
    others = [("bias", "choice_bias"), ("spread", "instability"), ("refused", "rate")]
    metrics = [made | {"interval": wide}, *(made | {"name": name, "metric": metric} for name, metric in others)]
    (results, *_) = lmms_eval_export.write(open_run(writer.close({"marvel": metrics})), tmp_path / "out")
    found = orjson.loads(results.read_bytes())
    assert found["higher_is_better"]["marvel"] == {"AVR": True, "bias": False, "spread": False}
    assert found["results"]["marvel"]["AVR_stderr,none"] == pytest.approx(0.1, abs=1e-6)


def test_the_chart_of_calibration_says_what_the_metric_says() -> None:
    # At the edges of bins: two options that are alike to a model have 0.5 each.
    pairs = np.array([[0.5, 1.0], [0.5, 0.0], [0.5, 1.0], [0.52, 0.0], [0.58, 1.0], [0.3, 0.0], [1.0, 1.0]])
    count = len(pairs)
    table = Table(
        outcome=np.full(count, CODES["scored"], np.uint8),
        score=pairs[:, 1],
        group=np.arange(count),
        sample=np.arange(count),
        repeat=np.zeros(count, np.int32),
        combination=np.zeros(count, np.int32),
        labels=[{}],
        parts={"probability": pairs[:, 0]},
    )
    expected = 100 * calibration.plan(Params({})).compute(table).value
    assert f"expected calibration error {expected:.1f} points" in plots.calibration(plots.Pairs(pairs.tolist())).note


def test_a_metric_in_percent_is_drawn_as_percent() -> None:
    def one(task: str, name: str, metric: str, value: float, unit: str) -> dict[str, object]:
        return {"name": name, "metric": metric, "value": value, "unit": unit}

    shares = {"a": (0.25, "fraction"), "b": (25.0, "percent"), "c": (0.5, "fraction")}
    made = {
        task: {"metrics": [one(task, "Acc", "accuracy", *share), one(task, "Instability", "instability", 0.5, "nats")]}
        for task, share in shares.items()
    }
    found = list(metric_results(made))
    (dimensions,) = plots.dimensions(found, {"a": "one", "b": "two", "c": "three"})
    assert "two: 25.0, 1 tasks" in str(dimensions.layout)
    (spread,) = plots.instability(found, {})
    assert "b: accuracy 25.0, instability 0.5" in str(spread.layout)


def test_a_blind_run_of_other_rows_is_no_twin_and_one_of_fewer_says_how_many(tmp_path: Path) -> None:
    def opened(name: str, digest: str, **identity: object) -> Run:
        data = {"marvel": {"origin": name, "sha256": digest * 64}}
        return open_run(marvel_run(tmp_path / name, data=data, **identity))

    sighted = opened("sighted", "a", puzzles=40, blind=False)
    others = opened("others", "b", puzzles=40, blind=True)
    fewer = opened("elsewhere", "a", puzzles=23, limit=23, blind=True)
    assert twin(sighted, [others]) is None
    assert twin(sighted, [others, fewer]) is fewer
    page = page_of.render(sighted, blind=fewer)
    cells = re.findall(r'<td class="number of">([^<]*)</td>', page.split("<tbody>")[1])[:3]
    assert cells[0] == "40"
    assert cells[2] == "23"


@pytest.mark.parametrize("targets", ["01", ("(A)", "(B)"), ("(a)", "(b)"), ("(1)", "(2)")])
def test_what_is_chosen_and_what_is_right_have_the_same_names(tmp_path: Path, targets: Sequence[str]) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(8):
        said, right = ("yes", "no")[number % 2], number // 4
        given = {"rule": "reform_choice", "targets": [targets[right]], "options": ["no", "yes"]}
        writer.item(f"reform_mscoco_itm/{number}", answer="(A)", score=1.0, verdict={"extracted": said}, **given)
    page = page_of.render(open_run(writer.close()))
    assert set(re.findall(r"\w+: chosen [\d.]+, right [\d.]+", page)) == {
        "no: chosen 50.0, right 50.0",
        "yes: chosen 50.0, right 50.0",
    }


def test_beside_published_metrics_a_run_says_what_it_is_over(tmp_path: Path) -> None:
    result = {"name": "AVR", "metric": "accuracy", "value": 0.25, "unit": "fraction", "denominator": "12"}
    overall, *_ = published.tables(["marvel"], list(metric_results({"marvel": {"metrics": [result]}})))
    own, *others = overall.rows
    assert own.cells[0] == "25.00 n=12"
    assert all("n=" not in row.cells[0] for row in others)
