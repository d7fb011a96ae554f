"""Commands of pages and of `make bench` that measure speed, run with few rows: they end, and count right.

The pages are docs/performance.md, performance-models.md, performance-scorer.md and scale.md. No figure of speed is
looked at.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.page_commands import PAGES, ROOT, commands, make_commands

pytestmark = pytest.mark.full

SMALL = {
    "bench_start.py": "--rows 20 --runs 1",
    "bench_idle.py": "--seconds 0.3 --delays 1",
    "bench_pipeline.py": "--rows 24 --runs 1 --kinds tiny --folder made/by/it",
    "bench_episodes.py": "--episodes 6 --runs 1 --kinds tiny",
    "bench_harnesses.py": "--rows 16 --kinds tiny --rounds 1 --pause 0",
    "bench_replicas.py": "--rows 12 --runs 1",
    "bench_scorer.py": "--items 640 --json",
    "bench_reading.py": "--rounds 2 --json",
    "bench_likelihood.py": "--candidates 2 --repeats 1 --width 64 --layers 1 --json figures.json",
    "bench_generate.py": "--static --batches 1 2 --samples 2 --tokens 2 --width 64 --layers 1 --json figures.json",
    "bench_gates.py": "--worlds 40",
    "bench_intervals.py": "--worlds 40",
    "bench_labels.py": "--worlds 10",
    "bench_second_reader.py": "--answers 100",
    "bench_sequential.py": "--pairs 2 --items 60",
    "bench_share.py": "--rounds 4",
    "bench_survey.py": "--models 50 --most 600",
    "bench_variance.py": "--worlds 3",
    "bench_large.py": "--rows 320 --steps merge,resume --folder kept",
    "simulate.py": "--samples 10000",
    "simulate_check.py": "--replicas 2 --delay 0.05 --seconds 0.4 --most 64",
    "scale_plot.py": "--seconds 1",
}
"""Options added to a page's command; of an option given twice the last counts."""


