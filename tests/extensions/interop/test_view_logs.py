"""orchestrator view over logs of other tools: found, read with the tools' own scores, opened and compared."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from helpers.engine_cluster import wait_for
from helpers.report_runs import marvel_run

from lyncean_interop import tool_logs
from orchestrator.cli import main
from orchestrator.extensions import LOGS
from orchestrator.report.live import logs as live_logs
from orchestrator.report.live.logs import ToolLogs
from orchestrator.report.live.server import Site
from orchestrator.run_folder.reader import Run, open_run

PROMPT = "Which colour?\nA. red\nB. blue\nAnswer:"


READERS = [LOGS.get(name) for name in ("inspect", "lm-eval", "lmms-eval")]


def find_logs(folder: Path, depth: int) -> Iterator[Path]:
    return (path for path, _ in live_logs.find_logs(folder, depth, READERS))


def tool_of(path: Path) -> str:
    (tool,) = [reader.name for reader in READERS if reader.is_log(path)]
    return tool


def make_run(path: Path, run: Path) -> None:
    LOGS.get(tool_of(path)).make_run(path, run)


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def lm_eval(folder: Path, count: int = 4) -> Path:
    lines = [
        {
            "doc_id": number, "doc": {}, "target": "B", "arguments": {"gen_args_0": {"arg_0": PROMPT, "arg_1": {}}},
            "resps": [["The answer is B." if number else "I would say A"]], "filtered_resps": ["B" if number else "A"],
            "filter": "none", "metrics": ["exact_match"], "exact_match": float(number > 0),
        }
        for number in range(count)
    ]  # fmt: skip
    return written(folder / "lm" / "org__model" / "samples_colours_2026-11-24T00-06-01.436358.jsonl", lines)


def lmms_eval(folder: Path) -> Path:
    common = {"doc": {"category": "colour", "url": "x"}, "input": PROMPT, "target": "B", "doc_hash": "0"}
    lines = [
        common | {"doc_id": 0, "resps": [["B"]], "filtered_resps": ["B"], "some_score": {"id": 0, "score": 1.0}},
        common | {"doc_id": 1, "resps": [["A"]], "filtered_resps": ["A"], "some_score": {"id": 1, "score": 0.0},
                  "doc": {"category": "shape", "url": "y"}},
        common | {"doc_id": 2, "resps": [["B"]], "filtered_resps": ["B"], "some_score": {"id": 2}},
        common | {"doc_id": 3, "resps": [["[LMMS_EVAL_REQUEST_FAILED] x"]], "filtered_resps": ["[LMMS_EVAL_REQUEST_FA"],
                  "some_score": {"id": 3, "score": 1.0}},
    ]  # fmt: skip
    return written(folder / "lmms" / "a_model" / "20260131_085958_samples_colours.jsonl", lines)


@pytest.fixture(scope="module")
def inspect_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("inspect_ai.log")
    folder = tmp_path_factory.mktemp("inspect")
    for name, skill in (("first", 0.4), ("second", 0.8)):
        run = marvel_run(folder / "own" / name, puzzles=30, skill=skill)
        args = ["export", str(run), "--format", "inspect", "--output", str(folder / "logs"), "--embed"]
        assert CliRunner().invoke(main, args).exit_code == 0
    return folder


def metric(run: Path) -> dict[str, Any]:
    (task,) = json.loads((run / "results.json").read_text())["tasks"].values()
    return dict(task["metrics"][0])


def test_samples_of_lm_eval_have_its_scores(tmp_path: Path) -> None:
    path = lm_eval(tmp_path)
    make_run(path, tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert tool_of(path) == "lm-eval"
    assert (run.model_name, list(run.tasks), run.manifest["created"]) == (
        "org__model", ["colours"], "2026-11-24T00:06:01Z",
    )  # fmt: skip
    score = metric(run.path)
    assert (score["name"], score["value"], score["unit"], score["denominator"]) == ("exact_match", 0.75, "fraction", 4)
    assert score["interval"]["low"] == pytest.approx(0.3006, abs=1e-4), "Wilson's interval of 3 of 4"
    assert [(item.outcome, item.score, item.verdict["extracted"]) for item in run][:2] == [
        ("scored", 0.0, "A"), ("scored", 1.0, "B"),
    ]  # fmt: skip


def test_samples_of_lmms_eval_of_any_task(tmp_path: Path) -> None:
    """A failed request and a sample without a number are not answers, with any score beside them."""
    path = lmms_eval(tmp_path)
    make_run(path, tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert tool_of(path) == "lmms-eval"
    assert [item.outcome for item in run] == ["scored", "scored", "unjudged", "failed"]
    (task,) = run.tasks.values()
    score, *slices = task["metrics"]
    assert (score["name"], score["value"], score["denominator"]) == ("some_score", 0.25, 4)
    assert (score["value_answered"], score["denominator_answered"]) == (0.5, 2)
    assert {(*entry["labels"].values(), entry["value"]) for entry in slices} == {
        ("colour", 1 / 3), ("shape", 0.0), ("x", 1 / 3), ("y", 0.0),
    }  # fmt: skip


def test_logs_of_inspect_bring_their_images_and_labels(inspect_logs: Path, tmp_path: Path) -> None:
    (path, _) = find_logs(inspect_logs / "logs", 0)
    original = open_run(inspect_logs / "own" / "first")
    make_run(path, tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert {item.key: item.score for item in run if item.score is not None}.items() <= {
        item.key: item.score for item in original
    }.items()

    def images(of: Run) -> dict[str, list[str]]:
        return {
            item.key: [part["image"]["sha256"] for part in item.response["request"]["messages"][0]["parts"][:-1]]
            for item in of
            if item.scoring
        }

    assert images(run) == images(original)
    assert all(run.image(name) for names in images(run).values() for name in names)
    assert next(iter(run)).labels == next(iter(original)).labels
    assert metric(run.path)["denominator"] == 30


def test_only_logs_are_found_and_never_within_a_run(tmp_path: Path) -> None:
    wanted = {lm_eval(tmp_path), lmms_eval(tmp_path)}
    written(tmp_path / "x" / "results.json", [{"version": 2}])
    inside = marvel_run(tmp_path / "run", puzzles=1)
    shutil.copy(next(iter(wanted)), inside / "samples_x.jsonl")
    (tmp_path / "log.json").write_text('{\n  "version": 2,\n  "status": "success",\n  "eval": {}}')
    assert set(find_logs(tmp_path, 2)) == wanted | {tmp_path / "log.json"}
    assert set(find_logs(tmp_path, 1)) == {tmp_path / "log.json"}
    assert not list(find_logs(inside, 2))


def listed(site: Site, name: str, state: str) -> Callable[[], dict[str, Any] | None]:
    def look() -> dict[str, Any] | None:
        runs = {run["name"]: run for run in orjson.loads(site.runs())}
        return runs[name] if runs[name]["state"] == state else None

    return look


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = set(threading.enumerate())
    yield tmp_path
    assert {thread for thread in threading.enumerate() if not thread.daemon} <= before


def test_logs_are_listed_opened_and_read_anew_when_they_change(folder: Path) -> None:
    path = lm_eval(folder)
    name = path.relative_to(folder).as_posix()
    site = Site(folder)
    row = wait_for(listed(site, name, "complete"))
    assert (row["tool"], row["metrics"][0]["shown"], row["counts"]["scored"]) == ("lm-evaluation-harness", "75.0", 4)
    opened = site.find(name)
    assert opened
    assert b"I would say A" not in site.page(opened), "samples are packed"
    assert b"org__model" in site.page(opened)
    kept = opened.path
    lm_eval(folder, count=10)
    wait_for(lambda: len(row := wait_for(listed(site, name, "complete"))) and row["answered"] == 10)
    assert not kept.exists(), "what was read before is gone"
    path.unlink()
    assert not orjson.loads(site.runs())


@pytest.mark.parametrize("text", ["{", '{"doc_id": 1}\n', "", "[]\n", "\xff", '{"doc_id": [], "arguments": 1}\n'])
def test_a_damaged_log_says_so_and_hides_no_other(folder: Path, text: str) -> None:
    good = lm_eval(folder).relative_to(folder).as_posix()
    (folder / "samples_x_2026-11-24T00-06-01.4.jsonl").write_text(text, encoding="latin-1")
    site = Site(folder)
    assert wait_for(listed(site, "samples_x_2026-11-24T00-06-01.4.jsonl", "unreadable"))["note"]
    assert wait_for(listed(site, good, "complete"))


def test_a_reader_that_fails_in_any_way_ends_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lm_eval(folder)
    lmms_eval(folder)

    read = tool_logs.ToolLogs.make_run

    def failing(self: tool_logs.ToolLogs, path: Path, run: Path) -> None:
        if self.name == "lm-eval":
            raise KeyError("surprise")
        read(self, path, run)

    monkeypatch.setattr(tool_logs.ToolLogs, "make_run", failing)
    logs = ToolLogs(folder)

    def states() -> set[str]:
        return {str(log.state()["state"]) for log in logs.runs().values()}

    wait_for(lambda: states() == {"unreadable", "complete"})


def test_a_log_is_compared_with_a_run_of_ours(inspect_logs: Path) -> None:
    """Metrics of other names are no obstacle: the items' own scores are compared."""
    site = Site(inspect_logs)
    first, second = site.find("own/first"), site.find("logs/second_marvel.eval")
    assert first
    assert second
    page = site.comparison([first, second], other_data=False).decode()
    assert "marvel: score of an item" in page
    assert "of 30 items" in page


def test_a_log_that_takes_more_memory_than_it_may_is_unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = lmms_eval(folder).relative_to(folder).as_posix()
    line = {"doc_id": 0, "arguments": {"gen_args_0": {}}, "resps": [["B" * (64 << 20)]], "filter": "none"}
    written(folder / "samples_large_2026-11-24T00-06-01.4.jsonl", [line])
    monkeypatch.setattr("lyncean_interop.reading.MEMORY", 32 << 20)
    site = Site(folder)
    note = wait_for(listed(site, "samples_large_2026-11-24T00-06-01.4.jsonl", "unreadable"))["note"]
    assert "it takes more memory than it may" in note
    assert wait_for(listed(site, good, "complete"))
