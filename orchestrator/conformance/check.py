"""Checks, their results, and the table of all checks."""

from __future__ import annotations

import asyncio
import time
import tomllib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from lyncean.rpc import CallError

Run = Callable[[Any], Coroutine[Any, Any, str | None]]
"""Takes a `Server`. Raises `Broken` or `NotApplicable`, or returns a note on a server that passed."""
Code = TypeVar("Code", bound=Run)


class Broken(Exception):
    """The server does not hold to the contract; the message says what it did."""


class NotApplicable(Exception):
    """The check has nothing to judge in this server; the message says why."""


def wants(condition: bool, otherwise: str) -> None:
    """Raises `Broken` unless a condition holds."""
    if not condition:
        raise Broken(otherwise)


def applies(condition: bool, otherwise: str) -> None:
    """Raises `NotApplicable` unless a condition holds."""
    if not condition:
        raise NotApplicable(otherwise)


class Status(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One named check.

    Attributes:
        name: Its name, the same for ever: CI systems compare by it.
        contract: The sentence of the contract that it holds a server to.
        fix: What to look at in a server that fails.
        needs: Capabilities without which it is skipped, without their prefix.
        refused: Requests that must be refused, as protobuf JSON, by what is wrong with them.
        answered: Requests that must be answered, likewise.
    """

    name: str
    contract: str
    fix: str
    needs: Sequence[str] = ()
    refused: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    answered: Mapping[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one check; `detail` tells what the server did, why the check is not applicable, or a note."""

    check: Check
    status: Status
    detail: str
    seconds: float


async def ended(check: Check, work: Coroutine[Any, Any, str | None], seconds: float) -> Result:
    """Returns how the work of a check ended, after so many seconds at most; a defect of the check itself is raised."""
    start = time.monotonic()
    status, detail = Status.FAILED, ""
    try:
        async with asyncio.timeout(seconds):
            status, detail = Status.PASSED, await work or ""
    except NotApplicable as error:
        status, detail = Status.SKIPPED, str(error)
    except Broken as error:
        detail = str(error)
    except CallError as error:
        detail = f"a request that should be answered ended with {error.code.name}: {error}"
    except TimeoutError:
        detail = f"not over after {seconds:.0f} s"
    except DecodeError as error:
        detail = f"what the server sends cannot be read: {error}"
    return Result(check, status, detail, time.monotonic() - start)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CHECKS = {name: Check(name, **entry) for name, entry in _TABLE.items()}
"""Every check by its name, in the order in which they are run."""
FIRST = "answers_a_plain_question"
"""The check that comes first: where it fails, those of answers say nothing."""
_OF_NO_ANSWER = ("info_", "health_", "reflection_", "tls_", "token_is_", "batch_token_is_", "drains_")
MATTER_MOST = (FIRST, "finish_reason_is_set", "image_bytes_decide")
"""Checks without which no number of an evaluation means anything: it answers, cut answers are told, images are seen."""
RUNS: dict[str, Run] = {}
"""The code of the checks that are more than a table of requests."""


def needs_answer(name: str) -> bool:
    """Returns True if a check judges responses to requests, not the server's description or access control."""
    return not name.startswith(_OF_NO_ANSWER)


def check(run: Code) -> Code:
    """Registers the code of the check that has the function's name."""
    RUNS[CHECKS[run.__name__].name] = run
    return run
