"""Reports show metrics under their own names and in their own units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from helpers.report_runs import Writer, marvel_run
from rich.console import Console

from orchestrator.report import page as page_of, plots, published
from orchestrator.report.blind import twin
from orchestrator.report.terminal import print_results
from orchestrator.run_folder.metrics import metric_results
from orchestrator.run_folder.reader import Run, open_run
from scorer.metrics import calibration
from scorer.metrics.base import Params
from scorer.metrics.table import CODES, Table


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
    tasks = {
        task: {"metrics": [one(task, "Acc", "accuracy", *share), one(task, "Instability", "instability", 0.5, "nats")]}
        for task, share in shares.items()
    }
    results = list(metric_results(tasks))
    (dimensions,) = plots.dimensions(results, {"a": "one", "b": "two", "c": "three"})
    assert "two: 25.0, 1 tasks" in str(dimensions.layout)
    (spread,) = plots.instability(results, {})
    assert "b: accuracy 25.0, instability 0.5" in str(spread.layout)


def test_a_number_without_an_interval_says_why(tmp_path: Path) -> None:
    folder = marvel_run(tmp_path / "run")
    results = orjson.loads((folder / "results.json").read_bytes())
    reasons = ["it asks a judge \x1b[2J"] * 5 + ["it takes too long"]
    metric = next(entry for entry in results["tasks"]["marvel"]["metrics"] if not entry.get("labels"))
    bare = {name: value for name, value in metric.items() if name != "interval"}
    results["tasks"]["marvel"]["metrics"] = [metric] + [
        bare | {"name": f"m{number}", "details": {"no_interval": reason}} for number, reason in enumerate(reasons)
    ]
    (folder / "results.json").write_bytes(orjson.dumps(results))
    page = page_of.render(open_run(folder))
    assert re.findall(r"<p class=\"note\">No interval: (.*?)</p>", page) == [
        "marvel, m0; marvel, m1; marvel, m2 and 2 more: it asks a judge \x1b[2J",
        "marvel, m5: it takes too long",
    ]
    console = Console(record=True, width=120)
    print_results(folder, console)
    shown = console.export_text()
    assert "\n  no interval, see the report: m0, m1, m2 and 3 more\n" in shown
    assert "\x1b" not in shown


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
        answer, right = ("yes", "no")[number % 2], number // 4
        fields = {"rule": "reform_choice", "targets": [targets[right]], "options": ["no", "yes"]}
        writer.item(f"reform_mscoco_itm/{number}", answer="(A)", score=1.0, verdict={"extracted": answer}, **fields)
    page = page_of.render(open_run(writer.close()))
    assert set(re.findall(r"\w+: chosen [\d.]+, right [\d.]+", page)) == {
        "no: chosen 50.0, right 50.0",
        "yes: chosen 50.0, right 50.0",
    }


def test_beside_published_metrics_a_run_says_what_it_is_over(tmp_path: Path) -> None:
    overall, *_ = published.tables(open_run(marvel_run(tmp_path / "run", puzzles=12)))
    ours, *others = overall.rows
    assert ours.cells[0].endswith(" n=12")
    assert all("n=" not in row.cells[0] for row in others)
    assert "not the paper's" not in overall.source
    synthetic = marvel_run(tmp_path / "synthetic", data={"marvel": {"origin": "synthetic, seed 0"}}, limit=12)
    overall, *_ = published.tables(open_run(synthetic))
    assert overall.source.endswith("This run has synthetic rows, the first 12 rows alone, not the paper's.")


@pytest.mark.parametrize("changed", [{"settings": {"marvel": {"letters": True}}}, {"method": "likelihood"}])
def test_a_run_of_another_protocol_has_no_cells(tmp_path: Path, changed: dict[str, Any]) -> None:
    table = published.tables(open_run(marvel_run(tmp_path / "run", puzzles=12, **changed)))[0]
    assert set(table.rows[0].cells) == {"–"}
    assert published.OTHERWISE in table.source
