"""Reports of runs: a page for people, tables for papers, files for other tools."""

from __future__ import annotations

from pathlib import Path

from orchestrator.report.page import render
from orchestrator.run_folder.reader import Run, open_run

__all__ = ["write_report"]


def write_report(run: Path, *, embed: bool = False, published: bool = False, blind: Run | None = None) -> Path:
    """Writes report.html, as `page.render` makes it, into a run folder and returns its path.

    Raises:
        ConfigError: There is no run at `run`.
        OSError: The page cannot be written.
    """
    path = run / "report.html"
    partial = path.with_suffix(".partial")
    partial.write_text(render(open_run(run), embed=embed, published=published, blind=blind), encoding="utf-8")
    partial.replace(path)
    return path
