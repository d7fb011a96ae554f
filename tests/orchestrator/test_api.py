"""The Python API: the same engine, typed."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.report_runs import Writer, puzzle, sliced
from PIL import Image

import orchestrator
from lyncean.errors import UserError
from orchestrator import ConfigError, Results, api, evaluate, load
from orchestrator.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python-api.md"
CSV = "question,A,B,answer,topic\nBarks?,cat,dog,B,sound\nLays eggs?,hen,dog,A,food\n"
TASK = "data: animals.csv\nquestion: question\noptions: [A, B]\nanswer: answer\nlabels: topic\n"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    (folder / "animals.csv").write_text(CSV)
    (folder / "animals.yaml").write_text(TASK)
    return folder / "animals.yaml"


@pytest.fixture(scope="module")
def results(task: Path) -> Results:
    return evaluate(str(task), model="demo:constant:B", run=task.parent / "run")


def test_ids_that_look_like_repeats_are_rows(tmp_path: Path) -> None:
    metrics = []
    for sign in "#-":
        rows = [f"page{sign}{number},Barks?,cat,dog,{'AB'[number % 2]}" for number in range(1, 9)]
        (tmp_path / "pages.csv").write_text("\n".join(["id,question,A,B,answer", *rows]))
        file = tmp_path / "pages.yaml"
        file.write_text(TASK.replace("animals", "pages").replace("labels: topic", "id: id"))
        results = evaluate(str(file), model="demo:constant:B", run=tmp_path / f"run{ord(sign)}")
        metrics.append(results["accuracy"])
    assert metrics[0] == metrics[1]
    assert metrics[0].low is not None


def test_a_result_is_short_in_a_session_and_an_argument_that_is_none_names_the_nearest(results: Results) -> None:
    assert repr(results) == f"<Results of animals: 2 planned = 2 scored, in {results.run}>"
    with pytest.raises(ConfigError, match=r"evaluate\(\) has no argument 'limits': did you mean limit\?"):
        evaluate("marvel", limits=3)  # type: ignore[call-arg]


def test_results_are_those_of_the_folder(results: Results) -> None:
    written = json.loads((results.run / "results.json").read_text())
    assert results.counts == {"animals": written["tasks"]["animals"]["counts"]}
    accuracy = results["accuracy"]
    assert (accuracy.value, accuracy.denominator, accuracy.unit) == (50.0, 2, "percent")
    assert accuracy == results["animals/accuracy"]
    assert accuracy.low is not None
    assert accuracy.low < 50 < (accuracy.high or 0)
    assert results.model["model_name"] == "demo-constant-B"
    assert (results.run / "report.html").exists()
    with pytest.raises(KeyError, match="there are animals/accuracy"):
        results["none"]


def test_items_have_answers_and_verdicts(results: Results) -> None:
    first, second = results.items()
    assert (first.key, first.outcome, first.score, first.text) == ("animals/1", "scored", 1.0, "B")
    assert (second.score, second.extracted, second.targets) == (0.0, "B", ("A",))
    assert second.options == ("hen", "dog")
    assert second.labels == {"topic": "food"}
    assert first.prompt.startswith("Barks?")
    assert "B. dog" in first.prompt


def test_items_have_images_in_their_place_and_reasoning(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run")
    image = writer.image(puzzle(3))
    response = {"parts": [{"text": "B"}], "reasoning": "It is <b>B</b>."}
    writer.item("marvel/1", parts=[{"text": "Before"}, image, {"text": "after"}], response=response, score=1.0)
    (item,) = load(writer.close()).items()
    assert item.prompt == "Before\n[image]\nafter"
    assert item.reasoning == "It is <b>B</b>."
    assert [path.read_bytes()[1:4] for path in item.images] == [b"PNG"]


def test_results_show_themselves(results: Results, tmp_path: Path) -> None:
    rows = [line.split() for line in str(results).splitlines()]
    assert rows[0] == ["task", "metric", "value", "n"]
    assert [row[:3] for row in rows[1:2]] == [["animals", "accuracy", "50.0"]]
    assert rows[-1] == ["2", "planned", "=", "2", "scored"]
    nasty = "<script>\x1b[31m"
    writer = Writer(tmp_path / "run", tasks=[nasty])
    writer.item(f"{nasty}/1", answer="1", score=1.0)
    loaded = load(writer.close({nasty: sliced("<b>", writer.verdicts, ())}))
    assert "<td>&lt;script&gt;\\x1b[31m</td><td>&lt;b&gt;</td>" in loaded._repr_html_()
    assert "\x1b" not in loaded._repr_html_() + str(loaded)


def test_where_the_standard_error_comes_from_is_said_everywhere(tmp_path: Path) -> None:
    """A model that always says B is right or wrong by the order of the options alone, for any prompt."""
    rows = [f"q{number},{word},Barks {number}?,cat,dog,B" for number in range(40) for word in ("short", "long")]
    (tmp_path / "animals.csv").write_text("\n".join(["id,prompt,question,A,B,answer", *rows]))
    keys = "group: id\nmetrics:\n- {name: accuracy, metric: accuracy, params: {unit: percent, facets: [prompt]}}\n"
    (tmp_path / "animals.yaml").write_text(TASK.replace("topic", "prompt") + keys)
    results = evaluate(
        str(tmp_path / "animals.yaml"), model="demo:constant:B", run=tmp_path / "run", repeats=6, shuffle_options=True
    )
    standard_error = results["accuracy"].details["standard_error"]
    errors = {part["name"]: part["error"] for part in standard_error["parts"]}
    assert errors.keys() == {"groups", "prompt", "order", "repeats"}
    assert errors["order"] > 2 > errors["repeats"] == 0
    line = f"of the standard error {standard_error['total']:.1f}: groups {errors['groups']:.1f}"
    terminal = CliRunner().invoke(main, ["report", str(results.run), "--format", "terminal"]).output
    for page in (str(results), results.report().read_text(), " ".join(terminal.split())):
        assert line in page
        assert "40 more groups" in page
        assert "6 more repeats" in page
    assert "details" not in results.to_pandas().columns


def test_an_image_size_is_a_source_of_the_standard_error(tmp_path: Path) -> None:
    """Each question has a row for each size, and the answer depends on the image."""
    rows = [f"q{number},{side},{number}-{side}.png,What?,cat,dog,B" for number in range(30) for side in (16, 32)]
    (tmp_path / "sizes.csv").write_text("\n".join(["id,size,picture,question,A,B,answer", *rows]))
    for number in range(30):
        for side in (16, 32):
            Image.new("RGB", (side, side), (8 * number, 0, 0)).save(tmp_path / f"{number}-{side}.png")
    keys = "group: id\nimage: picture\nmetrics:\n- {metric: accuracy, params: {facets: [size]}}\n"
    (tmp_path / "sizes.yaml").write_text(TASK.replace("topic", "size").replace("animals", "sizes") + keys)
    results = evaluate(str(tmp_path / "sizes.yaml"), model="demo:hash", run=tmp_path / "run")
    standard_error = results["accuracy"].details["standard_error"]
    assert "size" in {part["name"] for part in standard_error["parts"]}
    scores = {
        side: [
            item["score"]
            for item in map(json.loads, (tmp_path / "run" / "verdicts.jsonl").open())
            if item["labels"]["size"] == side
        ]
        for side in ("16", "32")
    }
    means = [sum(values) / len(values) for values in scores.values()]
    assert means[0] != means[1]


def test_runs_are_compared_and_reported(results: Results, tmp_path: Path) -> None:
    other = tmp_path / "all-right"
    shutil.copytree(results.run, other)
    comparison = results.compare(load(results.run), other)
    assert [pairing.flips.items for pairing in comparison.details.pairings] == [2, 2]
    assert "run  →  all-right" in str(comparison)
    assert "animals" in str(comparison)
    assert str(comparison).splitlines()[0] in comparison._repr_html_()
    page = comparison.write_page(tmp_path / "compare.html").read_text()
    assert "all-right" in page
    (results.run / "report.html").unlink()
    assert load(results.run).report(blind=other).name == "report.html"
    with pytest.raises(ConfigError, match="give another run"):
        results.compare()


def test_public_names() -> None:
    """`dir` shows them and no module, each can be imported, and every error has one base."""
    assert dir(orchestrator) == sorted(orchestrator.__all__)
    members = [getattr(orchestrator, name) for name in dir(orchestrator)]
    errors = {kind.__name__ for kind in members if isinstance(kind, type) and issubclass(kind, Exception)}
    assert errors == {name for name in dir(orchestrator) if name.endswith("Error")}
    assert all(issubclass(getattr(orchestrator, name), UserError) for name in errors)


def test_tables(results: Results) -> None:
    pytest.importorskip("pandas")
    metrics, items = results.to_pandas(), results.to_pandas("items")
    assert len(metrics) == len(results.metrics)
    assert set(items["label.topic"]) == {"sound", "food"}
    assert items.score.mean() == 0.5
    with pytest.raises(ValueError, match="metrics"):
        results.to_pandas("rows")


async def test_it_runs_beside_a_running_loop_and_resumes(task: Path, results: Results) -> None:
    assert asyncio.get_running_loop().is_running()
    before = (results.run / "responses.jsonl").read_bytes()
    again = evaluate(str(task), model="demo:constant:B", run=results.run)
    assert again.metrics == results.metrics
    assert (results.run / "responses.jsonl").read_bytes() == before
    fresh = evaluate([str(task)], model="demo:constant:B", run=results.run.parent / "other")
    assert fresh.metrics == results.metrics


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": "no_such_task"}, "no task"),
        ({"tasks": []}, "tasks: there is none"),
        ({"tasks": "vstar_bench", "model": "demo", "endpoint": "h:1"}, "model starts a model server, endpoint names"),
        ({"tasks": "vstar_bench", "synthetic": True, "settings": {"nothing": 1}}, "known settings"),
        ({"tasks": "vstar_bench", "synthetic": True, "parity": True, "shuffle_options": True}, "--parity"),
        ({"tasks": "vstar_bench", "scorer": "h:1", "judge": ["openai:x"]}, "judge of its own"),
        ({"tasks": "vstar_bench", "limit": 0}, "limit: Input should be greater than or equal to 1, not 0"),
        ({"tasks": "vstar_bench", "limit": 2.5}, "limit: Input should be a valid integer"),
        ({"tasks": "vstar_bench", "repeats": "many"}, "repeats: Input should be a valid integer"),
        ({"tasks": "vstar_bench", "seed": 2**70}, "seed: Input should be less than or equal to"),
        (
            {"tasks": "vstar_bench", "concurrency": -1},
            "concurrency: Input should be greater than or equal to 1, not -1",
        ),
        ({"tasks": "vstar_bench", "timeout": 0}, "timeout: Input should be greater than or equal to 0.001, not 0"),
        (
            {"tasks": "vstar_bench", "patience": float("nan")},
            "patience: Input should be less than or equal to 100000000, not nan",
        ),
    ],
)
def test_mistakes_are_config_errors(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        evaluate(**options, run=tmp_path / "run")  # type: ignore[arg-type]


def test_a_run_that_is_not_complete_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a run folder"):
        api.load(tmp_path)
    (tmp_path / "manifest.json").write_text('{"identity": {}}')
    with pytest.raises(ConfigError, match="not complete"):
        api.load(tmp_path)


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, orchestrator; sys.exit(any(m in sys.modules for m in ('grpc', 'numpy', 'orchestrator.api')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.full
def test_the_page_and_the_notebook_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "examples" / "results.ipynb").read_text())["cells"]
    notebook = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    page = "".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    for code in (page, notebook):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "vstar_bench" in done.stdout
    assert (tmp_path / "runs/notebook/report.html").exists()
    assert all(not cell.get("outputs") for cell in cells), "outputs of one machine are not kept"
