"""`.planned`: a resume passes over exactly the settled rows of the log, also with a stale or damaged file."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import orjson
import pytest
from helpers.engine_cluster import Cluster, Server

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.data.rows import Row
from orchestrator.engine.accounting import Accounting
from orchestrator.run import plan as run_plan
from orchestrator.run.request import RunRequest
from orchestrator.run_folder.key_table import shard_of
from orchestrator.run_folder.log import RunLog
from orchestrator.run_folder.planned_rows import PLANNED, STRIDE, PlannedRows
from orchestrator.samples import Sample

ROWS = 3 * STRIDE + 10
NAME = b"n" * 32


def plan() -> run_plan.Plan:
    return run_plan.make(RunRequest(["VisualPuzzles_direct"], synthetic=True, limit=ROWS))


class Folder:
    """A run folder and what one process after another plans in it."""

    def __init__(self, path: Path) -> None:
        whole = plan()
        rows = list(whole.tasks[0].source)
        source = replace(whole.tasks[0].source, iterate=lambda: iter(rows))
        self.path, self.plan = path, replace(whole, tasks=(replace(whole.tasks[0], source=source),))

    def resume(self, name: bytes = NAME, shard: tuple[int, int] | None = None) -> tuple[list[Sample], Accounting]:
        """Returns the samples that are built, and what was counted of those that are not."""
        log, accounting = RunLog(self.path), Accounting()
        planned = PlannedRows(log, name, self.plan.names, accounting.pass_over, shard)
        samples = list(self.plan.samples(planned))
        planned.close()
        log.close()
        return samples, accounting

    def answer(self, samples: Iterator[Sample] | list[Sample], outcome: Outcome | None = None) -> None:
        log = RunLog(self.path)
        for sample in samples:
            line = {"key": sample.key} | ({"outcome": outcome} if outcome else {})
            log.add_response(sample.key, outcome, orjson.dumps(line))
            settled = outcome or Outcome.SCORED
            log.add_verdict(sample.key, settled, orjson.dumps({"key": sample.key, "outcome": settled}))
        log.close()


def keys(samples: list[Sample]) -> list[str]:
    return [sample.key for sample in samples]


def test_what_is_settled_is_not_built_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    every, accounting = folder.resume()
    assert (len(every), accounting.planned) == (ROWS, 0)
    again, accounting = folder.resume()
    assert (keys(again), accounting.planned) == (keys(every), 0)
    folder.answer(every[: 2 * STRIDE + 1])
    left, accounting = folder.resume()
    assert keys(left) == keys(every[2 * STRIDE :])
    count = accounting.tasks["VisualPuzzles_direct"]
    assert (count.planned, count.resumed, dict(count.outcomes)) == (128, 128, {Outcome.SCORED: 128})
    folder.answer(every[2 * STRIDE :])
    assert folder.resume()[0] == []


def test_a_failed_or_unscored_item_is_built(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    every, _ = folder.resume()
    folder.answer(every)
    folder.answer(every[:1], Outcome.FAILED)
    folder.answer(every[STRIDE : STRIDE + 1], Outcome.REJECTED)
    log = RunLog(tmp_path)
    log.add_response(every[-1].key, None, orjson.dumps({"key": every[-1].key}))
    log.forget_verdicts()
    log.close()
    assert len(folder.resume()[0]) == ROWS
    folder.answer(every[1:])
    assert keys(folder.resume()[0]) == keys(every[:STRIDE])


def test_torn_or_damaged_anywhere_it_never_passes_over_too_much(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    every, _ = folder.resume()
    folder.answer(every[: 2 * STRIDE])
    whole = (tmp_path / PLANNED).read_bytes()
    for at in [*range(0, len(whole), 397), len(whole) - 1]:
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 64]) + whole[at + 1 :]):
            (tmp_path / PLANNED).write_bytes(damaged)
            left, accounting = folder.resume()
            assert accounting.planned in (0, STRIDE, 2 * STRIDE)
            assert keys(left) == keys(every[accounting.planned :])
            assert keys(folder.resume()[0]) == keys(every[2 * STRIDE :])


def test_a_key_of_two_strides_is_passed_over_in_the_first_alone(tmp_path: Path) -> None:
    """Else the second would never be refused as a key that is made twice."""
    folder = Folder(tmp_path)
    every, _ = folder.resume()
    folder.answer(every[: 2 * STRIDE])
    record = (tmp_path / PLANNED).read_bytes()[len(NAME) :][: _record_bytes(STRIDE)]
    body = struct.pack("<I", 0) + struct.pack("<I", 5 * STRIDE) + record[8:-4]
    with (tmp_path / PLANNED).open("ab") as file:
        file.write(body + struct.pack("<I", crc32(body)))
    log, accounting = RunLog(tmp_path), Accounting()
    planned = PlannedRows(log, NAME, folder.plan.names, accounting.pass_over)
    assert planned.over(0, 0, STRIDE)
    assert not planned.over(0, 5 * STRIDE, STRIDE)
    assert accounting.planned == 2 * STRIDE
    planned.close()
    log.close()


def _record_bytes(rows: int) -> int:
    return 4 * 4 + 17 * rows + 4


def test_rows_far_behind_what_is_over_are_read_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume reads no row of what is over, but where another row of its stride is left, or they are few."""
    monkeypatch.setattr(run_plan, "_FAR", STRIDE)
    folder = Folder(tmp_path)
    read: list[int] = []
    task = folder.plan.tasks[0]
    rows = list(task.source)

    def iterate(first: int = 0) -> Iterator[Row]:
        for number in range(first, len(rows)):
            read.append(number)
            yield rows[number]

    source = replace(task.source, iterate=iterate, iterate_from=iterate)
    folder.plan = replace(folder.plan, tasks=(replace(task, source=source),))
    every, _ = folder.resume()
    folder.answer([*every[: 2 * STRIDE], *every[2 * STRIDE + 1 :]])
    read.clear()
    left, _ = folder.resume()
    assert keys(left) == keys(every[2 * STRIDE : 3 * STRIDE])
    assert read == list(range(2 * STRIDE, ROWS))
    folder.answer(every[2 * STRIDE : 2 * STRIDE + 1])
    read.clear()
    assert folder.resume()[0] == []
    assert read == list(range(3 * STRIDE, ROWS))


