"""From what a command raises to its one line on stderr and its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from lyncean.rpc import SecurityError


def guarded(work: Callable[[], Coroutine[Any, Any, Path | None]]) -> tuple[Path | None, int]:
    """Runs a command's work and returns its run folder and exit code.

    A failure is one line on stderr; 1 is a defect, 2 a mistake of the caller's, 3 incomplete.
    """
    from orchestrator.data.rows import DataError
    from orchestrator.engine import EngineError
    from orchestrator.run_folder.log import RunBusyError, RunLogError, RunWriteError
    from orchestrator.run_folder.manifest import ManifestError

    try:
        return asyncio.run(work()), 0
    except EngineError as error:
        return None, _fail(error, error.exit_code)
    except (DataError, ManifestError, SecurityError) as error:
        return None, _fail(error, 2)
    except (RunWriteError, RunBusyError) as error:
        return None, _fail(error, 3)
    except RunLogError as error:
        return None, _fail(error, 2)
    except KeyboardInterrupt:
        return None, _fail("stopped; run the same command again", 3)


def _fail(error: Exception | str, code: int) -> int:
    click.echo(f"Error: {' '.join(str(error).split())}", err=True)
    return code
