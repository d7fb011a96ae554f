"""Values of `Verdict.reason` from built-in rules: how a scored answer was read, or why none was."""

from enum import StrEnum
from typing import NamedTuple

from lyncean.vocabulary.outcomes import Outcome


class Reason(StrEnum):
    """Reason of a verdict. Plugins and judges may give other values."""

    # A scored answer, by what it states.
    BARE = "bare"
    """The answer, or a line of it, is the label or the number alone."""
    BOXED = "boxed"
    """It stands in a box or an answer tag."""
    STATED = "stated"
    """It is called the answer."""
    CHOSEN = "chosen"
    """The model says that it chooses it."""
    CONCLUDED = "concluded"
    """The text arrives at it."""
    CORRECTED = "corrected"
    """It replaces what was said before."""
    MARKED = "marked"
    """A tick or a verdict stands beside it."""
    LEADING = "leading"
    """The answer begins with yes or no."""
    NONE = "none"
    """The answer says that there is nothing to count."""
    # A scored answer that states nothing.
    LIKELY = "likely"
    """It is the one tentative choice."""
    AGREED = "agreed"
    """It is named by label and words, and nothing else is."""
    ELIMINATION = "elimination"
    """Every other option is rejected."""
    LONE_LABEL = "lone_label"
    """It is the one label that is named."""
    OPTION_TEXT = "option_text"
    """It is the one option whose text is named."""
    ONLY_NUMBER = "only_number"
    """It is the one number that is named."""
    NEGATION = "negation"
    """Its opposite is denied."""
    # An unparsed answer.
    NO_CHOICE = "no_choice"
    """It names no choice, or decides for none."""
    NO_NUMBER = "no_number"
    """It names no number."""
    NO_CONCLUSION = "no_conclusion"
    """It names parts of a sum and no sum."""
    CONFLICT = "conflict"
    """It states several answers."""
    READERS_DIFFER = "readers_differ"
    """The rule reads one choice, and the judge that reads it again another or none."""
    ABSTAINED = "abstained"
    """It says that it has no answer."""
    RETRACTED = "retracted"
    """It takes its answer back."""
    EMPTY = "empty"
    """It has no text."""
    EMPTY_ANSWER = "empty_answer"
    """It is empty once reasoning is removed."""
    NO_PROPERTY = "no_property"
    """It names no property (VOILA)."""
    NO_IMAGE = "no_image"
    """It has no image."""
    NO_MARK = "no_mark"
    """It has no mark such as (A) (ReForm-Eval)."""
    NO_MATCH = "no_match"
    """No pattern of the rule finds a label."""
    INVALID_SCORES = "invalid_scores"
    """Its log-likelihoods are not numbers."""
    ALL_IMPOSSIBLE = "all_impossible"
    """Every option has probability 0."""
    # A refused answer.
    DECLINED = "declined"
    """The model declines to answer."""
    # A scored answer, by other rules.
    NOT_FOUND = "not_found"
    """It contains no target."""
    EMPTY_TARGET = "empty_target"
    """No target has any character to search for."""
    OUT_OF_RANGE = "out_of_range"
    """Its mark is beyond the options."""
    TIE = "tie"
    """Several options are equally likely; the first counts."""
    RANDOM_DRAW = "random_draw"
    """Nothing was found; the reference draws a letter at random."""


DOUBTFUL = frozenset({Reason.CONCLUDED, Reason.MARKED, Reason.LIKELY, Reason.OPTION_TEXT, Reason.ONLY_NUMBER})
"""Reasons of the weakest readings of a scored answer; all others are firm."""

SCORELESS = frozenset({"no_score", "part_of_an_answer"})
"""Reasons of scored verdicts whose score of 0 means none: the task's metrics score many items together."""

READ_BY_WORDS = frozenset({"choice", "choice_number", "count", "two_way", "yes_no"})
"""Rules that read free text, to which `ERRORS` applies."""


class Confidence(StrEnum):
    """Confidence in the reading of an answer."""

    FIRM = "firm"
    DOUBTFUL = "doubtful"
    UNPARSED = "unparsed"


class Errors(NamedTuple):
    """Measured errors of reading.

    Attributes:
        wrong: Answers that were read wrongly; of unparsed ones, those in which a person reads an answer.
        read: All answers.
    """

    wrong: int
    read: int


ERRORS = {
    Confidence.FIRM: Errors(43, 4651),
    Confidence.DOUBTFUL: Errors(46, 1552),
    Confidence.UNPARSED: Errors(432, 2205),
}
"""Measured in November 2026 on batches 13 to 18, 20, 21 and 23 to 45 of tests/scorer/corpus (docs/extraction.md), each
read by the rules before any change made because of it. 97 refused and 21 empty answers are left out."""


def confidence(rule: str, outcome: str, reason: str) -> Confidence | None:
    """Returns the class of a verdict; None if no free text was read: another rule, an empty answer, a refusal."""
    read = rule in READ_BY_WORDS and outcome in (Outcome.SCORED, Outcome.UNPARSED)
    if not read or reason == Reason.EMPTY_ANSWER:
        return None
    if outcome == Outcome.UNPARSED:
        return Confidence.UNPARSED
    return Confidence.DOUBTFUL if reason in DOUBTFUL else Confidence.FIRM
