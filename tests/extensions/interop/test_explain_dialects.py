"""Samples files whose tool asks in another model's dialect, or leaves something to its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.explained import causes
from helpers.report_runs import Writer

NAMES = ["red", "blue", "green"]


def samples(path: Path, prompts: list[str], targets: list[str], kwargs: dict[str, Any]) -> Path:
    """A samples file whose answers are all wrong, beside its file of results."""
    path.mkdir()
    lines = [
        {"doc_id": at, "input": prompt, "target": target, "filtered_resps": ["none"], "exact_match": 0.0}
        for at, (prompt, target) in enumerate(zip(prompts, targets, strict=True))
    ]
    file = path / "20261126_120000_samples_ai2d.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    results = {"configs": {"ai2d": {"generation_kwargs": kwargs}}}
    file.with_name("20261126_120000_results.json").write_text(json.dumps(results))
    return file


def run(path: Path, prompts: list[str]) -> Path:
    """A run of ours whose answers are all right: A, B and C."""
    writer = Writer(path, tasks=["lmms:ai2d"])
    for at, prompt in enumerate(prompts):
        writer.item(f"lmms:ai2d/{at}", task="lmms:ai2d", parts=[{"text": prompt}], answer="ABC"[at], score=1.0,
                    rule="harness_task", targets=["ABC"[at]], options=())  # fmt: skip
    return writer.close()


def test_a_dialect_with_options_without_letters_asks_about_the_same_rows(tmp_path: Path) -> None:
    listed = "A. red\nB. blue\nC. green"
    ours = [f"What is {at}?\n{listed}\nAnswer with the option's letter." for at in range(3)]
    theirs = [f"What is {at}?" + "red\nblue\ngreen Answer:" for at in range(3)]
    path = samples(tmp_path / "model", theirs, NAMES, {"max_new_tokens": 64})
    found = causes(run(tmp_path / "ours", ours), path)
    assert {names[0]: cause["items"] for names, cause in found.items()} == {"prompt": 3}
    other = samples(tmp_path / "other", theirs, NAMES[::-1], {"max_new_tokens": 64})
    found = causes(run(tmp_path / "again", ours), other)
    assert {names[0]: cause["items"] for names, cause in found.items()} == {"data": 2, "prompt": 1}


@pytest.mark.parametrize(("kwargs", "differs"), [({}, []), ({"max_new_tokens": 32}, ["decoding"])])
def test_a_limit_that_the_tool_leaves_to_its_model_is_no_other_limit(
    tmp_path: Path, kwargs: dict[str, Any], differs: list[str]
) -> None:
    prompts = [f"What is {at}?" for at in range(3)]
    path = samples(tmp_path / "llava-tiny", prompts, ["A", "B", "C"], {**kwargs, "do_sample": False})
    (found,) = causes(run(tmp_path / "ours", prompts), path).values()
    assert (found["cause"], found["also"], found["not_recorded"]) == ("not recorded", [*differs, "reading"], ["image"])
