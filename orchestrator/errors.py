"""How a run can end early. Each has its exit code."""

from __future__ import annotations


class EngineError(Exception):
    """A run that cannot go on; the message is one line for people."""

    exit_code = 1


class ConfigError(EngineError):
    """Settings under which no try can succeed: never retried."""

    exit_code = 2


class IncompleteError(EngineError):
    """The run stopped before its end; running it again resumes it."""

    exit_code = 3
