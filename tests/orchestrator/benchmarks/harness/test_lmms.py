"""Tasks of lmms-eval through this engine: every metric is that of lmms-eval's own evaluator, to the last bit."""

from __future__ import annotations

import importlib.util
import json
import math
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Server, environment, wait_for
from helpers.page_commands import commands

from orchestrator import evaluate
from orchestrator.api import MetricResult, Results
from orchestrator.benchmarks.harness.lmms import decoding
from orchestrator.benchmarks.registry import find

ROOT = Path(__file__).parents[4]
COLUMNS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "fixtures" / "harness_lmms.json").read_text())
"""Tasks of each kind, with the columns that they read and what is to be drawn for each (see helpers/harness_rows)."""

ABSENT = importlib.util.find_spec("lmms_eval") is None
installed = pytest.mark.skipif(ABSENT, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'")


@pytest.mark.skipif(not ABSENT, reason="lmms-eval is installed")
def test_without_lmms_eval_one_line_says_how_to_install_it() -> None:
    with pytest.raises(Exception, match=r"lmms-eval, which is not installed: pip install 'lyncean\[lmms\]'"):
        find(["lmms:mme"])


def test_lmms_eval_is_imported_by_no_other_task() -> None:
    program = (
        "import sys, orchestrator.run.evaluate, orchestrator.benchmarks.harness, scorer.rules.harness_task\n"
        "import scorer.metrics.harness_task\n"
        "from orchestrator.benchmarks.registry import find\n"
        "find(['vstar_bench'])\n"
        "assert not {'lmms_eval', 'loguru', 'torch'} & set(sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_decoding_is_what_the_task_asks_for() -> None:
    assert decoding({}, stops=True).max_output_tokens == 1024
    greedy = {"max_new_tokens": 16, "temperature": 0.7, "do_sample": False, "top_p": 0.5, "until": ["\n\n", ""]}
    assert not decoding(greedy, stops=False).HasField("temperature")
    assert list(decoding(greedy, stops=True).stop) == ["\n\n"]
    assert not decoding(greedy, stops=False).stop
    sampled = decoding({"temperature": 0.7, "top_p": 0.5, "do_sample": True, "until": "."}, stops=True)
    assert (round(sampled.temperature, 6), sampled.top_p, list(sampled.stop)) == (0.7, 0.5, ["."])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each task's splits, and beside them where they are stored."""
    import datasets
    from helpers import harness_rows

    from lyncean.harness import lmms_eval

    found = {}
    folder = tmp_path_factory.mktemp("data")
    for name, known in COLUMNS.items():
        config = lmms_eval.config(name)
        keys = ("training_split", "validation_split", "test_split", "fewshot_split")
        splits = {split for key in keys if (split := config.get(key))}
        made = harness_rows.make(known["columns"], rows=known.get("rows", 8), seed=3)
        found[name] = datasets.DatasetDict(dict.fromkeys(splits, made))
        found[name].save_to_disk(folder / name)
    return {"splits": found, "paths": {f"lmms:{name}": str(folder / name) for name in found}}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The model server."""
    yield from _serve(tmp_path_factory.mktemp("model"), str(ROOT / "tests" / "helpers" / "harness_model.py"))


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The scorer."""
    yield from _serve(tmp_path_factory.mktemp("scorer"), "-m", "scorer", "serve")


def _serve(folder: Path, *command: str) -> Iterator[str]:
    server = Server(folder, [sys.executable, *command]).start()
    yield server.address
    server.kill()


def tasks_of(method: str) -> list[str]:
    kinds = {"generate": "generate_until", "likelihood": "multiple_choice"}
    return [f"lmms:{name}" for name, known in COLUMNS.items() if known["kind"] == kinds[method]]


def overall(results: Results) -> dict[tuple[str, str], MetricResult]:
    return {(metric.task, metric.name): metric for metric in results.metrics if not metric.labels}


@installed
@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", ["generate", "likelihood"])
def test_every_metric_is_that_of_lmms_eval_to_the_bit(
    method: str, data: dict[str, Any], address: str, scorer: str, tmp_path: Path
) -> None:
    from helpers import harness_theirs

    tasks = tasks_of(method)
    paths = {task: data["paths"][task] for task in tasks}
    given: dict[str, Any] = {"method": method, "data": paths, "endpoint": address, "scorer": scorer}
    one = evaluate(tasks, **given, concurrency=1, run=tmp_path / "one")
    many = evaluate(tasks, **given, concurrency=64, run=tmp_path / "many")
    assert (tmp_path / "one" / "results.json").read_bytes() == (tmp_path / "many" / "results.json").read_bytes()
    _killed_and_resumed(tasks, paths, given, tmp_path / "killed")
    assert (tmp_path / "one" / "results.json").read_bytes() == (tmp_path / "killed" / "results.json").read_bytes()
    ours = overall(many)
    assert overall(one).keys() == ours.keys()
    splits = {task.removeprefix("lmms:"): data["splits"][task.removeprefix("lmms:")] for task in tasks}
    theirs = harness_theirs.figures(splits, address, str(tmp_path), simple=method == "likelihood")
    differ, compared = [], 0
    for name, metrics in theirs.items():
        for metric, value in metrics.items():
            found = ours.get((f"lmms:{name}", metric.removesuffix(",none")))
            if isinstance(value, (list, dict, str)) or value is None or math.isnan(float(value)):
                same = found is None or found.value is None
            else:
                compared += 1
                same = found is not None and found.value == float(value)
            if not same:
                differ.append((name, metric, value, found and found.value))
    assert not differ
    assert compared >= len(tasks)


def _killed_and_resumed(tasks: list[str], paths: dict[str, str], given: dict[str, Any], run: Path) -> None:
    """Runs the command, kills it once it has some answers, and runs it again to the end."""
    words = [word for task in tasks for word in ("--task", task)]
    words += [word for task, path in paths.items() for word in ("--data", f"{task}={path}")]
    for option in ("method", "endpoint", "scorer"):
        words += [f"--{option}", given[option]]
    command = [sys.executable, "-m", "orchestrator", "eval", *words, "--concurrency", "1", "--run", str(run)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = run / "responses.jsonl"
    wait_for(lambda: process.poll() is not None or (log.exists() and log.stat().st_size > 4000))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (run / "results.json").exists()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


@installed
@pytest.mark.full
@pytest.mark.timeout(600)
def test_too_few_rows_or_a_failing_item_leave_one_metric_undefined(address: str, scorer: str, tmp_path: Path) -> None:
    import datasets
    from helpers import harness_rows

    kinds = {"question_id": "name", "image": "image", "question": "text", "answer": "yes", "category": "kind"}
    rows = [row | {"category": "existence", "question_id": f"x{place // 2}"}
            for place, row in enumerate(harness_rows.make(kinds, rows=4))]  # fmt: skip
    features = harness_rows.make(kinds, rows=1).features
    whole, three, failing = tmp_path / "whole.parquet", tmp_path / "three.parquet", tmp_path / "failing.parquet"
    datasets.Dataset.from_list(rows, features=features).to_parquet(whole)
    datasets.Dataset.from_list(rows[:3], features=features).to_parquet(three)
    datasets.Dataset.from_list([*rows, rows[0] | {"question": "REFUSE this"}], features=features).to_parquet(failing)
    given: dict[str, Any] = {"endpoint": address, "scorer": scorer}

    found = evaluate("lmms:mme", data=whole, **given, run=tmp_path / "run")["mme_perception_score"]
    assert found.value is not None
    # MME takes questions in pairs: the aggregation of three raises.
    assert evaluate("lmms:mme", data=three, **given, run=tmp_path / "run3")["mme_perception_score"].value is None
    assert "AssertionError" in _why(tmp_path / "run3")
    lacking = evaluate("lmms:mme", data=failing, **given, run=tmp_path / "run4")["mme_perception_score"]
    assert (lacking.value, lacking.value_answered) == (None, found.value)
    assert _why(tmp_path / "run4") == "1 of 5 items have no result; the value is over the others"


def _why(run: Path) -> str:
    results = json.loads((run / "results.json").read_text())
    return str(results["tasks"]["lmms:mme"]["metrics"][0]["details"]["undefined"])


@installed
@pytest.mark.full
def test_what_cannot_be_asked_is_said_in_one_line(tmp_path: Path) -> None:
    from lyncean.harness import HarnessError

    with pytest.raises(HarnessError, match="has no task 'mmee': did you mean lmms:mme"):
        find(["lmms:mmee"])
    (tmp_path / "mine.yaml").write_text("task: mine\ntest_split: test\ndataset_path: mine\n"
                                        "doc_to_text: !function absent_package.f\n")  # fmt: skip
    with pytest.raises(HarnessError) as caught:
        find(["lmms:mine"], [str(tmp_path)])
    assert "\n" not in str(caught.value)
    assert "lmms:mine" in str(caught.value)


@installed
@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_commands_of_the_page(data: dict[str, Any], address: str, scorer: str, tmp_path: Path) -> None:
    import datasets
    from helpers import harness_rows

    kinds = {"question_id": "name", "image": "image", "question": "text", "answer": "yes", "category": "kind"}
    rows = [row | {"category": "existence", "question_id": f"x{place // 2}"}
            for place, row in enumerate(harness_rows.make(kinds, rows=4))]  # fmt: skip
    mme = datasets.Dataset.from_list(rows, features=harness_rows.make(kinds, rows=1).features)
    mme.to_parquet(tmp_path / "MME.parquet")
    (tmp_path / "my_tasks").mkdir()
    (tmp_path / "my_tasks" / "mine.yaml").write_text(
        "task: mine\ndataset_path: nobody/mine\ntest_split: test\noutput_type: generate_until\n"
        'doc_to_text: "{{question}}"\ndoc_to_target: answer\nmetric_list:\n  - metric: exact_match\n'
    )
    (tmp_path / "mine.jsonl").write_text('{"question": "What is 2 + 2?", "answer": "7.5"}\n' * 3)
    install, *typed = commands(ROOT / "docs" / "lmms-eval-tasks.md")
    assert install == "pip install 'lyncean[lmms]'"
    sources = ["MME.parquet", "", data["paths"]["lmms:hellaswag"], "mine.jsonl"]
    for number, (line, source) in enumerate(zip(typed, sources, strict=True)):
        words = [sys.executable, "-m", *shlex.split(line.replace("HOST:50051", address)), "--scorer", scorer]
        words += ["--run", f"run{number}", *(["--data", source] if source else [])]
        done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "planned = " in done.stdout
    manifest = json.loads((tmp_path / "run0" / "manifest.json").read_text())
    assert manifest["identity"]["data"]["lmms:mme"]["origin"].endswith("images as in the data")
