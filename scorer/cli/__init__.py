"""The command `scorer`: one file per subcommand, imported on use."""

from __future__ import annotations

from lyncean.cli import root

COMMANDS = {
    "serve": ("scorer.cli.serve", "Serve the ScorerService until SIGTERM, then drain."),
    "score": ("scorer.cli.score", "Score a file: one ScoreRequest a line in, one Verdict a line out."),
    "rules": ("scorer.cli.rules", "List rules and metrics, with their parameters."),
    "calibrate": ("scorer.cli.calibrate", "Run the judge on labelled cases; report how often it agrees."),
}
"""Subcommand -> its module, and its line in `--help`."""


@root(COMMANDS)
def main() -> None:
    """Turn answers into verdicts, and verdicts into metrics that can be trusted."""
