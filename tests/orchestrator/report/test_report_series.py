"""The page of a suite with checkpoints: its curves, what changed between checkpoints, and what its gate said."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer
from helpers.series_runs import ITEMS, change, series

from orchestrator.cli import main
from orchestrator.compare.curve import curves
from orchestrator.errors import ConfigError
from orchestrator.report import leaderboard as boards, series as pages
from orchestrator.suite import outputs, record, training

SKILLS = (0.2, 0.5, 0.8, 0.4, 0.9)


def text_of(page: str) -> str:
    """Text of a page, without markup."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def page_of(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["report", *arguments])
    assert done.exit_code == 0, done.output
    return Path(done.output.split()[-1]).read_text()


def test_values_changes_and_flips_are_those_of_the_runs(tmp_path: Path) -> None:
    folder = series(tmp_path / "warm", SKILLS, tasks=("marvel", "vstar_bench"), begun=1)
    curve, other = curves([training.read(folder)])
    (line,) = curve.lines
    assert (curve.task, other.task) == ("marvel", "vstar_bench")
    assert [point.step for point in line.points] == [100, 200, 300, 400, 500]
    assert [point.before for point in line.points] == [None, 100, 200, 300, None]
    assert [str(point.state) for point in line.points] == ["complete"] * 4 + ["not run"]
    for first, second in pairwise(line.known):
        assert first.metric
        assert second.metric
        assert second.change
        assert second.flips
        difference = (second.metric.value or 0) - (first.metric.value or 0)
        assert second.change.difference == pytest.approx(difference)
        assert second.flips.gained - second.flips.lost == round(difference * ITEMS)
    page = text_of(page_of(str(folder)))
    for point in line.known:
        assert point.metric
        assert f"{point.metric.text(point.metric.value)} {point.metric.interval} {ITEMS}" in page
    last = line.known[-1].flips
    assert last is not None
    assert f"Step 300 → 400: {last.gained} better, {last.lost} worse" in page
    assert next(iter(last.read(1))).first.key in page


def test_alarms_noise_and_baselines_are_shown(tmp_path: Path) -> None:
    changes = [
        change(2, 0.3, noise=0.01),
        change(4, -0.4, why="fell by 40.0 points beyond chance", noise=0.01),
        change(5, 0.005, noise=0.01),
    ]
    folder = series(tmp_path / "warm", SKILLS, baseline="reference", fixed=0.7, changes=changes)
    raw = page_of(str(folder))
    page = text_of(raw)
    assert "1 alarm" in page
    assert "step_400: fell by 40.0 points beyond chance" in page
    assert "step_900 is not complete" in page
    assert "noise +0.5 [−19.5, +20.5] ±1.0" in page
    assert "noise +30.0" not in page
    assert "baseline: reference" in page
    assert "baseline reference: " in page
    assert len(re.findall(r'<circle class="alarm"', raw)) == 1
    assert len(re.findall(r'<line class="rule', raw)) == 1


def test_trainings_stand_on_one_axis(tmp_path: Path) -> None:
    warm, cold = series(tmp_path / "a/night", SKILLS), series(tmp_path / "b/night", (0.1, 0.2, 0.3))
    output = tmp_path / "both.html"
    raw = page_of(str(warm), str(cold), "--output", str(output))
    assert raw == output.read_text()
    assert len(re.findall(r'<path class="line', raw)) == 2
    assert f"{warm}: 5 checkpoints" in text_of(raw)  # both suites are called night
    assert 'href="b/night/step_300-marvel/report.html"' in raw
    ticks = re.search(r'class="across" x="100.0%"[^>]*>([\d,]+)<', raw)
    assert ticks
    assert ticks[1] == "500"


def test_what_runs_say_is_never_markup(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J"
    folder = series(
        tmp_path / "warm", SKILLS, changes=[change(4, -0.4, why=hostile)], question=hostile, baseline="previous"
    )
    raw = page_of(str(folder))
    assert "<script>alert" not in raw
    assert "<img" not in raw
    assert raw.count("<script") == 0
    assert "style=" not in raw.split("</style>")[1]


@pytest.mark.parametrize("name", ["../other-marvel", "a/b", "..", ""])
def test_cells_of_another_folder_are_refused(tmp_path: Path, name: str) -> None:
    folder = series(tmp_path / "warm", (0.5,))
    suite = orjson.loads((folder / "suite.json").read_bytes())
    suite["cells"][0]["name"] = name
    (folder / "suite.json").write_bytes(orjson.dumps(suite))
    assert not training.is_series(folder)
    with pytest.raises(ConfigError, match="is damaged: it has a cell"):
        training.read(folder)


def test_a_damaged_leaderboard_is_named(tmp_path: Path) -> None:
    folder = series(tmp_path / "warm", (0.5,))
    (folder / "leaderboard.json").write_text('{"changes": [{"model": 3}]}')
    done = CliRunner().invoke(main, ["report", str(folder)])
    assert (done.exit_code, "leaderboard.json cannot be read" in done.output) == (2, True)
    assert "Traceback" not in done.output


def test_one_kind_of_folder_and_no_option_of_runs(tmp_path: Path) -> None:
    folder = series(tmp_path / "warm", (0.5,))
    Writer(tmp_path / "run").close()
    for arguments, why in (([str(tmp_path / "run")], "name one kind at a time"), (["--embed"], "--embed is for runs")):
        done = CliRunner().invoke(main, ["report", str(folder), *arguments])
        assert (done.exit_code, why in done.output) == (2, True)


def test_a_training_keeps_its_colour_where_the_other_has_no_such_task(tmp_path: Path) -> None:
    warm, cold = series(tmp_path / "warm", SKILLS), series(tmp_path / "cold", SKILLS, tasks=("vstar_bench",))
    raw = page_of(str(warm), str(cold), "--output", str(tmp_path / "both.html"))
    assert re.findall(r'<path class="line (\w+)"', raw) == ["series1", "series2"]


def test_many_checkpoints_show_fewer_items_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = series(tmp_path / "warm", (0.2, 0.8, 0.2))
    monkeypatch.setattr(pages, "_MOST_IN_ALL", 8)
    raw = page_of(str(folder))
    assert "The first 2 of each." in raw
    assert raw.count(">worse</td>") + raw.count(">better</td>") <= 8


def test_one_value_and_none(tmp_path: Path) -> None:
    single, begun = series(tmp_path / "one", (0.5,)), series(tmp_path / "begun", (0.5, 0.6), begun=2)
    assert "1 checkpoint, steps 100 to 100" in text_of(page_of(str(single)))
    assert "No checkpoint is complete yet." in text_of(page_of(str(begun)))


def test_a_leaderboard_leads_to_it(tmp_path: Path) -> None:
    folder = series(tmp_path / "warm", SKILLS, baseline="reference", fixed=0.5)
    page = boards.save(outputs.board_of(record.read(folder), folder), folder)
    assert f'href="{training.PAGE}"' in page.read_text()
    assert (folder / training.PAGE).is_file()
