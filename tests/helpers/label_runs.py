"""Runs whose answers people label: what a judge says of each is known, and what is true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from helpers.report_runs import Writer, accuracy, puzzle
from orchestrator.run_folder import labels
from orchestrator.run_folder.lines import LabelLine

NASTY = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">'
METRIC = {"name": "accuracy", "metric": "accuracy"}


def judged_run(
    path: Path, items: int = 120, *, group: int = 1, spec: Mapping[str, Any] = METRIC, lost: Iterable[int] = ()
) -> Path:
    """A run of open answers: every third is wrong by the judge, those in `lost` have no answer."""
    writer = Writer(path)
    image = writer.image(puzzle(1))
    for number in range(items):
        common: dict[str, Any] = {
            "parts": [image, {"text": f"What is in picture {number}? {NASTY}"}], "targets": [f"a dog {number}"],
            "options": [], "rule": "judge_answer", "group": str(number // group) if group > 1 else "",
        }  # fmt: skip
        if number in lost:
            error = {"code": "UNAVAILABLE", "reason": "", "message": "connection lost"}
            writer.item(f"marvel/{number}", outcome="failed", error=error, **common)
        else:
            score = float(number % 3 > 0)
            verdict = {"extracted": "SECRET", "judge": {"model": "j", "words": "SECRET"}, "detail": "SECRET"}
            writer.item(f"marvel/{number}", answer=f"A dog {number} {NASTY}", score=score, verdict=verdict, **common)
    run = writer.close({"marvel": [accuracy(str(spec["name"]), writer.verdicts)]})
    manifest = orjson.loads((run / "manifest.json").read_bytes())
    (run / "manifest.json").write_bytes(orjson.dumps({**manifest, "metrics": {"marvel": [spec]}}))
    return run


def say(run: Path, keys: Iterable[str], score: float | None, by: str = "ann", seed: int = 0, kind: str = "") -> None:
    """Labels items; None is unclear."""
    for key in keys:
        line = LabelLine(key=key, by=by, mark="unclear", seed=seed, given="2026-01-31T09:00:00Z")
        if score is not None:
            line.mark, line.score, line.kind = "scored", score, kind
        labels.append(run, line)
