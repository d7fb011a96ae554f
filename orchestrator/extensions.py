"""Doors of the orchestrator: what extensions add to it, by name.

Ours stand in tables of strings: they are imported on use and passed over where their package is not installed. Others'
come from the entry points `lyncean.exports` and `lyncean.logs`. Commands and kinds of imports (`lyncean.commands`,
`lyncean.imports`) are `click` commands of `orchestrator` and `orchestrator import`; tasks (`lyncean.tasks`) are in
`orchestrator.benchmarks.registry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from lyncean.plugins.registry import WORD, Registry


@dataclass(frozen=True, slots=True)
class Format:
    """A format of `orchestrator export`.

    Attributes:
        name: Its name.
        line: Its line in `--help`.
        writer: The function that writes it, `module:name`, imported on use.
        writes: "text" (of all runs, to a file or standard output), "file" or "folder" (which `--output` names),
            "service" (which the environment names).
        options: Options that it takes.
        series: The function that writes an `EvaluatedSeries` to a service, `module:name`; "" for none.
    """

    name: str
    line: str
    writer: str
    writes: Literal["text", "file", "folder", "service"]
    options: tuple[str, ...] = ()
    series: str = ""


@runtime_checkable
class LogReader(Protocol):
    """Logs of another tool, which `orchestrator view` shows beside runs."""

    @property
    def name(self) -> str:
        """The tool's name."""

    def is_log(self, path: Path) -> bool:
        """Tells from a file's name and first bytes whether it is a log of this tool."""

    def make_run(self, path: Path, folder: Path) -> None:
        """Writes a run folder of a log.

        Raises:
            UserError: The log cannot be read.
        """


_INTEROP = "lyncean_interop.formats"

EXPORTS: Registry[Format] = Registry(
    "export",
    {
        "md": f"{_INTEROP}:MARKDOWN",
        "latex": f"{_INTEROP}:LATEX",
        "model-card": f"{_INTEROP}:MODEL_CARD",
        "json": f"{_INTEROP}:JSON",
        "csv": f"{_INTEROP}:CSV",
        "parquet": f"{_INTEROP}:PARQUET",
        "items": "orchestrator.run.part.item_scores:FORMAT",
        "junit": f"{_INTEROP}:JUNIT",
        "eval-results": f"{_INTEROP}:EVAL_RESULTS",
        "every-eval-ever": f"{_INTEROP}:EVERY_EVAL_EVER",
        "lmms-eval": f"{_INTEROP}:LMMS_EVAL",
        "inspect": f"{_INTEROP}:INSPECT",
        "opentelemetry": f"{_INTEROP}:OPENTELEMETRY",
        "wandb": f"{_INTEROP}:WANDB",
        "mlflow": f"{_INTEROP}:MLFLOW",
    },
    (Format,),
    names=WORD,
)
"""Formats of `orchestrator export`."""

LOGS: Registry[LogReader] = Registry(
    "log",
    {
        "inspect": "lyncean_interop.tool_logs:INSPECT",
        "lm-eval": "lyncean_interop.tool_logs:LM_EVAL",
        "lmms-eval": "lyncean_interop.tool_logs:LMMS_EVAL",
        "vlmevalkit": "lyncean_interop.tool_logs:VLMEVALKIT",
    },
    (LogReader,),
    names=WORD,
)
"""Logs that `orchestrator view` reads."""
