"""The commands `orchestrator` and `lyncean`: one file per subcommand, imported on use."""

from __future__ import annotations

import codecs
import io
import sys
from typing import TYPE_CHECKING

from lyncean.cli import examples, root
from lyncean.plugins.face import face

if TYPE_CHECKING:
    from orchestrator.cli.eval import command as eval_command
    from orchestrator.cli.folders import ReadRun as ReadRun, RunFolder as RunFolder, WrittenRun as WrittenRun
    from orchestrator.cli.options import (
        as_given as as_given,
        refuse as refuse,
        request_options as request_options,
        run_to_end as run_to_end,
        scorer_at as scorer_at,
        written as written,
    )

__all__ = ["eval_command"]  # mypy takes a renamed import for public by this alone

__getattr__ = face(
    __name__,
    {
        "eval": "command:eval_command",
        "folders": "ReadRun RunFolder WrittenRun",
        "options": "as_given refuse request_options run_to_end scorer_at written",
    },
)

COMMANDS = {
    "eval": ("orchestrator.cli.eval", "Evaluate a model on tasks; rerun to resume."),
    "tasks": ("orchestrator.cli.tasks", "List tasks with their data, methods and settings."),
    "prompts": ("orchestrator.cli.prompts", "Print the requests that a run would send."),
    "score": ("orchestrator.cli.score", "Score a run again, without a model."),
    "report": ("orchestrator.cli.report", "Write the page of a run."),
    "export": ("orchestrator.cli.export", "Export runs in formats of other tools."),
    "compare": ("orchestrator.cli.compare", "Compare runs item by item; check a gate."),
    "explain": ("orchestrator.cli.explain", "Explain why the results of two runs differ."),
    "reproduce": ("orchestrator.cli.reproduce", "Remake tables of the benchmarks' papers."),
    "view": ("orchestrator.cli.view", "Browse a folder of runs, with live progress."),
    "label": ("orchestrator.cli.label", "Label a sample of answers by hand."),
    "merge": ("orchestrator.cli.merge", "Merge the shards of a run."),
    "check": ("orchestrator.cli.check", "Test a model server against the contract."),
    "import": ("orchestrator.cli.importing", "Import predictions of other evaluation tools."),
    "generate": ("orchestrator.cli.generate", "Generate benchmark questions."),
    "submit": ("lyncean_kubernetes.cli.submit", "Render a run as Kubernetes manifests."),
    "new-task": ("orchestrator.cli.new_task", "Scaffold a task file from a data file."),
    "fetch": ("orchestrator.cli.fetch", "Copy a task's data for offline use."),
}
"""Subcommand -> its module, and its line in `--help`; others come from the entry points `lyncean.commands`."""

SERVICES = {
    "model-server": ("model_server.cli:main", "Serve a model."),
    "scorer": ("scorer.cli:main", "Serve the scorer, score files, list rules, calibrate a judge."),
    "tool-server": ("tool_server.cli:main", "Serve tools that models call."),
    "orchestrator": ("orchestrator.cli:main", "All commands above."),
}
"""Groups of `lyncean` beside the subcommands above."""

_EXAMPLES = ("tasks", "eval --task marvel --synthetic --limit 20", "eval --help")


@root(COMMANDS, noun="command", epilog=examples(*(f"orchestrator {example}" for example in _EXAMPLES)))
def main() -> None:
    """Evaluate multimodal language models over gRPC."""
    _speak_unicode()


@root(COMMANDS | SERVICES, noun="command", epilog=examples(*(f"lyncean {example}" for example in _EXAMPLES)))
def lyncean() -> None:
    """Evaluate multimodal models, serve them and score their answers."""
    _speak_unicode()


def _speak_unicode() -> None:
    """Prints UTF-8 in any locale: tables have characters that ASCII and Latin-1 lack."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        name = codecs.lookup(stream.encoding).name
        # As click itself does, ASCII is taken for a terminal of which nobody said that it is UTF-8.
        if name == "ascii":
            stream.reconfigure(encoding="utf-8")
        elif not name.startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
