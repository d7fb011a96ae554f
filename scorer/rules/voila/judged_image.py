"""judge_voila_image: a vision judge grades VOILA's step 4, by our procedure; see scorer.rules.voila.prompts."""

from __future__ import annotations

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.judges.base import Judge, graded
from scorer.rule import JudgedRule, unparsed
from scorer.rules.voila.prompts import image_prompt, verdict
from scorer.rules.voila.properties import truth_of
from scorer.rules.voila.vocabulary import ANY, PROPERTIES


async def read(request: pb.ScoreRequest, judge: Judge) -> pb.Verdict:
    """Asks the judge whether the first image shows the target; raises RequestError for an invalid target."""
    if len(request.targets) != 1:
        raise RequestError("needs one target: the fourth image's description in the data's words")
    truth = truth_of(request.targets[0])
    if all(truth[prop] == ANY for prop in PROPERTIES):
        raise RequestError(f"target {request.targets[0]!r} wants nothing of the image")
    if not request.images.images:
        return unparsed(Reason.NO_IMAGE, "the model made no image")
    return await graded(judge, image_prompt(truth, request.images.images[0].data), verdict)


RULE = JudgedRule(
    name="judge_voila_image",
    description=(
        "VOILA's generated image by a vision judge. The benchmark publishes no procedure: this one is ours. The first "
        "image is graded by the properties that the target's description names, 'any' left out; the score is 1 where "
        "all of these are right. Needs the fourth image's description in the data's words as its one target."
    ),
    read=read,
    reads=("images", "text"),
)
