"""Experiment trackers: a run's results, settings and page in Weights & Biases or MLflow, or a training's curve.

Each tool's own variables set target and account: WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE,
MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME and so on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator import ConfigError
from orchestrator.run_folder import Run, counts, cut_counts, metric_results
from orchestrator.suite import EvaluatedSeries

_UNSAFE = re.compile(r"[^\w./ -]")
_FILE_STORE = "MLFLOW_ALLOW_FILE_STORE"
_WANDB_CHECK = "WANDB_MODE, WANDB_BASE_URL and the account"
_MLFLOW_CHECK = "MLFLOW_TRACKING_URI; a database needs `pip install 'lyncean[mlflow]'`"
_STEP = "train/global_step"
_ITEMS = "items/"


def to_wandb(run: Run) -> str:
    """Logs a run to Weights & Biases and returns its address.

    Raises:
        ConfigError: wandb is not installed, or its service does not accept the run.
    """
    wandb, results = _wandb(), metrics(run)
    with (
        _taken("Weights & Biases", _WANDB_CHECK),
        wandb.init(name=run.name, job_type="eval", config={"identity": dict(run.identity)}) as tracked,
    ):
        tracked.summary.update(results)
        _keep_page(tracked, run.name, run.path / "report.html")
        return str(tracked.url or tracked.dir)


def to_mlflow(run: Run) -> str:
    """Logs a run to MLflow and returns its id there.

    Raises:
        ConfigError: mlflow is not installed, or its store does not accept the run.
    """
    mlflow = _mlflow()
    results = {_name(name): value for name, value in metrics(run).items()}
    settings = {name: str(value)[:500] for name, value in _flat(run.identity).items()}
    with (
        _taken("MLflow", _MLFLOW_CHECK),
        mlflow.start_run(run_name=run.name) as tracked,
    ):
        mlflow.log_params(settings)
        mlflow.log_metrics(results)
        if (page := run.path / "report.html").is_file():
            mlflow.log_artifact(str(page))
        return str(tracked.info.run_id)


def _wandb() -> Any:
    try:
        import wandb
    except ImportError as error:
        raise ConfigError("--format wandb needs Weights & Biases: pip install 'lyncean[wandb]'") from error
    return wandb


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise ConfigError("--format mlflow needs MLflow: pip install 'lyncean[mlflow]'") from error
    if _is_folder(os.environ.get("MLFLOW_TRACKING_URI") or mlflow.get_tracking_uri()):
        os.environ.setdefault(_FILE_STORE, "true")  # newer MLflow accepts a folder, as the user named, only with this
    return mlflow


def _keep_page(tracked: Any, name: str, page: Path) -> None:
    """Adds a page to a run of Weights & Biases, if the page exists."""
    if page.is_file():
        artifact = _wandb().Artifact(_name(name), type="lyncean-report")
        artifact.add_file(str(page))
        tracked.log_artifact(artifact)


def metrics(run: Run) -> dict[str, float]:
    """Returns a run's results, interval bounds and counts under names such as `marvel/AVR pattern=Quantities low`."""
    results: dict[str, float] = {}
    for metric in metric_results(run.tasks_and_groups):
        name = f"{metric.task}/{metric.name} {metric.where}".rstrip()
        for suffix, value in (("", metric.value), (" low", metric.low), (" high", metric.high)):
            if value is not None:
                results[name + suffix] = value
    results.update({f"{_ITEMS}{outcome}": float(number) for outcome, number in counts(run.tasks).items()})
    results.update({f"{task}/cut": float(count.items) for task, count in cut_counts(run.tasks).items()})
    return results


def series_to_wandb(series: EvaluatedSeries) -> str:
    """Logs a training's checkpoints to Weights & Biases, one row of its history each, and returns its address.

    The rows carry the step as `train/global_step`, as transformers does: with WANDB_RUN_ID and WANDB_RESUME=allow of
    the training they appear beside its loss, even after later rows.

    Raises:
        ConfigError: wandb is not installed, or its service does not accept the run.
    """
    wandb = _wandb()
    with (
        _taken("Weights & Biases", _WANDB_CHECK),
        wandb.init(name=series.name, job_type="eval", config={"checkpoints": dict(series.steps)}) as tracked,
    ):
        tracked.define_metric(_STEP)
        rows = {step: _of_checkpoint(runs) for step, runs in series.checkpoints}
        for name in dict.fromkeys(name for row in rows.values() for name in row):
            tracked.define_metric(name, step_metric=_STEP)
        for step, row in rows.items():
            # A resumed run is past the step, so _STEP alone is the axis there.
            tracked.log({_STEP: step, **row}, step=step if step >= tracked.step else None)
        _keep_page(tracked, series.name, series.page)
        return str(tracked.url or tracked.dir)


def series_to_mlflow(series: EvaluatedSeries) -> str:
    """Logs a training's checkpoints to MLflow, its metrics by step, and returns the run's id there.

    With MLFLOW_RUN_ID of the training they appear beside its loss; steps already logged are skipped.

    Raises:
        ConfigError: mlflow is not installed, or its store does not accept the run.
    """
    mlflow = _mlflow()
    with _taken("MLflow", _MLFLOW_CHECK), mlflow.start_run(run_name=series.name) as tracked:
        client, run_id = mlflow.MlflowClient(), str(tracked.info.run_id)
        logged = tracked.data.metrics

        @cache
        def steps(name: str) -> set[int]:
            return {old.step for old in client.get_metric_history(run_id, name)}

        for step, runs in series.checkpoints:
            results = {_name(name): value for name, value in _of_checkpoint(runs).items()}
            new = {name: value for name, value in results.items() if name not in logged or step not in steps(name)}
            mlflow.log_metrics(new, step=step)
        if series.page.is_file():
            mlflow.log_artifact(str(series.page))
        return run_id


def _of_checkpoint(runs: Sequence[tuple[str, Run]]) -> dict[str, float]:
    """Returns the results of a checkpoint's runs, with a variant's prefix in their names; sums counts of items."""
    results: dict[str, float] = {}
    for variant, run in runs:
        for name, value in metrics(run).items():
            full_name = f"{variant}/{name}" if variant else name
            results[full_name] = value + (results.get(full_name, 0.0) if name.startswith(_ITEMS) else 0.0)
    return results


@contextmanager
def _taken(tool: str, check: str) -> Iterator[None]:
    """Turns errors of a tracker's package, whose types have no common base, into one line.

    Raises:
        ConfigError: The tracker does not accept the run.
    """
    try:
        yield
    except Exception as error:
        message = " ".join(str(error).split())[:500]
        raise ConfigError(f"{tool} did not take the run: {type(error).__name__}: {message}; check {check}") from error


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
