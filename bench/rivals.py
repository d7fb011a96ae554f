"""lmms-eval beside the pipeline, on the same rows: `LMMS_EVAL_PYTHON` names the interpreter that has it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

VARIABLE = "LMMS_EVAL_PYTHON"
MODELS = {
    "blind": "in process, its own null model, which looks at no image",
    "null": "in process, a null model that takes each image",
    "http": "its OpenAI model and a null server over HTTP, 32 calls in flight",
}
_SCRIPT = Path(__file__).with_name("rival_lmms_eval.py")


class LmmsEval:
    """Runs lmms-eval as often as it is told, each model once a round."""

    def __init__(self, data: Path, rows: int, port: int, folder: Path) -> None:
        self.python = os.environ.get(VARIABLE, "")
        self._job = {"data": str(data), "rows": rows, "port": port}
        self._folder = folder
        self._runs: dict[str, list[dict[str, float]]] = {name: [] for name in MODELS}

    def round(self) -> None:
        """Measures each model once."""
        for name, runs in self._runs.items() if self.python else ():
            folder = self._folder / f"rival-{name}-{len(runs)}"
            job = json.dumps({**self._job, "model": name, "folder": str(folder)})
            # Its cache of Arrow files stands where the measurement's own files do.
            environment = {**os.environ, "HF_HOME": str(self._folder / "hf")}
            done = subprocess.run(
                [self.python, str(_SCRIPT), job], capture_output=True, text=True, env=environment, check=False
            )
            if done.returncode:
                raise SystemExit(f"lmms-eval failed: {done.stderr[-2000:]}")
            runs.append(json.loads(done.stdout.splitlines()[-1]))

    def results(self, figures: float, report: float) -> dict[str, Any] | str:
        """Returns its medians, and how many times as fast a run of ours was.

        Args:
            figures: Seconds of ours to the figures.
            report: Seconds of ours with the report.
        """
        if not self.python:
            return f"not measured: {VARIABLE} is not set; it takes the path of a Python that has lmms-eval"
        results: dict[str, Any] = {"version": self._version()}
        for name, runs in self._runs.items():
            seconds = statistics.median(run["seconds"] for run in runs)
            with_index = statistics.median(run["seconds"] + run["index"] for run in runs)
            results[name] = {
                "what": MODELS[name],
                "per_second": round(self._job["rows"] / seconds),
                "cpu_ms_per_sample": round(1000 * statistics.median(run["cpu"] for run in runs) / self._job["rows"], 2),
                "ours_times": round(seconds / figures, 1),
                "ours_times_with_report": round(seconds / report, 1),
                "per_second_with_task_index": round(self._job["rows"] / with_index),
                "ours_times_with_task_index": round(with_index / figures, 1),
                "rss_mb": round(max(run["rss"] for run in runs) / 1e6),
            }
        return results

    def _version(self) -> str:
        command = "from importlib.metadata import version; print(version('lmms-eval'))"
        return subprocess.check_output([self.python, "-c", command], text=True).strip()
