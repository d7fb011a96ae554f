"""Samples files whose tool asks in another model's dialect, or leaves something to its model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.explained import causes
from helpers.report_runs import Writer

from lyncean.model.v1 import model_pb2 as model
from lyncean_interop import bridged
from lyncean_interop.answers import Answer
from orchestrator.samples import Call, Message, Sample, Scoring, Turn, image_part, text_part

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


def run(path: Path, prompts: list[str], targets: str = "ABC", docs: Sequence[str] = ("", "", "")) -> Path:
    """A run of ours whose answers are all right: A, B and C; the task's code gets `docs` to score."""
    writer = Writer(path, tasks=["lmms:ai2d"])
    for at, prompt in enumerate(prompts):
        key, target = f"lmms:ai2d/{at}", list(targets[at : at + 1])
        writer.item(key, sample=key, task="lmms:ai2d", parts=[{"text": prompt}], answer="ABC"[at], score=1.0,
                    rule="harness_task", targets=target, options=(), params={"doc": docs[at]})  # fmt: skip
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


def test_targets_that_our_run_has_none_of_are_no_other_rows(tmp_path: Path) -> None:
    theirs = [f"What is {at}? Say it." for at in range(3)]
    path = samples(tmp_path / "model", theirs, ["{'masks': 1}"] * 3, {"max_new_tokens": 64})
    found = causes(run(tmp_path / "ours", [f"What is {at}?" for at in range(3)], targets=""), path)
    assert {names[0]: cause["items"] for names, cause in found.items()} == {"prompt": 3}


@pytest.mark.parametrize(("logged", "cause"), [("['red', 'a tree']", "not recorded"), ("['red', 'a car']", "data")])
def test_several_targets_may_be_the_text_of_their_list(tmp_path: Path, logged: str, cause: str) -> None:
    path = samples(tmp_path / "llava-tiny", ["Which?"], [logged], {"max_new_tokens": 64})
    writer = Writer(tmp_path / "ours", tasks=["lmms:ai2d"])
    writer.item("lmms:ai2d/0", sample="lmms:ai2d/0", task="lmms:ai2d", parts=[{"text": "Which?"}], answer="red",
                rule="harness_task", targets=["red", "a tree"], options=(), score=1.0)  # fmt: skip
    assert [names[0] for names in causes(writer.close(), path)] == [cause]


@pytest.mark.parametrize(
    ("docs", "expected"),
    [
        ([json.dumps({"options": ["a tree", f"{at} cats", "7"]}) for at in range(3)], {"prompt": 3}),
        ([json.dumps({"options": ["a house", f"{at + 3} dogs", "8"]}) for at in range(3)], {"data": 3}),
    ],
    ids=["the same row", "another row"],
)
def test_a_dialect_that_lists_what_the_row_holds_asks_about_that_row(
    tmp_path: Path, docs: list[str], expected: dict[str, int]
) -> None:
    theirs = [f"Look at the image.\nOptions:\nA. a tree\nB. {at} cats\nC. 7" for at in range(3)]
    path = samples(tmp_path / "model", theirs, ["A", "B", "C"], {"max_new_tokens": 64})
    ours = run(tmp_path / "ours", ["Answer the question in the image."] * 3, docs=docs)
    assert {names[0]: cause["items"] for names, cause in causes(ours, path).items()} == expected


@pytest.mark.parametrize(
    ("sent", "logged", "expected"),
    [
        ("Which of these?", "Which?", ["Which of these?"]),
        ("Which of these?", "Which? Say it.", []),
        ("Which?", "Which?", []),
    ],
    ids=["made by the task's code", "another question", "the question"],
)
def test_messages_of_the_task_s_code_are_what_was_sent_in_place_of_the_logged_question(
    sent: str, logged: str, expected: list[str]
) -> None:
    call = Call((Message(model.ROLE_USER, (image_part(b"x"), text_part(sent))),))
    scoring = Scoring("harness_task", ("A",))
    turn = Turn(lambda _: call, scoring=scoring)
    item = bridged._Item("t/0", Sample("t/0", (turn,)), turn, scoring, Answer("0", logged, "A", ("A",)))
    (found,) = bridged._as_sent([item], {"t/0": "Which?"})
    assert [part["text"] for message in found.messages for part in message["parts"]] == expected
