"""The end of a command's work."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def ended(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's work to its end and returns its result.

    Raises:
        IncompleteError: On Ctrl-C.
    """
    import asyncio

    from orchestrator.errors import IncompleteError

    try:
        return asyncio.run(work)
    except KeyboardInterrupt as error:
        raise IncompleteError("stopped; run the same command again") from error
