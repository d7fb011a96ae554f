"""labels.jsonl: acknowledged labels are on the disk, also with two writers and after a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.label_runs import judged_run, say

from orchestrator.run_folder import labels
from orchestrator.run_folder.errors import RunBusyError, RunLogError
from orchestrator.run_folder.lines import LabelLine
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.reader import open_run

PROGRAM = """
import sys
from pathlib import Path
from orchestrator.run_folder import labels
from orchestrator.run_folder.lines import LabelLine
for number in range(40):
    line = LabelLine(key=f"t/{number}", by=sys.argv[2], mark="scored", score=1.0, seed=0, given="now")
    labels.append(Path(sys.argv[1]), line)
"""


def line(key: str, by: str = "ann", mark: str = "scored", score: float | None = None, seed: int = 0) -> LabelLine:
    label = LabelLine(key=key, by=by, mark=mark, seed=seed, given="2026-01-31T09:00:00Z")  # type: ignore[arg-type]
    if score is not None:
        label.score = score
    return label


def test_the_last_word_of_each_person_counts(tmp_path: Path) -> None:
    assert labels.read(tmp_path) == (None, {})
    for label in (
        line("t/1", score=1.0), line("t/1", score=0.0), line("t/2", mark="unclear"), line("t/3", score=0.5),
        line("t/3", mark="undone"), line("t/1", by="bob", score=1.0),
    ):  # fmt: skip
        labels.append(tmp_path, label)
    seed, marks = labels.read(tmp_path)
    assert seed == 0
    assert {name: sorted(mine) for name, mine in marks.items()} == {"ann": ["t/1", "t/2"], "bob": ["t/1"]}
    assert labels.scores(marks) == {"t/1": [0.0, 1.0]}


def test_two_processes_write_in_turn(tmp_path: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), name]) for name in ("ann", "bob")]
    assert [process.wait() for process in both] == [0, 0]
    assert {name: len(mine) for name, mine in labels.read(tmp_path)[1].items()} == {"ann": 40, "bob": 40}


def test_a_torn_line_is_taken_back_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    labels.append(tmp_path, line("t/1", score=1.0))
    log = tmp_path / "labels.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:30])
    assert list(labels.read(tmp_path)[1]["ann"]) == ["t/1"]
    labels.append(tmp_path, line("t/2", score=1.0))
    assert list(labels.read(tmp_path)[1]["ann"]) == ["t/1", "t/2"]
    log.write_bytes(log.read_bytes().replace(b'"score":1.0', b'"score":0.0', 1))
    with pytest.raises(RunLogError, match=r"line 1: damaged .* delete the line and give that label again"):
        labels.read(tmp_path)


def test_labels_of_two_seeds_are_no_sample(tmp_path: Path) -> None:
    for seed in (0, 7):
        labels.append(tmp_path, line("t/1", score=1.0, seed=seed))
    with pytest.raises(RunLogError, match=r"several seeds \(0, 7\)"):
        labels.read(tmp_path)


def test_nothing_is_written_while_the_run_is(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    with pytest.raises(RunBusyError):
        labels.append(tmp_path, line("t/1", score=1.0))
    log.close()
    labels.append(tmp_path, line("t/1", score=1.0))


def test_kinds_of_error_are_shares_of_the_wrong_answers(tmp_path: Path) -> None:
    run = judged_run(tmp_path / "run", items=12)
    say(run, ["marvel/0", "marvel/1", "marvel/2"], 0.0, kind="perception")
    say(run, ["marvel/3"], 0.0, kind="reasoning")
    say(run, ["marvel/2"], 0.0, "bob", kind="reasoning")  # two people: a half each
    say(run, ["marvel/4"], 1.0)
    (kinds,) = labels.error_kinds(open_run(run))
    assert (kinds.task, kinds.answers, kinds.shares) == ("marvel", 4, {"perception": 0.625, "reasoning": 0.375})
    assert kinds.rows[0] == ("perception", "62.5", "[21.9, 90.8]")
    assert labels.error_kinds(open_run(judged_run(tmp_path / "none", items=3))) == []
