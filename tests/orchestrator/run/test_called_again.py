"""A finished run that is called again: its results and page stand as long as its logs do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from helpers.engine_cluster import Server

from orchestrator.api import evaluate
from orchestrator.report import finish
from orchestrator.run import evaluate as run_eval
from orchestrator.run_folder import finished
from orchestrator.run_folder.files import MANIFEST, RESPONSES, RESULTS, VERDICTS
from orchestrator.run_folder.lines import sealed


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files made by commands, with a fingerprint for logs of any size."""
    monkeypatch.setattr(finished, "_LEAST_BYTES", 1)
    write, render, names = run_eval.run_results.write, finish.write_report, list[str]()

    async def results(*args: Any) -> dict[str, Any]:
        names.append("results")
        return await write(*args)

    def report(run: Path) -> Path:
        names.append("report")
        return render(run)

    monkeypatch.setattr(run_eval.run_results, "write", results)
    monkeypatch.setattr(finish, "write_report", report)
    return names


def called(run: Path, server: Server) -> bytes:
    task = run.parent / "rows.yaml"
    task.write_text("data: rows.csv\nid: id\nquestion: question\noptions: [A, B]\nanswer: answer\n")
    rows = [f"{row},row {row} ?,cat,dog,{'AB'[row % 2]}" for row in range(24)]
    (run.parent / "rows.csv").write_text("\n".join(["id,question,A,B,answer", *rows]))
    evaluate(str(task), endpoint=server.address, run=run, max_unparsed=1.0)
    return (run / RESULTS).read_bytes()


def lose_a_verdict(run: Path) -> None:
    lines = (run / VERDICTS).read_bytes().splitlines(keepends=True)
    (run / VERDICTS).write_bytes(b"".join(lines[1:]))


def replace_an_answer(run: Path) -> None:
    lines = (run / RESPONSES).read_bytes().splitlines()
    line = orjson.loads(lines[0])
    del line["crc32"]
    line["seconds"] = 12.5
    (run / RESPONSES).write_bytes(b"\n".join([sealed(orjson.dumps(line)), *lines[1:]]) + b"\n")


def rot_results(run: Path) -> None:
    (run / RESULTS).write_bytes((run / RESULTS).read_bytes().replace(b'"planned": 24', b'"planned": 25'))


def other_metrics(run: Path) -> None:
    known = orjson.loads((run / finished.FINISHED).read_bytes())
    (run / finished.FINISHED).write_bytes(orjson.dumps({**known, "source": "0" * 64}))


def rot_page(run: Path) -> None:
    (run / "report.html").write_bytes((run / "report.html").read_bytes()[:-9])


def label(run: Path) -> None:
    (run / "labels.jsonl").write_bytes(b"")


def test_what_stands_is_not_made_again(tmp_path: Path, written: list[str], demo: Server) -> None:
    first = called(tmp_path / "run", demo)
    seconds = orjson.loads((tmp_path / "run" / MANIFEST).read_bytes())["seconds"]
    assert written == ["results", "report"]
    assert called(tmp_path / "run", demo) == first
    assert written == ["results", "report"]
    assert orjson.loads((tmp_path / "run" / MANIFEST).read_bytes())["seconds"] == seconds
    assert not (tmp_path / "run" / ".results.json").exists()


def test_results_of_a_call_that_was_killed_stand(tmp_path: Path, written: list[str], demo: Server) -> None:
    first = called(tmp_path / "run", demo)
    finished.put_aside(tmp_path / "run")
    assert not (tmp_path / "run" / RESULTS).exists()
    assert called(tmp_path / "run", demo) == first
    assert written == ["results", "report"]


@pytest.mark.parametrize("change", [lose_a_verdict, replace_an_answer, rot_results, other_metrics])
def test_results_of_what_has_changed_are_made_anew(
    tmp_path: Path, written: list[str], change: Callable[[Path], None], demo: Server
) -> None:
    first = called(tmp_path / "run", demo)
    change(tmp_path / "run")
    written.clear()
    again = called(tmp_path / "run", demo)
    assert written[0] == "results"
    assert again == first


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("change", [rot_page, label, replace_an_answer])
def test_a_page_of_what_has_changed_does_not_stand(
    tmp_path: Path, change: Callable[[Path], None], demo: Server
) -> None:
    called(tmp_path / "run", demo)
    assert finished.report_stands(tmp_path / "run")
    change(tmp_path / "run")
    assert not finished.report_stands(tmp_path / "run")


def test_a_run_that_is_made_in_a_moment_notes_nothing(tmp_path: Path, demo: Server) -> None:
    called(tmp_path / "run", demo)
    assert not (tmp_path / "run" / finished.FINISHED).exists()
