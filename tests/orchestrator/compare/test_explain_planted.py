"""orchestrator explain: differences that are planted in real runs are put down to what was planted."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers.engine_cluster import HERE, Server
from PIL import Image

from orchestrator.cli import main

ROWS = 60
BASE = {
    "data": "rows.csv", "id": "id", "image": "image", "question": "question", "options": "[A, B]",
    "answer": "answer", "metrics": "[accuracy]",
}  # fmt: skip
PROMPT = "|-\n  {question}\n  {options}\n  Answer with a letter."
Change = Callable[[Path, dict[str, str]], None]


def rows(folder: Path, *, size: int = 48, skip: int = 0, other: int = 0) -> None:
    """Writes a data set; `other` replaces one row in so many, `skip` leaves one in so many out."""
    with (folder / "rows.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "image", "question", "A", "B", "answer", "group"])
        for number in range(1, ROWS + 1):
            if skip and number % skip == 0:
                continue
            changed = bool(other and number % other == 0)
            name = number + 500 * changed
            # Of the replaced rows some keep their answer.
            answer = "AB"[(number // 2 + changed * (number % 2)) % 2]
            options = [f"key {name}", f"dud {name}"] if answer == "A" else [f"dud {name}", f"key {name}"]
            question = f"Which of these opens {'chest' if changed else 'door'} number {name}?"
            table.writerow([number, f"{number}.png", question, *options, answer, number // 3])
            data = io.BytesIO()
            Image.new("RGB", (size, size), (number, 60 if changed else 0, 0)).save(data, "PNG")
            (folder / f"{number}.png").write_bytes(data.getvalue())


def setting(**values: str) -> Change:
    def change(folder: Path, keys: dict[str, str]) -> None:
        keys |= values

    return change


def data(**changes: int) -> Change:
    return lambda folder, keys: rows(folder, **changes)


def each(*changes: Change) -> Change:
    def change(folder: Path, keys: dict[str, str]) -> None:
        for one in changes:
            one(folder, keys)

    return change


SUFFIX = setting(prompt=f"{PROMPT} Think hard.")
STOP = setting(decoding='{max_output_tokens: 64, stop: ["\\n"]}')
PLANTED: dict[str, tuple[Change, str]] = {
    "same": (setting(), ""),
    "suffix": (SUFFIX, "prompt"),
    "around": (setting(prompt="|-\n  Think hard, {question} - and be quick.\n  {options}"), "prompt"),
    "stop": (STOP, "decoding"),
    "limit": (setting(decoding="{max_output_tokens: 3}"), "decoding"),
    "small": (data(size=16), "image"),
    "replaced": (data(other=2), "data"),
    "missing": (data(skip=4), "data"),
    "rule": (setting(rule="contains_word"), "reading"),
    "groups": (setting(metrics="[{metric: group_all, name: accuracy}]"), "aggregation"),
    "both": (each(SUFFIX, setting(decoding="{max_output_tokens: 48}")), "prompt"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(*flags: str) -> Server:
        command = [sys.executable, str(HERE / "explain_server.py"), *flags]
        started.append(Server(tmp_path_factory.mktemp("server"), command).start())
        return started[-1]

    yield start
    for each_server in started:
        each_server.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Task files of both sides, `first` and `second`."""
    path = tmp_path_factory.mktemp("planted")
    for task, (change, _) in PLANTED.items():
        for side in ("first", "second"):
            home = path / side / task
            home.mkdir(parents=True)
            rows(home)
            keys = BASE | {"prompt": PROMPT, "group": "group", "decoding": "{max_output_tokens: 64}"}
            if side == "second":
                change(home, keys)
            (home / f"{task}.yaml").write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return path


def evaluate(folder: Path, side: str, run: str, server: Server, shared_scorer: Server, *tasks: str) -> Path:
    words = [word for task in tasks or PLANTED for word in ("--task", str(folder / side / task / f"{task}.yaml"))]
    addresses = ["--endpoint", server.address, "--scorer", shared_scorer.address]
    CliRunner().invoke(main, ["eval", *words, *addresses, "--run", str(folder / run)])
    assert (folder / run / "results.json").exists()
    return folder / run


@pytest.fixture(scope="module")
def runs(folder: Path, server: Callable[..., Server], shared_scorer: Server) -> tuple[Path, Path, Server]:
    model = server()
    made = [evaluate(folder, side, f"run-{side}", model, shared_scorer) for side in ("first", "second")]
    return made[0], made[1], model


def explain(*words: object) -> Result:
    return CliRunner().invoke(main, ["explain", *map(str, words)])


