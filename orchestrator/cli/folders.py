"""Run folders on the command line: a path, or the URL of an object store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from lyncean.errors import UserError


class RunFolder(click.Path):
    """A run folder on this machine."""

    def __init__(self, *, exists: bool = False) -> None:
        super().__init__(exists=exists, file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns a path."""
        text = os.fsdecode(value)
        if not text.strip():
            # An empty path is the current folder, and was an unset variable.
            self.fail("it is empty: give a run folder.", param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8: give the folder another name, or set LC_ALL=C.UTF-8.", param, ctx)
        return super().convert(value, param, ctx)


class WrittenRun(RunFolder):
    """A run folder to write to; a URL stays the text that it is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns a path or a URL."""
        return value if "://" in str(value) else super().convert(value, param, ctx)


class ReadRun(RunFolder):
    """A run folder to read; one at a URL is fetched, and read from its local copy."""

    def __init__(self, *, exists: bool = True) -> None:
        super().__init__(exists=exists)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns a path."""
        if "://" not in str(value):
            return super().convert(value, param, ctx)
        from orchestrator.run_folder import remote

        try:
            return remote.fetched(str(value))
        except UserError as error:
            raise click.UsageError(str(error), ctx) from error
