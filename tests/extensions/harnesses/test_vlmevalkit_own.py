"""VLMEvalKit's own evaluation: every number is that of its package, to the last bit."""

from __future__ import annotations

import base64
import csv
import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.engine_cluster import Server
from helpers.harness_rows import picture
from helpers.scorer_asking import passed, spec, summarize

from lyncean_harnesses.library import HarnessError
from lyncean_harnesses.library.values import encode
from lyncean_harnesses.scoring import vlmevalkit_metric as metric
from lyncean_harnesses.vlmevalkit.benchmark import TableSettings, TableTask
from orchestrator import evaluate
from orchestrator.samples import Variant
from scorer import foreign_tasks

ROOT = Path(__file__).parents[3]
ABSENT = importlib.util.find_spec("vlmeval") is None
installed = pytest.mark.skipif(ABSENT, reason="VLMEvalKit (ms-vlmeval) is not installed")

CHOICES = ("MMStar", "AI2D_TEST", "SEEDBench_IMG", "RealWorldQA", "MMBench_DEV_EN", "CCBench")
YES_NO = ("POPE", "MME", "AMBER")
OPEN = ("ChartQA_TEST", "TextVQA_VAL", "DocVQA_VAL")
CATEGORIES = ("existence", "count", "OCR", "code_reasoning")


def rows_of(name: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a drawn table; of MMBench and CCBench each question with a copy whose options moved on."""
    rng = random.Random(name)
    circular = name in ("MMBench_DEV_EN", "CCBench")
    for index in range(96 if circular else 24):  # enough for a question to be right in both copies
        image = base64.b64encode(picture(rng)["bytes"]).decode()
        row = {
            "index": index,
            "image": image,
            "question": f"Row {index}: which?",
            "category": CATEGORIES[index // 2 % 4],
        }
        if name in CHOICES:
            options = rng.sample(["red", "two cats", "a tree", "7", "grey", "12"], 4)
            answer = rng.randrange(4)
            yield row | dict(zip("ABCD", options, strict=True)) | {"answer": "ABCD"[answer], "l2-category": "all"}
            if circular:
                moved = dict(zip("ABCD", [*options[1:], options[0]], strict=True))
                copy = {"index": index + 1_000_000, "answer": "ABCD"[answer - 1], "l2-category": "all"}
                yield row | moved | copy
        elif name in YES_NO:
            yield row | {"answer": rng.choice(["Yes", "No"]), "image_path": f"{index // 2}.jpg"}
        else:
            yield row | {"answer": rng.choice(["a red car", "7.5", "['2', 'two']", "No"]), "split": "test"}


def serve(folder: Path, *command: str) -> Iterator[str]:
    server = Server(folder, [sys.executable, *command]).start()
    yield server.address
    server.kill()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    yield from serve(tmp_path / "model", str(ROOT / "tests" / "helpers" / "harness_model.py"))


@pytest.fixture
def scorer(tmp_path: Path) -> Iterator[str]:
    yield from serve(tmp_path / "scorer", "-m", "scorer", "serve", "--foreign-tasks")


@installed
@pytest.mark.weekly
@pytest.mark.timeout(1800)
def test_every_number_is_that_of_vlmevalkit_to_the_bit(
    address: str, scorer: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    names = [*CHOICES, *YES_NO, *OPEN]
    options: dict[str, Any] = {"endpoint": address, "scorer": scorer, "settings": ["metrics=vlmevalkit"]}
    ours: dict[str, dict[str, float | None]] = {}
    for name in names:
        rows = list(rows_of(name))
        with (tmp_path / f"{name}.tsv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
            writer.writeheader()
            writer.writerows(rows)
        result = evaluate(f"vlmevalkit:{name}", data=tmp_path / f"{name}.tsv", **options, run=tmp_path / "runs" / name)
        ours[name] = {one.name: one.value for one in result.metrics if not one.labels}
        answers = {item.key.rpartition("/")[2]: item.text for item in result.items()}
        (tmp_path / f"{name}.json").write_text(json.dumps(answers))
    helper = str(ROOT / "tests" / "helpers" / "vlmevalkit_theirs.py")
    subprocess.run([sys.executable, helper, str(tmp_path), *names], check=True, capture_output=True, cwd=tmp_path)
    for name in names:
        with subtests.test(name):
            table = json.loads((tmp_path / f"{name}.found.json").read_text())
            reference: dict[str, float] = {}
            for row in table:
                labels = [value for value in row.values() if isinstance(value, str)] if len(table) > 1 else []
                reference |= {
                    " ".join([*labels, key]): value for key, value in row.items() if not isinstance(value, str)
                }
            assert ours[name] == reference
            assert any(reference.values())


@pytest.mark.skipif(not ABSENT, reason="VLMEvalKit is installed")
def test_without_the_package_one_line_says_how_to_install_it(tmp_path: Path) -> None:
    image = base64.b64encode(picture(random.Random(0))["bytes"]).decode()
    table = tmp_path / "Mine.tsv"
    table.write_text(f"index\timage\tquestion\tanswer\tA\tB\n1\t{image}\twhich?\tA\tred\tgreen\n")
    benchmark = TableTask("Mine").benchmark()
    benchmark.rows("vlmevalkit:Mine", str(table))
    variant = Variant(task="vlmevalkit:Mine", method="generate", seed=0, settings=TableSettings("vlmevalkit"))
    with pytest.raises(HarnessError, match=r"VLMEvalKit is not installed.*install VLMEvalKit, the module vlmeval"):
        benchmark.metrics(variant)


def test_rows_go_to_its_evaluation_in_the_tables_order(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def evaluated(dataset: str, rows: list[dict[str, str]]) -> metric.Evaluated:
        calls.append((dataset, [row["prediction"] for row in rows]))
        return metric.Evaluated({"Overall": 0.5}, {})

    monkeypatch.setattr(foreign_tasks, "_started_with", [foreign_tasks.ForeignTasks(on=True, trusted=True)])
    monkeypatch.setattr(metric, "evaluate", evaluated)
    metric._evaluated.cache_clear()
    items = []
    for number in range(3):
        item = passed(f"vlmevalkit:X/{number}", "scored", 1.0)
        item.verdict.details = encode({"place": 2 - number, "row": {"index": str(number), "prediction": f"p{number}"}})
        items.append(item)

    def result(name: str, *more: Any) -> Any:
        wanted = spec("m", "vlmevalkit")
        wanted.params.update({"dataset": "X", "metric": name})
        return summarize([*items, *more], wanted).metrics[0]

    assert (result("Overall").value, result("Overall").denominator) == (0.5, 3)
    assert calls == [("X", ["p2", "p1", "p0"])]
    lacking = result("Overall", passed("vlmevalkit:X/9", "failed"))
    assert not lacking.HasField("value")
    assert (lacking.value_answered, lacking.denominator, lacking.denominator_answered) == (0.5, 4, 3)
    assert lacking.details["not_computed"] == "1 of 4 items have no answer; the value is over the others"
    assert result("F1").details["not_computed"] == "VLMEvalKit's evaluation has no F1"
