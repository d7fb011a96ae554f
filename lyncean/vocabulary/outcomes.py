"""The words of the accounting: what became of a planned sample, exactly one for each."""

from enum import StrEnum


class Outcome(StrEnum):
    """What became of one planned sample. Planned is the sum over all outcomes."""

    SCORED = "scored"
    """An answer was extracted and compared."""
    UNPARSED = "unparsed"
    """Answered, but nothing could be extracted: counts as wrong, reported as its own rate."""
    REFUSED = "refused"
    """The model declined: counts as wrong."""
    REJECTED = "rejected"
    """The server said that the request cannot be served."""
    UNJUDGED = "unjudged"
    """The judge failed."""
    FAILED = "failed"
    """Infrastructure failed, after retries; asked again when the run is resumed."""


ANSWERED = frozenset({Outcome.SCORED, Outcome.UNPARSED})
"""Outcomes over which accuracy "answered" is taken."""

READ = ANSWERED | {Outcome.UNJUDGED}
"""Outcomes of items with an answer to read."""