def started_by_make(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the names of what `make bench` starts."""
    assert make_commands("make bench") == [".venv/bin/python -m bench"]
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: started.append(command))
    monkeypatch.setattr(sys, "argv", ["bench"])
    monkeypatch.chdir(ROOT)
    runpy.run_module("bench", run_name="__main__")
    monkeypatch.undo()
    assert all(program == sys.executable and Path(script).is_file() for program, script in started)
    return [Path(script).name for _, script in started]


def typed(script: str) -> list[str]:
    """Returns the pages' own commands for a script; else what `make bench` types."""
    lines = [line for page in PAGES for line in commands(page) if f"bench/{script}" in line]
    return [f"{line} {SMALL[script]}" for line in lines or [f"python bench/{script}"]]


Run = Callable[[str], list[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which commands are typed as in a checkout."""
    (tmp_path / "bench").symlink_to(ROOT / "bench")
    (tmp_path / "docs").mkdir()
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Types a script's commands into a shell and returns what each printed."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    for name in ("LMMS_EVAL_PYTHON", "LM_EVAL_PYTHON", "INSPECT_PYTHON"):
        environment.pop(name, None)

    def run_script(script: str) -> list[str]:
        printed = []
        for line in typed(script):
            command = ["bash", "-euc", line]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            printed.append(done.stdout)
        return printed

    return run_script


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs a script's commands in this process, where torch may be loaded already; returns what each printed.

    On one thread, as the pages say with OMP_NUM_THREADS, which torch reads when it is loaded.
    """
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run_script(script: str) -> list[str]:
        printed = []
        for line in typed(script):
            args = [word for word in shlex.split(line) if not re.match(r"\w+=", word)]
            assert args[:2] == ["python", f"bench/{script}"]
            monkeypatch.setattr(sys, "argv", args[1:])
            runpy.run_path(str(ROOT / args[1]), run_name="__main__")
            printed.append(capsys.readouterr().out)
        return printed

    yield run_script
    torch.set_num_threads(threads)


def objects(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_whatever_pages_and_make_start_is_typed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    started = started_by_make(monkeypatch)
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert set(started) | set(re.findall(r"python bench/(\w+\.py)", text)) == SMALL.keys()


@pytest.mark.weekly
def test_start_and_idle(run: Run) -> None:
    (printed,) = run("bench_start.py")
    for part in ("the whole command", "to the first call", "from the last call to the end", "all processes"):
        assert f"one synthetic item: {part} " in printed
    (printed,) = run("bench_idle.py")
    figures = objects(printed)
    assert [line["replicas"] for line in figures] == [1, 4, 16] * 2
    assert all(0 < line["lowest"] <= line["busy"] <= 1 and 0 < line["full"] <= 1 for line in figures)


def test_pipeline(run: Run, folder: Path) -> None:
    (printed,) = run("bench_pipeline.py")
    (results,) = objects(printed)
    assert results.keys() == {
        "kind",
        "rows",
        "image_bytes",
        "grpc_unary_per_second",
        "grpc_unary_memory_kept_per_second",
        "loops_cpu_ms_per_call",
        "parquet",
        "saved",
    }
    assert results["loops_cpu_ms_per_call"].keys() == {"bare", "kept", "parquet", "saved"}
    for form in (results["parquet"], results["saved"]):
        assert form.keys() == {
            "to_figures_per_second",
            "to_report_per_second",
            "read_stored_sent_per_second",
            "share_of_ceiling",
            "share_of_ceiling_memory_kept",
            "share_of_read_stored_sent",
            "orchestrator_cpu_ms_per_sample",
            "servers_cpu_ms_per_sample",
            "orchestrator_rss_mb",
            "rss_with_report_mb",
            "whole_process_seconds",
        }
    assert (results["kind"], results["rows"]) == ("tiny", 24)
    # The folder that was named is made, and what was written into it is gone.
    assert not list((folder / "made/by/it").iterdir())


@pytest.mark.weekly
def test_harnesses(run: Run) -> None:
    (printed,) = run("bench_harnesses.py")
    (figures,) = objects(printed)
    assert (figures["kind"], figures["rows"], figures["versions"]) == ("tiny", 16, {})
    assert [line.split(":")[0] for line in figures["left_out"]] == ["lmms-eval", "lm-eval", "inspect-ai"]
    for part in (figures["whole"], figures["core"]):
        assert part.keys() == {"lyncean"}
        assert part["lyncean"].keys() == {"wall", "cpu", "servers"}


def test_replicas(run: Run) -> None:
    (printed,) = run("bench_replicas.py")
    (figures,) = objects(printed)
    assert figures["rows"] == sum(figures["calls"]) == 12
    assert len(figures["calls"]) == len(figures["delays"]) == 3
    assert (figures["ceiling_per_second"], figures["taking_turns_per_second"]) == (18, 6)


def test_scorer(run: Run) -> None:
    (printed,) = run("bench_scorer.py")
    results = objects(printed)
    assert {row["load"]: row["items"] for row in results} == {
        "known verdicts": 640,
        "rule choice": 64,
        "rule likelihood": 64,
    }
    assert all(0 < row["rss_start_mib"] <= row["rss_half_mib"] <= row["rss_peak_mib"] for row in results)


@pytest.mark.weekly
def test_reading(run: Run) -> None:
    (printed,) = run("bench_reading.py")
    readings = json.loads(printed)
    names = [(row["rule"], row["answer"]) for row in readings]
    assert len(set(names)) == len(names) >= 18
    assert {rule for rule, _ in names} == {"choice", "choice_number", "count", "two_way", "all four"}
    assert names[-1] == ("all four", "the whole corpus")
    assert all(row.keys() == {"rule", "answer", "per_second", "by_yardstick"} for row in readings)


@pytest.mark.weekly
def test_likelihood(here: Run, folder: Path) -> None:
    for printed in here("bench_likelihood.py"):
        assert "prompt of 600 tokens, 576 for the image; best of 1 rounds" in printed
        (figures,) = json.loads((folder / "figures.json").read_text())
        assert figures["candidates"] == 2
        assert figures["ms"].keys() == {"reform", "single", "expanded", "packed", "packed, image kept", "floor"}
        assert figures["apart"] < 1e-4


@pytest.mark.weekly
def test_generate(here: Run, folder: Path) -> None:
    (printed,) = here("bench_generate.py")
    assert printed.count("2 of 2 texts as there") == 9
    figures = json.loads((folder / "figures.json").read_text())
    ways = [("batch 1", 2), ("batch 2", 2), ("batch 2, static", 2)]
    assert [(row["way"], row["same_texts"]) for row in figures[:9]] == 3 * ways
    assert all(row["milliseconds_per_drawn_token"] > 0 for row in figures[9:])
    assert len(figures) == 11


def test_variance(run: Run) -> None:
    (printed,) = run("bench_variance.py")
    settings = [setting for setting in json.loads(printed).values() if isinstance(setting, dict)]
    assert len(settings) == 5
    for setting in settings:
        assert {"prompt", "prompt × items", "order", "repeats"} < setting["parts"].keys()
        assert 0 <= setting["interval_covers"] <= 1


@pytest.mark.parametrize("script", ["bench_labels.py", "bench_sequential.py", "bench_survey.py"])
def test_simulated_coverage(run: Run, script: str) -> None:
    (printed,) = run(script)
    covered = [float(share) for share in re.findall(r"covers[^:]*\W+(?:np\.float64\()?([\d.]+)", printed)]
    assert len(covered) >= 5
    assert all(0 <= share <= 1 for share in covered)


def test_shares_by_information(run: Run) -> None:
    (printed,) = run("bench_share.py")
    shares = re.findall(r"^ *(\d+)% ", printed, re.MULTILINE)
    assert shares == ["20", "20", "20", "24", "28", "40", "40", "40", "48", "56"]


@pytest.mark.weekly
def test_intervals_of_partial_credit(run: Run) -> None:
    for printed in run("bench_intervals.py"):
        shares = [float(share) for share in re.findall(r'"covers": ([\d.]+)', printed)]
        assert len(shares) >= 10
        assert min(shares) >= 85  # 95 in many worlds


def test_second_reader(run: Run) -> None:
    (printed,) = run("bench_second_reader.py")
    page = (ROOT / "docs" / "judges.md").read_text(encoding="utf-8")
    for reads in ("unparsed", "doubtful", "all"):
        replayed = json.loads(printed)["replayed"][f"{reads}, batch 32 and batch 33"]
        wrong = f"{replayed['wrong']:.2f}%" if replayed["wrong"] else "0%"
        assert f"`--judge-reads {reads}` | {replayed['agreement']:.1f}% | {wrong} | {replayed['handed']:.0f}% |" in page


def test_large(run: Run, folder: Path) -> None:
    (printed,) = run("bench_large.py")
    steps = objects(printed)
    assert [step["step"] for step in steps] == ["make", "merge", "resume"]
    assert {step["rows"] for step in steps} == {320}
    counts = json.loads((folder / "kept/run/results.json").read_text())["tasks"]["vstar_bench"]["counts"]
    assert (counts["planned"], counts["scored"]) == (320, 320)


def test_simulation(run: Run) -> None:
    (printed,) = run("simulate.py")
    (outcome,) = objects(printed)
    uses = {"replica_use", "cpu_use", "scorer_use", "disk_use"}
    assert outcome.keys() == {"seconds", "rate", "calls", *uses}
    assert outcome["calls"] >= 10_000
    assert outcome["rate"] == pytest.approx(10_000 / outcome["seconds"])
    assert all(0 < outcome[use] <= 1 for use in uses)


@pytest.mark.weekly
def test_simulation_beside_real_runs(run: Run) -> None:
    (printed,) = run("simulate_check.py")
    alone, beside = objects(printed)
    assert [sum(alone[name]["calls"]) for name in ("answers at once", "one replica")] == [64, 32]
    assert (beside["replicas"], beside["samples"], sum(beside["calls"])) == (2, 64, 64)
    assert beside["error"] == pytest.approx(beside["simulated"] / beside["rate"] - 1)


def test_the_plot_is_drawn(run: Run, folder: Path) -> None:
    run("scale_plot.py")
    drawn, published = ((at / "docs/scale.svg").read_text() for at in (folder, ROOT))
    for axis in ("replicas, 8 answers a second each", "samples per second", "shards"):
        assert axis in drawn
        assert axis in published
