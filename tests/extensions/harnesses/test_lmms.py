"""Tasks of lmms-eval through this engine: every metric is that of lmms-eval's own evaluator, to the last bit."""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import harness_runs
from helpers.engine_cluster import environment
from helpers.judge_server import JudgeServer, Vendor
from helpers.page_commands import commands

from lyncean_harnesses.library.requests import decoding
from orchestrator import evaluate
from orchestrator.benchmarks.registry import find
from orchestrator.errors import LimitError

ROOT = Path(__file__).parents[3]
COLUMNS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "fixtures" / "harness_lmms.json").read_text())
"""Tasks of each kind, with the columns that they read and what is to be drawn for each (see helpers/harness_rows)."""

NEEDS = {"mathvision_testmini": "latex2sympy2"}
"""Task -> a package beside lmms-eval without which its code raises on answers, in lmms-eval too."""

ABSENT = importlib.util.find_spec("lmms_eval") is None
installed = pytest.mark.skipif(ABSENT, reason="lmms-eval is not installed: pip install 'lyncean[lmms]'")


@pytest.mark.skipif(not ABSENT, reason="lmms-eval is installed")
def test_without_lmms_eval_one_line_says_how_to_install_it() -> None:
    with pytest.raises(Exception, match=r"lmms-eval, which is not installed: pip install 'lyncean\[lmms\]'"):
        find(["lmms:mme"])


