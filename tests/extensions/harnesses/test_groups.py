"""Groups with metrics over their tasks: each is that of the harness's own evaluator, to the last bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from helpers import harness_runs

from lyncean_harnesses.library import HarnessError, harness
from orchestrator import evaluate
from orchestrator.benchmarks.registry import find

pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("lmms_eval", "lm_eval")),
        reason="lmms-eval or lm-evaluation-harness is not installed: pip install 'lyncean[lmms,lm-eval]'",
    ),
    pytest.mark.weekly,
    pytest.mark.timeout(2700),
]

_MMLU = {"question": "text", "choices": "words", "answer": "place"}
GROUPS: dict[str, tuple[str, dict[str, str], int]] = {
    "blink": (
        "generate",
        {"answer": "letter", "choices": "words", "prompt": "text", "idx": "integer", "sub_task": "kind"},
        1,
    ),
    "refcoco_grounding": ("generate", {"bbox": "box", "answer": "letter", "image": "image"}, 7),
    "mmlu": ("likelihood", _MMLU, 5),
    "mmlu_flan_n_shot_generative": ("generate", _MMLU, 10),
}
"""Group -> method, columns of its tasks, and how many metrics it and the groups in it have."""


def drawn(prefix: str, group: str, columns: dict[str, str], folder: Path) -> tuple[dict[Any, Any], dict[str, str]]:
    """Draws data of 3 to 8 rows for each task: splits by the name of the configuration, and folders by our task."""
    import datasets
    from helpers import harness_rows

    library = harness(prefix)
    splits: dict[Any, Any] = {}
    paths = {}
    for number, task in enumerate(library.members(group)):
        config = library.config(task)
        dataset = splits.setdefault(config.get("dataset_name"), datasets.DatasetDict())
        keys = ("training_split", "validation_split", "test_split", "fewshot_split")
        for split in {config.get(key) for key in keys} | {(config.get("fewshot_config") or {}).get("split")}:
            if split and split not in dataset:
                dataset[split] = harness_rows.make(columns, rows=3 + number % 6, seed=number)
        dataset.save_to_disk(folder / task)
        paths[f"{prefix}:{task}"] = str(folder / task)
    return splits, paths


@pytest.mark.parametrize("group", GROUPS)
def test_every_metric_of_a_group_of_lmms_eval_to_the_bit(group: str, address: str, scorer: str, tmp_path: Path) -> None:
    from helpers import harness_theirs

    method, columns, count = GROUPS[group]
    splits, paths = drawn("lmms", group, columns, tmp_path / "data")
    options: dict[str, Any] = {"method": method, "data": paths, "endpoint": address, "scorer": scorer}
    if group == "blink":
        ours = harness_runs.run_every_way([f"lmms:{group}"], options, tmp_path)
    else:
        ours = evaluate(f"lmms:{group}", **options, run=tmp_path / "one")
    reference = harness_theirs.groups([group], splits, address, str(tmp_path), simple=method == "likelihood")
    names = {member.name.rpartition("::")[2]: member.name for member in harness("lmms").groups(group)}
    values = {names.get(name, name): metrics for name, metrics in reference.items()}
    assert harness_runs.compare(ours, values, "lmms") == sum(map(len, values.values()))
    of_groups = [metric for metric in ours.metrics if metric.metric == "harness_group"]
    assert len(of_groups) == sum(len(values[name]) for name in names.values()) == count
    assert all(metric.low is not None for metric in of_groups)


def test_every_metric_of_a_group_of_lm_eval_to_the_bit(address: str, scorer: str, tmp_path: Path) -> None:
    from helpers import harness_theirs_lm

    splits, paths = drawn("lm-eval", "mmlu", _MMLU, tmp_path / "data")
    options: dict[str, Any] = {"method": "likelihood", "data": paths, "endpoint": address, "scorer": scorer}
    ours = evaluate("lm-eval:mmlu", **options, run=tmp_path / "run")
    reference = harness_theirs_lm.groups("mmlu", splits, address)
    assert harness_runs.compare(ours, reference, "lm-eval") == 57 + 5


def test_a_failed_item_leaves_the_group_undefined_and_its_tasks_as_they_are(
    address: str, scorer: str, tmp_path: Path
) -> None:
    import datasets

    _, paths = drawn("lmms", "blink", GROUPS["blink"][1], tmp_path / "data")
    task = next(iter(paths))
    rows = datasets.load_from_disk(paths[task])
    failing = {split: list(rows[split]) for split in rows}
    for examples in failing.values():
        examples[0] = {**examples[0], "prompt": "REFUSE this"}
    changed = {split: datasets.Dataset.from_list(failing[split], features=rows[split].features) for split in rows}
    datasets.DatasetDict(changed).save_to_disk(tmp_path / "failing")
    paths[task] = str(tmp_path / "failing")
    results = evaluate("lmms:blink", data=paths, endpoint=address, scorer=scorer, run=tmp_path / "run")
    group = results["lmms:blink/blink_acc"]
    assert (group.value, group.value_answered is None) == (None, False)
    assert f"of {task}; the value is over the others" in group.details["not_computed"]
    assert sum(metric.value is None for metric in results.metrics) == 2


def test_groups_are_opened_as_their_harness_opens_them(tmp_path: Path) -> None:
    counts = {prefix: len(harness(prefix).members("mmlu")) for prefix in ("lmms", "lm-eval")}
    assert counts == {"lmms": 57, "lm-eval": 57}
    (tmp_path / "mine.yaml").write_text("group: mine\ntask:\n  - task: mme\n    num_fewshot: 2\n")
    with pytest.raises(HarnessError, match="group lmms:mine changes num_fewshot of its members"):
        find(["lmms:mine"], [str(tmp_path)])
