"""The command `orchestrator`: one file per subcommand, imported when it is called for."""

from __future__ import annotations

import codecs
import io
import sys

import click

from orchestrator.cli.groups import LazyGroup, examples

COMMANDS = {
    "eval": ("orchestrator.cli.eval", "Run tasks against a model; the same command again resumes."),
    "tasks": ("orchestrator.cli.tasks", "List tasks, what they ask and what they take."),
    "prompts": ("orchestrator.cli.prompts", "Write the requests exactly as they would be sent."),
    "score": ("orchestrator.cli.score", "Score a run again, with no model in sight."),
    "report": ("orchestrator.cli.report", "Make reports and tables of runs."),
    "compare": ("orchestrator.cli.compare", "Compare runs sample by sample; gate on the result."),
    "view": ("orchestrator.cli.view", "Browse a folder of runs, live while they run."),
    "merge": ("orchestrator.cli.merge", "Join the shards of one run."),
    "check": ("orchestrator.cli.check", "Judge any model server against the contract."),
    "import": ("orchestrator.cli.importing", "Take in predictions made elsewhere."),
    "generate": ("orchestrator.cli.generate", "Make benchmark questions."),
    "submit": ("orchestrator.cli.submit", "Render a run for a Kubernetes cluster."),
    "new-task": ("orchestrator.cli.new_task", "Scaffold a task file from a data file."),
    "fetch": ("orchestrator.cli.fetch", "Bundle a task's data for use without a network."),
}
"""Subcommand -> module whose `command` it is, and what `--help` says of it."""


@click.command(
    cls=LazyGroup,
    modules=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "orchestrator tasks",
        "orchestrator eval --task marvel --synthetic --limit 20",
        "orchestrator eval --help",
    ),
)
@click.version_option(package_name="lyncean")
def main() -> None:
    """Evaluate multimodal models behind a gRPC endpoint, with numbers that hold."""
    _speak_unicode()


def _speak_unicode() -> None:
    """Lets figures and names be printed whatever the locale: tables have signs that ASCII and Latin-1 lack."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        name = codecs.lookup(stream.encoding).name
        # As click itself does, ASCII is taken for a terminal of which nobody said that it is UTF-8.
        if name == "ascii":
            stream.reconfigure(encoding="utf-8")
        elif not name.startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
