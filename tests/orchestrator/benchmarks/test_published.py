"""Published tables of MARVEL: their rows fit the data's own counts."""

from __future__ import annotations

import json
from collections import Counter
from importlib import resources

import pytest
from helpers.bench_scoring import shared_data

from orchestrator.benchmarks.marvel import benchmark as marvel
from orchestrator.samples import Variant

ZERO_SHOT = (
    "Qwen-VL",
    "Fuyu",
    "BLIP-2",
    "InstructBLIP",
    "LLaVA-1.5",
    "GPT-4V",
    "Gemini",
    "Claude 3 Sonnet",
    "Claude 3 Opus",
)


def rows(task: str) -> list[dict]:
    return json.loads((resources.files("orchestrator") / "published" / f"{task}.json").read_text())["rows"]


@pytest.fixture(scope="module")
def sizes() -> dict[str, Counter]:
    data = list(marvel.BENCHMARK.rows("marvel", str(shared_data("marvel", "marvel.parquet"))))
    return {
        "pattern": Counter(row["pattern"] for row in data),
        "configuration": Counter(row["task_configuration"] for row in data),
    }


def weighted(table: list[dict], model: str, label: str, sizes: Counter) -> float:
    values = {r["labels"][label]: r["value"] for r in table if r["model"] == model and label in r.get("labels", {})}
    assert values.keys() == sizes.keys()
    return sum(values[name] * size for name, size in sizes.items()) / 770


@pytest.mark.parametrize("model", ZERO_SHOT)
@pytest.mark.parametrize("label", ["pattern", "configuration"])
def test_parts_make_the_whole_under_the_data_s_names(model, label, sizes):
    table = rows("marvel")
    (whole,) = [r["value"] for r in table if r["model"] == model and r["metric"] == "AVR" and not r.get("labels")]
    assert weighted(table, model, label, sizes[label]) == pytest.approx(whole, abs=0.02)


@pytest.mark.parametrize("model", ["Gemini", "GPT-4V", "Claude 3 Sonnet", "Claude 3 Opus"])
@pytest.mark.parametrize("shots", ["1 shot", "2 shots"])
def test_few_shot_parts_make_the_whole(model, shots, sizes):
    table, name = rows("marvel_few_shot"), f"{model}, {shots}"
    (whole,) = [r["value"] for r in table if r["model"] == name and not r.get("labels")]
    assert weighted(table, name, "pattern", sizes["pattern"]) == pytest.approx(whole, abs=0.02)


def test_metrics_are_those_of_the_tasks():
    known = {spec.name for spec in marvel.metrics(Variant("marvel", settings=marvel.MarvelSettings()))}
    assert {r["metric"] for r in rows("marvel")} <= known
    assert {r["metric"] for r in rows("marvel_described")} == {"AVR", "AVR without description"}
