"""The calls of a sample with no model in sight: later turns are asked with placeholders for the answers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache

from PIL import Image

from lyncean.model.v1 import model_pb2 as model
from orchestrator.data.rows import DataError
from orchestrator.engine.blind import blinded
from orchestrator.samples import Answer, BadRowError, Call, NoAnswerError, Sample, Turn


def walk(sample: Sample, *, blind: bool) -> Iterator[tuple[Turn, Call | BadRowError | NoAnswerError]]:
    """Yields each turn with its call, or with why a run would not make it, after which no turn is asked.

    The placeholders are the text "{answer 1}" for the first turn's, a small grey image for a generated image, and
    log-likelihoods of 0.
    """
    answers: list[Answer] = []
    for turn in sample.turns:
        try:
            call = turn.ask(answers)
            call = blinded(call) if blind else call
        except (BadRowError, NoAnswerError) as error:
            yield turn, error
            return
        except DataError as error:
            yield turn, BadRowError("unreadable_row", str(error))
            return
        yield turn, call
        answers.append(_stand_in(call, len(answers) + 1))


def _stand_in(call: Call, number: int) -> Answer:
    if call.continuations:
        return Answer(scores=tuple(model.ContinuationScore(token_count=1) for _ in call.continuations))
    if call.modality == model.MODALITY_IMAGE:
        return Answer(images=(model.Image(data=_grey(), media_type="image/png"),))
    return Answer(text=f"{{answer {number}}}")


@cache
def _grey() -> bytes:
    out = io.BytesIO()
    Image.new("L", (64, 64), 128).save(out, "PNG")
    return out.getvalue()
