"""box: compares the box or the point that an answer states with the target boxes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.reasons import Reason
from scorer.errors import RequestError
from scorer.reading.refusals import declines
from scorer.rule import Rule, refused, scored, unparsed
from scorer.rules.params import choice, real, reals

_MOST = 20_000
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,9}(?:\.\d{1,12})?(?![\w]|\.\d)")
_GROUP = re.compile(r"[(\[{<][^()\[\]{}<>]{3,200}[)\]}>]")

Box = tuple[float, float, float, float]


def overlap(one: Box, other: Box) -> float:
    """Returns the intersection over union of two boxes, x1 y1 x2 y2 (Everingham et al., 2010)."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / (_area(one) + _area(other) - both)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _numbers(text: str) -> list[float]:
    return [float(match[0]) for match in _NUMBER.finditer(text)]


def _stated(text: str, count: int) -> tuple[tuple[float, ...], ...]:
    """Returns the distinct sets of `count` coordinates in an answer: those in brackets, else all of its numbers."""
    text = text[-_MOST:]
    sets = [numbers for match in _GROUP.finditer(text) if len(numbers := _numbers(match[0])) == count]
    sets = sets or [numbers for numbers in [_numbers(text)] if len(numbers) == count]
    if not sets and count == 4:  # (x1, y1), (x2, y2)
        pairs = [numbers for match in _GROUP.finditer(text) if len(numbers := _numbers(match[0])) == 2]
        sets = [[*pairs[0], *pairs[1]]] if len(pairs) == 2 else []
    return tuple(dict.fromkeys(map(tuple, sets)))


def _scaled(values: Sequence[float], size: Sequence[float]) -> tuple[float, ...]:
    return tuple(value / size[axis % 2] for axis, value in enumerate(values))


def _box(values: Sequence[float]) -> Box:
    (left, right), (top, bottom) = sorted(values[0::2]), sorted(values[1::2])
    return left, top, right, bottom


def _read(request: pb.ScoreRequest) -> pb.Verdict:
    point = choice(request, "measure", ("iou", "point")) == "point"
    threshold = real(request, "threshold", 0.5, most=1)
    answer_size, target_size = (reals(request, name, (1.0, 1.0)) for name in ("answer_size", "target_size"))
    targets = [_scaled(_numbers(target), target_size) for target in request.targets]
    if not targets or any(len(target) != 4 for target in targets):
        raise RequestError(f"box: the targets {list(request.targets)} are not four numbers x1, y1, x2, y2 each")
    sets = _stated(request.text, 2 if point else 4)
    if len(sets) != 1:
        declined = not sets and declines(request.text)
        return refused() if declined else unparsed(Reason.CONFLICT if sets else Reason.NO_NUMBER)
    coordinates = _scaled(sets[0], answer_size)
    shown = ", ".join(f"{value:.6g}" for value in sets[0])
    boxes = [_box(target) for target in targets]
    if point:
        inside = any(box[0] <= coordinates[0] <= box[2] and box[1] <= coordinates[1] <= box[3] for box in boxes)
        return scored(shown, float(inside))
    best = max(overlap(_box(coordinates), box) for box in boxes)
    return scored(shown, float(best >= threshold), scores={"iou": best})


RULE = Rule(
    name="box",
    description=(
        "Whether the one box that an answer states overlaps a target's by an intersection over union of "
        "params.threshold, or, with `measure: point`, whether its one point is in a target's box. Targets: x1, y1, "
        "x2, y2. The part `iou` is the overlap itself. Several boxes are unparsed."
    ),
    read=_read,
    params={
        "measure": "iou or point; default iou.",
        "threshold": "The least overlap that is right; default 0.5.",
        "answer_size": "Width and height of the picture in the answer's coordinates, such as [1000, 1000].",
        "target_size": "Width and height of the picture in the targets' coordinates.",
    },
)
