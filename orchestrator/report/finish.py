"""The end of a run: its report on disk, its results on the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from orchestrator.run_folder import finished, manifest as run_manifest
from orchestrator.run_folder.durable import write_file
from orchestrator.run_folder.files import VERDICTS
from orchestrator.run_folder.lines import JudgedLine
from orchestrator.run_folder.reader import Run, open_run
from orchestrator.run_folder.scanning import scan


def write_report(run: Path, *, embed: bool = False, published: bool = False, blind: Run | None = None) -> Path:
    """Writes report.html, as `page.render` makes it, into a run folder and returns its path.

    Raises:
        ConfigError: `run` is not a run folder.
        RunWriteError: The page cannot be written.
    """
    from orchestrator.report.page import render

    path = run / "report.html"
    write_file(path, render(open_run(run), embed=embed, published=published, blind=blind).encode())
    return path


class Reports:
    """Reports of runs that a command makes.

    Args:
        show: Prints the results of a complete run; None prints all of them.
    """

    def __init__(self, show: Callable[[Path, Console], None] | None = None) -> None:
        self._show = show

    def prepare(self) -> None:
        """Imports what the page needs."""
        from orchestrator.report import page

        page.prepare()

    def finish(self, run: Path, console: Console) -> None:
        """Writes a complete run's report and prints its results."""
        from orchestrator.report.terminal import print_results

        report = run / "report.html"
        if not finished.report_stands(run):
            write_report(run)
            finished.note_report(run)
        if not console.quiet:
            (self._show or print_results)(run, console)
            for line in judge_lines(run):
                console.print(line, highlight=False, soft_wrap=True)
            console.print(f"report: {report}", highlight=False, soft_wrap=True)


def judge_lines(run: Path) -> list[str]:
    """Returns lines on a run's judges: number of verdicts, items left unjudged, and the fix."""
    judges = run_manifest.read(run).get("judges")
    if not judges:
        return []
    count = sum(line.judged for _, line in scan(run / VERDICTS, JudgedLine))
    lines = [f"judge {', '.join(judges)}: {f'{count:,} verdicts' if count else 'configured and never needed'}"]
    details = [line.detail for line in open_run(run).unscored() if line.by_judge]
    if details:
        lines.append(
            f"{len(details):,} of them unjudged, the last because {details[-1]}; orchestrator score {run} asks again "
            "for these"
        )
    return lines
