"""Formats of `orchestrator export`. Services are configured by their own environment."""

from __future__ import annotations

from orchestrator import Format

MARKDOWN = Format("md", "metrics as Markdown tables, one column a run", "lyncean_interop.tables:write_markdown", "text")
LATEX = Format("latex", "metrics as LaTeX tables (booktabs)", "lyncean_interop.tables:write_latex", "text")
MODEL_CARD = Format(
    "model-card", "a Markdown table for a model card", "lyncean_interop.tables:write_model_card", "text"
)
JSON = Format("json", "manifests and results", "lyncean_interop.tables:write_json", "text")
CSV = Format("csv", "one row per item", "lyncean_interop.csv_parquet:write_csv", "text")
PARQUET = Format("parquet", "one row per item; needs --output", "lyncean_interop.csv_parquet:write_parquet", "file")
JUNIT = Format("junit", "JUnit XML for CI, one test case per item", "lyncean_interop.junit:write", "text")
EVAL_RESULTS = Format(
    "eval-results",
    "Hugging Face's .eval_results (YAML), for publication",
    "lyncean_interop.eval_results:write",
    "text",
    ("about",),
)
EVERY_EVAL_EVER = Format(
    "every-eval-ever",
    "Every Eval Ever 0.3.0, results and items; needs --output",
    "lyncean_interop.every_eval_ever:write",
    "folder",
    ("about",),
)
LMMS_EVAL = Format(
    "lmms-eval", "the layout that lmms-eval writes; needs --output", "lyncean_interop.lmms_eval_export:write", "folder"
)
INSPECT = Format(
    "inspect",
    "Inspect AI logs for `inspect view`; needs --output",
    "lyncean_interop.inspect:write",
    "folder",
    ("embed",),
)
OPENTELEMETRY = Format(
    "opentelemetry",
    "gen_ai spans and evaluation events, to an OTLP endpoint",
    "lyncean_interop.opentelemetry:send",
    "service",
)
WANDB = Format(
    "wandb",
    "metrics and the page to Weights & Biases; checkpoints by step",
    "lyncean_interop.trackers:to_wandb",
    "service",
    series="lyncean_interop.trackers:series_to_wandb",
)
MLFLOW = Format(
    "mlflow",
    "metrics and the page to MLflow; checkpoints by step",
    "lyncean_interop.trackers:to_mlflow",
    "service",
    series="lyncean_interop.trackers:series_to_mlflow",
)