def test_lmms_eval_is_imported_by_no_other_task() -> None:
    program = (
        "import sys, orchestrator.run.evaluate, lyncean_harnesses.benchmark, lyncean_harnesses.scoring.rule\n"
        "import lyncean_harnesses.scoring.task_metric\n"
        "from orchestrator.benchmarks.registry import find\n"
        "find(['vstar_bench'])\n"
        "assert not {'lmms_eval', 'loguru', 'torch'} & set(sys.modules), 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


def test_decoding_is_what_the_task_asks_for() -> None:
    assert decoding({}, tokens=1024, stops=True).max_output_tokens == 1024
    greedy = {"max_new_tokens": 16, "temperature": 0.7, "do_sample": False, "top_p": 0.5, "until": ["\n\n", ""]}
    assert not decoding(greedy, tokens=1024, stops=False).HasField("temperature")
    assert list(decoding(greedy, tokens=1024, stops=True).stop) == ["\n\n"]
    assert not decoding(greedy, tokens=1024, stops=False).stop
    sampled = decoding({"temperature": 0.7, "top_p": 0.5, "do_sample": True, "until": "."}, tokens=1024, stops=True)
    assert (round(sampled.temperature, 6), sampled.top_p, list(sampled.stop)) == (0.7, 0.5, ["."])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return harness_runs.stored("lmms", COLUMNS, tmp_path_factory.mktemp("data"))


@installed
@pytest.mark.full
@pytest.mark.timeout(2700)
@pytest.mark.parametrize("method", ["generate", "likelihood"])
def test_every_metric_is_that_of_lmms_eval_to_the_bit(
    method: str, data: dict[str, Any], address: str, scorer: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    from helpers import harness_theirs

    names = [name for name, known in COLUMNS.items() if harness_runs.METHODS[known["kind"]] == method]
    for name in NEEDS.keys() & set(names):
        if importlib.util.find_spec(NEEDS[name]) is None:
            names.remove(name)
            with subtests.test(name):
                pytest.skip(f"{name} needs the package {NEEDS[name]}")
    tasks = [f"lmms:{name}" for name in names]
    paths = {task: data["paths"][task] for task in tasks}
    options: dict[str, Any] = {"method": method, "data": paths, "endpoint": address, "scorer": scorer}
    options["trust_task_code"] = True
    ours = harness_runs.run_every_way(tasks, options, tmp_path)
    splits = {name: data["splits"][name] for name in names}
    reference = harness_theirs.figures(splits, address, str(tmp_path), simple=method == "likelihood")
    assert harness_runs.compare(ours, reference, "lmms") >= len(tasks)
    bare = [metric for metric in ours.metrics if metric.value is not None and metric.low is None]
    bare = [metric for metric in bare if "no_interval" not in metric.details]
    assert not bare, "a number has its interval, or the reason why it has none"
    assert harness_runs.compared_blind(tasks, options, ours, tmp_path) == set(tasks)


@installed
@pytest.mark.full
@pytest.mark.timeout(600)
def test_too_few_rows_or_a_failing_item_leave_one_metric_undefined(address: str, scorer: str, tmp_path: Path) -> None:
    import datasets
    from helpers import harness_rows

    kinds = {"question_id": "name", "image": "image", "question": "text", "answer": "yes", "category": "kind"}
    rows = [row | {"category": "existence", "question_id": f"x{number // 2}"}
            for number, row in enumerate(harness_rows.make(kinds, rows=4))]  # fmt: skip
    features = harness_rows.make(kinds, rows=1).features
    whole, three, failing = tmp_path / "whole.parquet", tmp_path / "three.parquet", tmp_path / "failing.parquet"
    datasets.Dataset.from_list(rows, features=features).to_parquet(whole)
    datasets.Dataset.from_list(rows[:3], features=features).to_parquet(three)
    datasets.Dataset.from_list([*rows, rows[0] | {"question": "REFUSE this"}], features=features).to_parquet(failing)
    options: dict[str, Any] = {"endpoint": address, "scorer": scorer}

    score = evaluate("lmms:mme", data=whole, **options, run=tmp_path / "run")["mme_perception_score"]
    assert score.value is not None
    # MME takes questions in pairs: the aggregation of three raises.
    with pytest.raises(LimitError):  # the run is complete, and the exit code says that a metric failed
        evaluate("lmms:mme", data=three, **options, run=tmp_path / "run3")
    assert _why(tmp_path / "run3", "metric_failed") == "AssertionError: MME only supports pairwise evaluation"
    lacking = evaluate("lmms:mme", data=failing, **options, run=tmp_path / "run4")["mme_perception_score"]
    assert (lacking.value, lacking.value_answered) == (None, score.value)
    assert _why(tmp_path / "run4", "not_computed") == "1 of 5 items have no result; the value is over the others"


@installed
@pytest.mark.full
@pytest.mark.parametrize("several", [False, True])
def test_a_plain_table_of_bytes_and_paths_holds_images(several: bool, tmp_path: Path) -> None:
    import datasets
    import pyarrow
    import pyarrow.parquet
    from helpers import harness_rows

    from lyncean_harnesses.benchmark import LMMS

    kinds = {"question_id": "name", "image": "image", "question": "text", "answer": "yes", "category": "kind"}
    rows = [{**row, "category": "existence"} for row in harness_rows.make(kinds, rows=4).cast_column(
        "image", datasets.Image(decode=False))]  # fmt: skip
    if several:
        (tmp_path / "mine.py").write_text("def visual(doc): return [each.convert('RGB') for each in doc['image']]\n")
        (tmp_path / "mine.yaml").write_text(
            "task: mine\ndataset_path: nobody/mine\ntest_split: test\noutput_type: generate_until\n"
            "doc_to_visual: !function mine.visual\ndoc_to_text: question\ndoc_to_target: answer\n"
            "metric_list:\n  - metric: exact_match\n"
        )
        rows = [row | {"image": [row["image"]] * 2} for row in rows]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "plain.parquet")
    task = LMMS.make("mine" if several else "mme", (str(tmp_path),) if several else ())
    assert "images as in the data" in task.rows("", str(tmp_path / "plain.parquet")).origin


def _why(run: Path, key: str) -> str:
    results = json.loads((run / "results.json").read_text())
    return str(results["tasks"]["lmms:mme"]["metrics"][0]["details"][key])


@installed
@pytest.mark.full
def test_what_cannot_be_asked_is_said_in_one_line(tmp_path: Path) -> None:
    from lyncean_harnesses.library import HarnessError, lmms_eval

    with pytest.raises(HarnessError, match="has no task 'mmee': did you mean lmms:mme"):
        find(["lmms:mmee"])
    (tmp_path / "mine.yaml").write_text("task: mine\ntest_split: test\ndataset_path: mine\n"
                                        "doc_to_text: !function absent_package.f\n")  # fmt: skip
    with pytest.raises(HarnessError) as caught:
        find(["lmms:mine"], [str(tmp_path)])
    assert "\n" not in str(caught.value)
    assert "lmms:mine" in str(caught.value)
    unreached = lmms_eval.LIBRARY.lacking("mme", ConnectionError("offline"))
    assert str(unreached).endswith("its data cannot be reached (ConnectionError: offline): give --data")


@pytest.fixture
def vendor() -> Vendor:
    return Vendor(lambda _: 0.5)  # type: ignore[arg-type, return-value]


@pytest.fixture
def judge(vendor: Vendor) -> Iterator[str]:
    with JudgeServer(vendor) as url:
        yield url


@installed
@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_commands_of_the_page(
    judge: str, vendor: Vendor, data: dict[str, Any], address: str, scorer: str, tmp_path: Path
) -> None:
    import datasets
    from helpers import harness_rows

    kinds = {"question_id": "name", "image": "image", "question": "text", "answer": "yes", "category": "kind"}
    rows = [row | {"category": "existence", "question_id": f"x{number // 2}"}
            for number, row in enumerate(harness_rows.make(kinds, rows=4))]  # fmt: skip
    mme = datasets.Dataset.from_list(rows, features=harness_rows.make(kinds, rows=1).features)
    mme.to_parquet(tmp_path / "MME.parquet")
    (tmp_path / "my_tasks").mkdir()
    (tmp_path / "my_tasks" / "mine.yaml").write_text(
        "task: mine\ndataset_path: nobody/mine\ntest_split: test\noutput_type: generate_until\n"
        'doc_to_text: "{{question}}"\ndoc_to_target: answer\nmetric_list:\n  - metric: exact_match\n'
    )
    (tmp_path / "mine.jsonl").write_text('{"question": "What is 2 + 2?", "answer": "7.5"}\n' * 3)
    install, *typed = commands(ROOT / "docs" / "lmms-eval-tasks.md")
    typed = [line.replace("http://127.0.0.1:8000/v1", judge) for line in typed]
    typed = [line for line in typed if "lm-eval:" not in line or importlib.util.find_spec("lm_eval")]
    assert install == "pip install 'lyncean[lmms]'"
    sources = ["MME.parquet", "", data["paths"]["lmms:hellaswag"], "mine.jsonl", "text.jsonl", "MMVet.parquet"]
    kinds = {"question_id": "name", "image": "image", "question": "text", "answer": "word", "capability": "kind"}
    harness_rows.make(kinds, rows=4).to_parquet(tmp_path / "MMVet.parquet")
    swag = {"ctx_a": "A man sits.", "ctx_b": "he", "activity_label": "Rest", "label": "1", "endings": list("abcd")}
    (tmp_path / "text.jsonl").write_text(json.dumps(swag) + "\n")
    if not importlib.util.find_spec("lm_eval"):
        sources.remove("text.jsonl")
    for number, (line, source) in enumerate(zip(typed, sources, strict=True)):
        argv = [sys.executable, "-m", *shlex.split(line.replace("HOST:50051", address))]
        # A judge and folders with tasks belong to the scorer of the run.
        argv += [] if {"--judge", "--include-path"} & set(argv) else ["--scorer", scorer]
        argv += ["--run", f"run{number}", *(["--data", source] if source else [])]
        done = subprocess.run(argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert "planned = " in done.stdout
    assert 1 <= vendor.charged <= 4
    manifest = json.loads((tmp_path / "run0" / "manifest.json").read_text())
    assert manifest["identity"]["data"]["lmms:mme"]["origin"].endswith("images as in the data")
