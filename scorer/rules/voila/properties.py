"""voila_properties: VOILA's steps 1 to 3, property by property and without a judge.

Targets are in the words of the data: for step 1 the three descriptions in one text ("Image 1: two cats
walking. Image 2: ..."), for step 2 the three relation sentences, for step 3 the fourth image's
description. The conditions follow the reference's judge instructions; see docs/benchmarks/voila.md.
"""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading.normalize import Folded
from scorer.reading.refusals import declines
from scorer.rule import Rule, refused, scored, unparsed
from scorer.rules.voila.answers import conclusion, images_of
from scorer.rules.voila.changes import Change, changes
from scorer.rules.voila.vocabulary import LEXICON, NUMBERS, PROPERTIES, Values, canonical

_NAMES = {"Number": "number", "Action": "action", "Subject type": "subject_type"}


def step_of(request: pb.ScoreRequest) -> int:
    """Returns the step of a request with one target; raises RequestError if step or target is missing."""
    step = request.params.fields.get("step")
    if step is None or step.number_value not in (1, 2, 3):
        raise RequestError("parameter 'step' must be 1, 2 or 3", "invalid_param")
    if len(request.targets) != 1:
        raise RequestError("needs one target: the step's truth in the data's words")
    return int(step.number_value)


def read(request: pb.ScoreRequest) -> pb.Verdict:
    """Scores one step; raises RequestError if step or target is not VOILA's."""
    score = (_score_images, _score_changes, _score_answer)[step_of(request) - 1]
    return score(Folded(request.text), request.targets[0])


def truth_of(description: str) -> Values:
    """Reads "two cats walking", any part of which may be "any".

    Raises:
        RequestError: It is not a description in VOILA's words.
    """
    tokens = description.strip().rstrip(".").split(" ")
    for cut in range(2, len(tokens)):
        parts = (tokens[0], " ".join(tokens[1:cut]), " ".join(tokens[cut:]))
        values = {prop: canonical(prop, part) for prop, part in zip(PROPERTIES, parts, strict=True)}
        if all(values.values()):
            return {prop: value or "" for prop, value in values.items()}
    raise RequestError(f"target {description!r} is not a description in VOILA's words")


def truth_of_images(target: str) -> list[Values]:
    """Reads the three descriptions of step 1's target; raises RequestError."""
    pieces = LEXICON.TRUE_IMAGE.split(target)
    if len(pieces) != 4 or pieces[0]:
        raise RequestError(f"target {target!r} does not describe images 1, 2 and 3")
    return [truth_of(piece) for piece in pieces[1:]]


def truth_of_relations(target: str) -> dict[str, tuple[str, str]]:
    """Reads property -> values in images 1 and 2 from step 2's target; raises RequestError."""
    relations = {}
    for name, constant, first, second in LEXICON.RELATION.findall(target):
        prop = _NAMES[name]
        values = tuple(canonical(prop, value) for value in ((constant, constant) if constant else (first, second)))
        if values[0] and values[1]:
            relations[prop] = (values[0], values[1])
    if len(relations) != len(PROPERTIES):
        raise RequestError(f"target {target!r} does not say how number, action and subject type change")
    return relations


def _score_images(folded: Folded, target: str) -> pb.Verdict:
    truths = truth_of_images(target)
    seen = images_of(folded.text)
    if not any(seen):
        return _nothing(folded.text)
    right = [
        {prop: float(values.get(prop) == truth[prop]) for prop in PROPERTIES}
        for values, truth in zip(seen, truths, strict=True)
    ]
    complete = [min(image.values()) for image in right]
    parts = {prop: sum(image[prop] for image in right) / 3 for prop in PROPERTIES}
    parts |= {f"image_{number}": value for number, value in enumerate(complete, 1)}
    extracted = ". ".join(f"Image {number}: {_words(values)}" for number, values in enumerate(seen, 1))
    return scored(extracted, sum(complete) / 3, scores=parts)


def _score_changes(folded: Folded, target: str) -> pb.Verdict:
    truths = truth_of_relations(target)
    stated = changes(folded.text)
    if not stated:
        return _nothing(folded.text)
    right = {prop: float(prop in stated and _agrees(prop, stated[prop], *truths[prop])) for prop in PROPERTIES}
    states = {True: "changed", False: "unchanged", None: "contradictory"}
    extracted = ", ".join(f"{prop} {states[stated[prop].changed] if prop in stated else '?'}" for prop in PROPERTIES)
    return scored(extracted, min(right.values()), scores=right)


def _agrees(prop: str, change: Change, first: str, second: str) -> bool:
    """Returns true if the state is right, and so are values and direction if they are stated."""
    if change.changed is None or change.changed != (first != second):
        return False
    if not change.changed:
        return not change.first or first in change.first
    if prop == "number" and change.direction not in (0, 1 if NUMBERS.index(second) > NUMBERS.index(first) else -1):
        return False
    return all(not stated or true in stated for true, stated in ((first, change.first), (second, change.second)))


def _score_answer(folded: Folded, target: str) -> pb.Verdict:
    truth = truth_of(target)
    concluded, span = conclusion(folded.text)
    if not concluded:
        return _nothing(folded.text)
    right = {prop: float(concluded.get(prop) == truth[prop]) for prop in PROPERTIES}
    return scored(_words(concluded), min(right.values()), scores=right, span=folded.span(*span))


def _words(values: Values) -> str:
    return " ".join(values.get(prop) or "?" for prop in PROPERTIES)


def _nothing(text: str) -> pb.Verdict:
    verdict = refused() if declines(text) else unparsed(Reason.NO_PROPERTY, "it names no property in VOILA's words")
    verdict.scores.update(dict.fromkeys(PROPERTIES, 0.0))
    return verdict


RULE = Rule(
    name="voila_properties",
    description=(
        "VOILA's steps without a judge: number, subject type and action, each right or wrong, as parts of the score. "
        "Step 1: per image, the score being the share of images with all three right. Step 2: whether each property is "
        "rightly called changed or unchanged, its values and direction too where stated. Step 3: the last conclusion, "
        "where the truth 'any' takes exactly that word. Needs the step's truth in the data's words as its one target."
    ),
    read=read,
    version=3,
    params={"step": "1, 2 or 3"},
)
