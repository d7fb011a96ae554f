"""Experiment trackers: a run's results, settings and page in Weights & Biases or MLflow.

Target and account are set by each tool's own variables: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE,
MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and so on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from orchestrator import ConfigError
from orchestrator.run_folder import Run, counts, cut_counts, metric_results

_UNSAFE = re.compile(r"[^\w./ -]")


def to_wandb(run: Run) -> str:
    """Logs a run to Weights & Biases and returns where it stands.

    Raises:
        ConfigError: wandb is not installed.
    """
    try:
        import wandb
    except ImportError as error:
        raise ConfigError("--format wandb needs Weights & Biases: pip install 'lyncean[wandb]'") from error
    with wandb.init(name=run.name, job_type="eval", config={"identity": dict(run.identity)}) as tracked:
        tracked.summary.update(metrics(run))
        if (page := run.path / "report.html").is_file():
            artifact = wandb.Artifact(_name(run.name), type="lyncean-report")
            artifact.add_file(str(page))
            tracked.log_artifact(artifact)
        return str(tracked.url or tracked.dir)


def to_mlflow(run: Run) -> str:
    """Logs a run to MLflow and returns its id there.

    Raises:
        ConfigError: mlflow is not installed.
    """
    try:
        import mlflow
    except ImportError as error:
        raise ConfigError("--format mlflow needs MLflow: pip install 'lyncean[mlflow]'") from error
    with mlflow.start_run(run_name=run.name) as tracked:
        mlflow.log_params({name: str(value)[:500] for name, value in _flat(run.identity).items()})
        mlflow.log_metrics({_name(name): value for name, value in metrics(run).items()})
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
