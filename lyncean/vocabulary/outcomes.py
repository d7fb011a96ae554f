"""Outcomes: each planned sample has exactly one."""

from enum import StrEnum


class Outcome(StrEnum):
    """Outcome of one planned sample. Planned is the sum over all outcomes."""

    SCORED = "scored"
    """An answer was extracted and compared."""
    UNPARSED = "unparsed"
    """Answered, but nothing could be extracted: counts as wrong, reported as its own rate."""
    REFUSED = "refused"
    """The model declined: counts as wrong."""
    REJECTED = "rejected"
    """The server cannot serve the request."""
    UNJUDGED = "unjudged"
    """The judge failed."""
    FAILED = "failed"
    """Infrastructure failed, after retries; asked again when the run is resumed."""


ANSWERED = frozenset({Outcome.SCORED, Outcome.UNPARSED})
"""Outcomes that count in accuracy (answered)."""

READ = ANSWERED | {Outcome.UNJUDGED}
"""Outcomes of items with an answer."""
