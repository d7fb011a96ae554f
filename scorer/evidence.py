"""`ScoreRequest.evidence` for rules, and its text for judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as pb
from lyncean.vocabulary.outcomes import Outcome
from scorer.rule import JudgedRule

NEEDS = ("messages", "input_images", "reasoning", "usage", "steps")
"""The parts of `Evidence` that a rule may need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRule(JudgedRule):
    """A judged rule that reads more than the answer.

    Attributes:
        needs: The parts of the evidence that it reads, of `NEEDS`.
    """

    needs: tuple[str, ...]


def no_evidence(detail: str = "the request has no evidence: the answer is of predictions that hold none") -> pb.Verdict:
    """Returns the verdict of an item whose evidence is missing."""
    return pb.Verdict(outcome=Outcome.UNJUDGED, reason="no_evidence", detail=detail)


@dataclass(slots=True)
class Shown:
    """Renders messages as text and collects the images that the text refers to.

    Attributes:
        images: Encoded images without repeats, in the order of their numbers.
    """

    images: list[bytes] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def text(self, messages: Iterable[model.Message]) -> str:
        """Returns the text of all but system messages; an image is "[image 1]", or "[an image]" without its bytes."""
        shown = (message for message in messages if message.role != model.ROLE_SYSTEM)
        return "\n".join(piece for message in shown for piece in self._pieces(message.parts) if piece)

    def _pieces(self, parts: Sequence[model.Part]) -> Iterator[str]:
        for part in parts:
            match part.WhichOneof("kind"):
                case "text":
                    yield part.text
                case "image":
                    yield self._image(part.image)
                case "tool_call":
                    yield f"[calls {part.tool_call.name} with {part.tool_call.arguments}]"
                case "tool_result":
                    yield from self._pieces(part.tool_result.content)
                case kind:
                    yield f"[{kind}]"

    def _image(self, image: model.Image) -> str:
        if not image.data:
            return "[an image]"
        number = self._numbers.setdefault(image.data, len(self.images) + 1)
        if number > len(self.images):
            self.images.append(image.data)
        return f"[image {number}]"


def steps_of(evidence: pb.Evidence, shown: Shown) -> list[str]:
    """Returns the steps that led to an answer: its calls, or for a single call the paragraphs of its reasoning."""
    if len(evidence.steps) == 1:
        (only,) = evidence.steps
        thoughts = only.answer.reasoning or evidence.reasoning or shown.text([only.answer])
        return [paragraph.strip() for paragraph in thoughts.split("\n\n") if paragraph.strip()]
    steps = []
    for step in evidence.steps:
        text = "\n".join(filter(None, (step.answer.reasoning, shown.text([step.answer]))))
        result = shown.text(message for message in step.next if message.role != model.ROLE_ASSISTANT)
        steps.append(text + (f"\n[result]\n{result}" if result else ""))
    return steps
