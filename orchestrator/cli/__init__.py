"""The commands `orchestrator` and `lyncean`: one file per subcommand, imported on use."""

from __future__ import annotations

import codecs
import io
import sys

from lyncean.cli import examples, root

COMMANDS = {
    "eval": ("orchestrator.cli.eval", "Run tasks against a model; the same command again resumes."),
    "tasks": ("orchestrator.cli.tasks", "List tasks with their data, methods and settings."),
    "prompts": ("orchestrator.cli.prompts", "Write the requests exactly as they would be sent."),
    "score": ("orchestrator.cli.score", "Score a run again, without a model."),
    "report": ("orchestrator.cli.report", "Write reports and tables of runs."),
    "compare": ("orchestrator.cli.compare", "Compare runs sample by sample; gate on the result."),
    "view": ("orchestrator.cli.view", "Browse a folder of runs, live while they run."),
    "merge": ("orchestrator.cli.merge", "Join the shards of one run."),
    "check": ("orchestrator.cli.check", "Judge any model server against the contract."),
    "import": ("orchestrator.cli.importing", "Import predictions of other evaluation tools."),
    "generate": ("orchestrator.cli.generate", "Generate benchmark questions."),
    "submit": ("orchestrator.cli.submit", "Render a run for a Kubernetes cluster."),
    "new-task": ("orchestrator.cli.new_task", "Scaffold a task file from a data file."),
    "fetch": ("orchestrator.cli.fetch", "Bundle a task's data for use without a network."),
}
"""Subcommand -> its module, and its line in `--help`."""

SERVICES = {
    "model-server": ("model_server.cli:main", "Serve a model."),
    "scorer": ("scorer.cli:main", "Serve the scorer, score files, list rules, calibrate a judge."),
    "orchestrator": ("orchestrator.cli:main", "All commands above."),
}
"""Groups of `lyncean` beside the subcommands above."""

_EXAMPLES = ("tasks", "eval --task marvel --synthetic --limit 20", "eval --help")


@root(COMMANDS, epilog=examples(*(f"orchestrator {words}" for words in _EXAMPLES)))
def main() -> None:
    """Evaluate multimodal models behind a gRPC endpoint, with numbers that hold."""
    _speak_unicode()


@root(COMMANDS | SERVICES, epilog=examples(*(f"lyncean {words}" for words in _EXAMPLES)))
def lyncean() -> None:
    """Evaluate multimodal models, serve them and score their answers."""
    _speak_unicode()


def _speak_unicode() -> None:
    """Lets metrics and names be printed whatever the locale: tables have signs that ASCII and Latin-1 lack."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        name = codecs.lookup(stream.encoding).name
        # As click itself does, ASCII is taken for a terminal of which nobody said that it is UTF-8.
        if name == "ascii":
            stream.reconfigure(encoding="utf-8")
        elif not name.startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
