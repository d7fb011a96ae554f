"""Suite files: each mistake is one line with file, line, key and fix, before anything starts."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings, strategies as st

from orchestrator.cli import main
from orchestrator.suite.file import SuiteError, read

SUITE = """\
models:
  first: {model: "demo:hash"}
  second: {endpoint: "127.0.0.1:1"}
tasks:
  vstar_bench:
  marvel: {limit: 2}
variants:
  plain:
  blind: {blind: true}
options: {synthetic: true}
gate:
  baseline: first
  conditions: ["change.low>=-2%", "failed<=1%"]
"""


def evaluate(file: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["eval", "--suite", str(file), *options])


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("tasks:", "task:", 4, "unknown key 'task': did you mean tasks?"),
        ("  vstar_bench:", "  vstar_bnch:", 5, "there is no task 'vstar_bnch': did you mean vstar_bench"),
        ("{limit: 2}", "{limits: 2}", 6, "unknown option 'limits' of `orchestrator eval`: did you mean limit?"),
        ("{limit: 2}", "{limit: 0}", 6, "limit: Input should be greater than or equal to 1, not 0"),
        ("{limit: 2}", '{set: {letters: "x"}}', 6, "unknown option 'set' of `orchestrator eval`: write settings"),
        ("{limit: 2}", "{settings: {nosuch: 1}}", 6, "--set nosuch=1: known settings are"),
        ("{limit: 2}", "{model: demo}", 6, "model is an option of a single model: write it under `models`"),
        ("{limit: 2}", "{blind: true}", 9, "blind is given by tasks.marvel as well: leave one out"),
        ("{limit: 2}", "{run: here}", 6, "run is not an option of a suite: --run is the folder of the suite"),
        ("{limit: 2}", "{limit: 2}\n  marvel:", 7, "marvel stands on line 6 already"),
        ('{endpoint: "127.0.0.1:1"}', "{endpoint: nowhere}", 3, "endpoint"),
        ('{endpoint: "127.0.0.1:1"}', '{endpoint: "h:1", model: demo}', 3, "an endpoint and a model to serve"),
        ('{endpoint: "127.0.0.1:1"}', "{cluster: {image: x}}", 3, "`cluster` alone is for `orchestrator submit"),
        ('{endpoint: "127.0.0.1:1"}', "{patience: 1}", 3, "give `model`, a checkpoint, or `endpoint`"),
        ("synthetic: true", "synthetic: true, model_options: {device: cpu}", 10, "model_options is an option of"),
        ("synthetic: true", "data: nowhere.parquet", 10, "nowhere.parquet"),
        ("baseline: first", "baseline: frist", 12, "baseline 'frist' is none of the models: first, second"),
        ("baseline: first\n  ", "", 12, "'change.low>=-2%' compares two models: name the first one by `baseline`"),
        ("failed<=1%", "failed<=", 13, "'failed<=' is not a condition: write NAME>=NUMBER"),
        ("failed<=1%", "nosuch/failed<=1%", 13, "is about a task that is not here: marvel, vstar_bench"),
        ("failed<=1%", "acuracy>=1%", 13, "no task has the metric of 'acuracy>=1%': accuracy"),
        ("  marvel: {limit: 2}", "  marvel: {limit: 2}\n  marvel_: {limit: 3}", 7, "there is no task 'marvel_'"),
        ("  first:", "  first-marvel:", 12, "baseline 'first' is none"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_started(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    file = tmp_path / "night.yaml"
    assert SUITE.count(old) == 1
    file.write_text(SUITE.replace(old, new))
    result = evaluate(file, "--run", str(tmp_path / "run"))
    assert result.exit_code == 2, result.output
    assert result.output.startswith(f"Error: {file}, line {line}: "), result.output
    assert says in result.output
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_every_cell_is_in_the_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "night.yaml"
    file.write_text(SUITE.replace("vstar_bench:", "vstar_bench: {limit: 3}"))
    monkeypatch.setenv("COLUMNS", "120")
    result = evaluate(file, "--dry-run")
    assert result.exit_code == 0, result.output
    rows = {columns[0]: columns[1:] for line in result.output.splitlines() if (columns := line.split())}
    names = [f"{model}-{task}-{kind}" for model in ("first", "second") for task in ("vstar_bench", "marvel")
             for kind in ("plain", "blind")]  # fmt: skip
    assert [name for name in rows if "-" in name] == names
    assert rows["second-marvel-blind"][:3] == ["10", "10", "10"], "two rows of five questions"
    assert rows["8"][:2] == ["cells", str(4 * (3 + 10))]


def test_two_cells_of_one_folder_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text('models: {a: {model: demo}}\ntasks: ["x:y", x_y]\n')
    assert "line 2: a-x_y would be the folder of two cells" in evaluate(file).output


def test_data_and_task_files_lie_beside_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "suites").mkdir()
    for name in ("rows.csv", "animals.yaml"):
        (tmp_path / "suites" / name).touch()
    file = tmp_path / "suites" / "night.yaml"
    file.write_text("models: {a: {model: demo}}\ntasks: {animals.yaml: {data: rows.csv}, marvel: {data: team/hub}}\n")
    monkeypatch.chdir(tmp_path)
    first, second = read(Path("suites/night.yaml")).cells
    assert (first.request.tasks, first.request.data) == ("suites/animals.yaml", "suites/rows.csv")
    assert (first.name, second.request.data) == ("a-animals", "team/hub")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--limit", "3"), "--limit beside --suite: write it into the file"),
        (("--task", "marvel"), "--task beside --suite: write it into the file"),
        (("--run", "ftp://bucket/night"), "give a folder or a URL of s3://"),
    ],
)
def test_options_of_a_run_stand_in_the_file(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    (tmp_path / "night.yaml").write_text(SUITE)
    result = evaluate(tmp_path / "night.yaml", *options)
    assert (result.exit_code, says in result.output) == (2, True), result.output
    missing = CliRunner().invoke(main, ["eval"])
    assert (missing.exit_code, "Missing option '--task'" in missing.output) == (2, True)


PLACES: list[tuple[str, ...]] = [
    *[("models",), ("models", "first"), ("models", "first", "model"), ("models", "first", "cluster"), ("tasks",)],
    *[("tasks", "marvel"), ("tasks", "marvel", "limit"), ("variants",), ("variants", "blind"), ("options",), ("gate",)],
    *[("gate", "baseline"), ("gate", "conditions"), ("options", "judge"), ("options", "data"), ("options", "stages")],
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50)
@given(path=st.sampled_from(PLACES), value=VALUES)
def test_whatever_stands_in_a_suite_is_read_or_refused(path: tuple[str, ...], value: object) -> None:
    values = yaml.safe_load(SUITE)
    holder = values
    for key in path[:-1]:
        holder = holder[key] = holder[key] or {}
    holder[path[-1]] = value
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "night.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        message = refusal(file)
        assert message is None or (message.startswith(str(file)) and "\n" not in message)


def refusal(file: Path) -> str | None:
    try:
        assert read(file).cells
    except SuiteError as error:
        return str(error)
    return None
