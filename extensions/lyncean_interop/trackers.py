"""Experiment trackers: a run's results, settings and page in Weights & Biases or MLflow.

Target and account are set by each tool's own variables: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE,
MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and so on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from orchestrator import ConfigError
from orchestrator.run_folder import Run, counts, cut_counts, metric_results

_UNSAFE = re.compile(r"[^\w./ -]")
_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"


def to_wandb(run: Run) -> str:
    """Logs a run to Weights & Biases and returns where it stands.

    Raises:
        ConfigError: wandb is not installed, or its service does not take the run.
    """
    try:
        import wandb
    except ImportError as error:
        raise ConfigError("--format wandb needs Weights & Biases: pip install 'lyncean[wandb]'") from error
    found = metrics(run)
    with (
        _taken("Weights & Biases", "WANDB_MODE, WANDB_BASE_URL and the account"),
        wandb.init(name=run.name, job_type="eval", config={"identity": dict(run.identity)}) as tracked,
    ):
        tracked.summary.update(found)
        if (page := run.path / "report.html").is_file():
            artifact = wandb.Artifact(_name(run.name), type="lyncean-report")
            artifact.add_file(str(page))
            tracked.log_artifact(artifact)
        return str(tracked.url or tracked.dir)


def to_mlflow(run: Run) -> str:
    """Logs a run to MLflow and returns its id there.

    Raises:
        ConfigError: mlflow is not installed, or its store does not take the run.
    """
    try:
        import mlflow
    except ImportError as error:
        raise ConfigError("--format mlflow needs MLflow: pip install 'lyncean[mlflow]'") from error
    found = {_name(name): value for name, value in metrics(run).items()}
    settings = {name: str(value)[:500] for name, value in _flat(run.identity).items()}
    if _is_folder(os.environ.get("MLFLOW_TRACKING_URI") or mlflow.get_tracking_uri()):
        os.environ.setdefault(_FILE_STORE, "true")  # the user names a folder; newer MLflow takes one with this alone
    with (
        _taken("MLflow", "MLFLOW_TRACKING_URI; a database needs `pip install 'lyncean[mlflow]'`"),
        mlflow.start_run(run_name=run.name) as tracked,
    ):
        mlflow.log_params(settings)
        mlflow.log_metrics(found)
        if (page := run.path / "report.html").is_file():
            mlflow.log_artifact(str(page))
        return str(tracked.info.run_id)


def metrics(run: Run) -> dict[str, float]:
    """Returns a run's results, ends of intervals and counts under names such as `marvel/AVR pattern=Quantities low`."""
    found: dict[str, float] = {}
    for metric in metric_results(run.tasks_and_groups):
        name = f"{metric.task}/{metric.name} {metric.where}".rstrip()
        for suffix, value in (("", metric.value), (" low", metric.low), (" high", metric.high)):
            if value is not None:
                found[name + suffix] = value
    found.update({f"items/{outcome}": float(number) for outcome, number in counts(run.tasks).items()})
    found.update({f"{task}/cut": float(count.items) for task, count in cut_counts(run.tasks).items()})
    return found


@contextmanager
def _taken(tool: str, check: str) -> Iterator[None]:
    """Turns what a tracker's package raises, of types without a common base, into one line.

    Raises:
        ConfigError: The tracker does not take the run.
    """
    try:
        yield
    except Exception as error:
        words = " ".join(str(error).split())[:500]
        raise ConfigError(f"{tool} did not take the run: {type(error).__name__}: {words}; check {check}") from error


def _is_folder(target: str) -> bool:
    return target.startswith("file:") or "://" not in target


def _name(text: str) -> str:
    return _UNSAFE.sub("_", text)


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            flat |= _flat(inner, f"{prefix}{_name(name)}.")
        else:
            flat[f"{prefix}{_name(name)}"] = inner
    return flat
