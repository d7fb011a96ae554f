"""Exports lose no metric under another's name and write none in another's unit."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from helpers.grouped_runs import two_runs
from helpers.report_runs import Writer, accuracy

from lyncean_interop import lmms_eval_export, tables, trackers
from orchestrator.cli.export import command as export
from orchestrator.run_folder.reader import open_run


def sliced_run(path: Path) -> Path:
    """A result sliced by two labels that have a value in common, and by one that is empty."""
    writer = Writer(path, tasks=["voila_wd"])
    writer.item("voila_wd/1", answer="x", score=1.0)
    slices = {"rule": {"1": 0.25}, "distractions": {"1": 0.75}, "source": {"": 0.5}}
    metrics = [accuracy("all three", writer.verdicts)]
    for label, values in slices.items():
        metrics += [metrics[0] | {"labels": {label: value}, "value": share} for value, share in values.items()]
    return writer.close({"voila_wd": metrics})


def test_slices_of_the_same_value_are_different_metrics_to_a_tracker(tmp_path: Path) -> None:
    tracked = trackers.metrics(open_run(sliced_run(tmp_path / "run")))
    values = {
        name: value
        for name, value in tracked.items()
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


def test_lmms_eval_counts_the_documents_of_each_task(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", tasks=["marvel", "voila_wd"])
    for key in ("marvel/1", "marvel/2", "voila_wd/1"):
        writer.item(key, answer="A", score=1.0, targets=["A"])
    _, *samples = lmms_eval_export.write(open_run(writer.close()), tmp_path / "out")
    assert [[orjson.loads(line)["doc_id"] for line in path.read_bytes().splitlines()] for path in samples] == [
        [0, 1],
        [0],
    ]


def test_lmms_eval_is_told_which_way_is_up_and_a_standard_error_of_its_level(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    for number in range(4):
        writer.item(f"marvel/{number}", answer="1", score=float(number < 2))
    avr = accuracy("AVR", writer.verdicts)
    wide = {"low": 0.5 - 2.575829 * 0.1, "high": 0.5 + 2.575829 * 0.1, "level": 0.99, "method": "wilson"}
    others = [("bias", "choice_bias"), ("spread", "instability"), ("refused", "rate")]
    metrics = [avr | {"interval": wide}, *(avr | {"name": name, "metric": metric} for name, metric in others)]
    (results, *_) = lmms_eval_export.write(open_run(writer.close({"marvel": metrics})), tmp_path / "out")
    exported = orjson.loads(results.read_bytes())
    assert exported["higher_is_better"]["marvel"] == {"AVR": True, "bias": False, "spread": False}
    assert exported["results"]["marvel"]["AVR_stderr,none"] == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize("form", ["md", "latex", "model-card", "lmms-eval"])
def test_exports_have_the_group(form: str, tmp_path: Path) -> None:
    run, _ = two_runs(tmp_path)
    done = CliRunner().invoke(export, [str(run), "--format", form, "--output", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    written = [file for file in [tmp_path / "out", *(tmp_path / "out").rglob("*")] if file.is_file()]
    assert any("lmms:all" in file.read_text() and "0.625" in file.read_text() for file in written)
