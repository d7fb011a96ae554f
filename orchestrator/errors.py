"""Errors that end a run or a command early, each with its exit code."""

from __future__ import annotations

from lyncean.errors import UserError


class EngineError(UserError):
    """A run that cannot go on; the message is one line for people."""

    exit_code = 1


class ConfigError(EngineError):
    """Settings or input with which no attempt can succeed; never retried."""

    exit_code = 2


class IncompleteError(EngineError):
    """The run stopped before its end; running it again resumes it."""

    exit_code = 3


class UnreachableError(IncompleteError):
    """No server of the model answered, so that nothing was sent to it."""


class StoppedError(IncompleteError):
    """Somebody stopped the run, by Ctrl-C or SIGTERM."""


class LimitError(EngineError):
    """The run is complete, and more of it than was allowed came to no result."""

    exit_code = 4
