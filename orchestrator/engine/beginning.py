"""The beginning of a run: if its first calls all fail alike, the others would fail too."""

from __future__ import annotations

from collections import Counter

from lyncean.vocabulary.outcomes import Outcome
from orchestrator.run_folder.lines import Failure
from orchestrator.run_folder.mistakes import of_configuration

MOST = 100
"""Failures of one kind after which nothing more is sent, as long as nothing was answered."""


class Beginning:
    """Counts the failures of a process by kind until it gets an answer.

    A rejection counts if its reason is the configuration; a rejected row says nothing about the others.
    """

    def __init__(self) -> None:
        self._kinds: Counter[tuple[str, str, str]] = Counter()
        self._answered = False

    def answered(self) -> None:
        """Notes an answer: from now on nothing counts."""
        self._answered = True

    def failed(self, outcome: Outcome, error: Failure) -> str:
        """Counts a request without an answer; returns why nothing more is to be sent, "" while it may be."""
        counts = outcome == Outcome.FAILED or (outcome == Outcome.REJECTED and of_configuration(error))
        if self._answered or not counts:
            return ""
        kind = (outcome, error.code, error.reason)
        self._kinds[kind] += 1
        if self._kinds[kind] < MOST:
            return ""
        return (
            f"the first {MOST} requests all ended alike, {outcome} ({error.reason}): {error.message}; the rest is not "
            "sent: mend it, then run the same command again"
        )