def found(*words: object) -> dict[str, dict[str, Any]]:
    result = explain(*words, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return {task["task"]: task for task in json.loads(result.stdout)["tasks"]}


def check_sum(task: dict[str, Any]) -> None:
    """The shares sum to the difference in the printed decimals."""
    assert round(sum(round(100 * cause["points"]) for cause in task["causes"])) == round(100 * task["difference"])
    assert round(100 * task["first"]) + round(100 * task["difference"]) == round(100 * task["second"])
    if task["difference"]:
        assert sum(cause["percent"] for cause in task["causes"]) == 100


def test_planted_differences_are_put_down_to_what_was_planted(runs: tuple[Path, Path, Server]) -> None:
    tasks = found(*runs[:2])
    right = wrong = 0
    for name, (_, planted) in PLANTED.items():
        check_sum(tasks[name])
        causes = {cause["cause"]: cause["items"] for cause in tasks[name]["causes"]}
        if not planted:
            assert not causes, name
            continue
        assert planted in causes, (name, causes)
        right += causes.pop(planted)
        wrong += sum(causes.values())
    assert right > 150
    assert right >= 0.95 * (right + wrong), tasks


@pytest.mark.parametrize(
    ("flags", "cause"),
    [(["--revision", "2"], "server"), (["--noise", "1"], "noise"), (["--fails", "4"], "failure")],
)
def test_servers_are_told_apart(
    folder: Path,
    runs: tuple[Path, Path, Server],
    server: Callable[..., Server],
    shared_scorer: Server,
    flags: list[str],
    cause: str,
) -> None:
    other = evaluate(folder, "first", f"run{flags[0]}", server(*flags), shared_scorer, "same")
    (task,) = found(runs[0], other).values()
    check_sum(task)
    assert {each["cause"]: each["items"] > 5 for each in task["causes"]} == {cause: True}
    if cause == "server":
        model = server(*flags)
        words = ["--endpoint", model.address, "--scorer", shared_scorer.address, "--limit", "7", "--json"]
        experiment = json.loads(explain(runs[0], other, *words).stdout)["experiment"]
        assert experiment["same_as"] == [False, True]
        assert {each["found"] for each in experiment["items"]} == {"server"}
        assert len(experiment["items"]) == 7
        assert experiment["not_tried"] == task["causes"][0]["items"] - 7
    if cause == "failure":
        # The same run by both denominators: nothing but the metric differs.
        (task,) = found(other, other, "--metric", "accuracy", "--metric", "accuracy.answered").values()
        check_sum(task)
        assert {each["cause"]: each["items"] for each in task["causes"]} == {"aggregation": 15}
        assert task["difference"] > 0


def test_single_causes_are_tried_on_a_live_server(runs: tuple[Path, Path, Server], shared_scorer: Server) -> None:
    first, second, model = runs
    words = ["--endpoint", model.address, "--scorer", shared_scorer.address, "--limit", "500", "--json"]
    tasks = [word for task in ("suffix", "stop", "small", "rule", "both") for word in ("--task", task)]
    result = explain(first, second, *tasks, *words)
    assert result.exit_code == 0, (result.output, result.exception)
    experiment = json.loads(result.stdout)["experiment"]
    assert experiment["same_as"] == [True, True]
    assert experiment["not_tried"] == 0
    wanted = {"suffix": "prompt", "stop": "decoding", "small": "image", "rule": "reading", "both": "prompt"}
    by_task = {name: {i["found"] for i in experiment["items"] if i["key"].startswith(f"{name}/")} for name in wanted}
    assert by_task == {name: {cause} for name, cause in wanted.items()}


def test_the_prompt_of_another_harness_is_tried_with_our_images(
    runs: tuple[Path, Path, Server], shared_scorer: Server, tmp_path: Path
) -> None:
    """Its samples have the words and the answers, and neither images nor settings."""
    first, second, model = runs
    samples = []
    for line in map(json.loads, (second / "responses.jsonl").read_text().splitlines()):
        if line["task"] == "suffix":
            (words,) = (part["text"] for part in line["request"]["messages"][0]["parts"] if "text" in part)
            answer = line["response"]["parts"][0]["text"]
            samples.append(
                {"doc_id": int(line["key"].split("/")[1]), "doc": {}, "target": line["scoring"]["targets"][0],
                 "arguments": {"gen_args_0": {"arg_0": words, "arg_1": ""}}, "resps": [[answer]],
                 "filtered_resps": [answer], "metrics": ["acc"], "acc": 1.0}
            )  # fmt: skip
    path = tmp_path / "samples_suffix_2026-11-24T00-06-01.436358.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    scorer = ["--scorer", shared_scorer.address]
    CliRunner().invoke(main, ["import", "lm-eval", str(path), "--run", str(tmp_path / "theirs"), *scorer])
    words = ["--endpoint", model.address, *scorer, "--limit", "500"]
    result = explain(first, tmp_path / "theirs", *words, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    found = json.loads(result.stdout)
    (cause,) = found["tasks"][0]["causes"]
    assert (cause["cause"], cause["also"], cause["not_recorded"]) == ("prompt", ["server"], ["image", "decoding"])
    assert {item["found"] for item in found["experiment"]["items"]} == {"prompt"}
    assert found["experiment"]["same_as"] == [True, False]
    assert "reproduced by" in explain(first, tmp_path / "theirs", *words).stdout


def test_a_page_for_an_issue(runs: tuple[Path, Path, Server], tmp_path: Path) -> None:
    page = tmp_path / "why.md"
    result = explain(*runs[:2], "--task", "both", "--markdown", page)
    assert result.exit_code == 0, result.output
    assert "prompt or decoding" in result.stdout
    text = page.read_text(encoding="utf-8")
    assert "| `prompt or decoding` |" in text
    assert "Answer with a letter.⟦ Think hard.⟧" in text
    assert "`max_output_tokens 48`" in text
    assert "`data.both.sha256`" in text
    assert "data.suffix" not in text, "another task's"
    assert "`versions.lyncean`" in text
    assert explain(*runs[:2], "--task", "both", "--markdown", "-").stdout == text