def test_other_code_or_another_command_plans_anew(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    every, _ = folder.resume()
    folder.answer(every)
    assert len(folder.resume(b"m" * 32)[0]) == ROWS
    assert folder.resume(b"m" * 32)[0] == []


def test_a_shard_passes_over_its_own(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    every, _ = folder.resume(shard=(1, 3))
    mine = [sample for sample in every if shard_of(sample.key, 3) == 1]
    folder.answer(mine)
    left, accounting = folder.resume(shard=(1, 3))
    assert (left, accounting.planned) == ([], len(mine))


def test_the_name_follows_identity_and_code(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    first = plan()
    name = first.name_of_samples({"seed": 0})
    assert name == plan().name_of_samples({"seed": 0})
    assert name != first.name_of_samples({"seed": 1})
    monkeypatch.setattr(run_plan, "code_hash", lambda benchmark, synthetic, more: "other")
    assert name != first.name_of_samples({"seed": 0})


def test_a_resume_counts_what_it_passes_over(cluster: Cluster, shared_scorer: Server) -> None:
    options = ("--limit", "150", "--task", "toy", "--task", "toy_two")
    cluster.eval("whole", [cluster.model()], shared_scorer, *options)
    once = cluster.calls()
    cluster.eval("run", [cluster.model()], shared_scorer, *options, "--max-tokens-total", "2200", code=3)
    answered = cluster.answered()
    assert STRIDE < answered < 450
    cluster.eval("run", [cluster.model()], shared_scorer, *options)
    assert cluster.results("run") == cluster.results("whole")
    assert cluster.answered() == 450
    assert cluster.calls() == Counter({call: 2 * times for call, times in once.items()})
    replicas = orjson.loads((cluster.folder / "run" / "manifest.json").read_bytes())["replicas"]
    assert replicas == sorted(server.address for server in cluster.servers if server.folder.name != "model0")
