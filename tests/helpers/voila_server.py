"""A model server that knows what VOILA's drawings show, and grades VOILA as a judge: `python voila_server.py`.

As a model it reads the question from the images it is sent, by their bytes, and nothing else: no key, no target. Of
the property in VOILA_WRONG ("" for none) it says something false at every step, with VOILA_RIGHT ("WD,ND") not of the
first so many questions with and without distraction. As a judge it compares what it is given, word by word, without any
of the scorer's own reading.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from types import SimpleNamespace
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from model_server.kit import Model, Output, Request, main
from orchestrator.benchmarks.voila.rules import (
    ACTIONS,
    ALL,
    ANY,
    ND_RULES,
    NUMBERS,
    SUBJECTS,
    WD_RULES,
    Question,
    Spec,
    recognise,
)
from orchestrator.benchmarks.voila.sampling import draw_balanced
from orchestrator.benchmarks.voila.synthetic import draw
from orchestrator.benchmarks.voila.texts import (
    combined_description,
    read_combined,
    relations,
    words,
)

PROPERTIES = ("number", "subject_type", "action")
NAMES = ("number", "subject type", "action")


class Knowing(Model):
    name = "knowing"
    image_output = True

    @cached_property
    def seen(self) -> dict[str, Spec]:
        rows = int(os.environ["VOILA_ROWS"])
        drawn = (islice(draw_balanced(rules, 0), rows) for rules in {ALL.rules, *self._tables})
        return {
            digest(draw(spec)): spec for spec in {spec for one in drawn for question in one for spec in question.images}
        }

    @cached_property
    def _tables(self) -> dict[Sequence[int], int]:
        """Rules -> how many questions of them are answered right, empty where all are alike."""
        counts = os.environ.get("VOILA_RIGHT", "")
        return dict(zip((WD_RULES, ND_RULES), map(int, counts.split(",")), strict=True)) if counts else {}

    @cached_property
    def _right(self) -> set[tuple[Spec, ...]]:
        return {
            question.images
            for rules, count in self._tables.items()
            for question in islice(draw_balanced(rules, 0), count)
        }

    def generate(self, request: Request) -> str | Output:
        specs = [self.seen[digest(data)] for data in request.image_bytes]
        if "<answer>" in request.text or "\nWanted:\n" in request.text:
            return graded(request.text, specs)
        if request.modality == model.MODALITY_IMAGE:
            spec = wanted(request.text)
            self.seen[digest(draw(spec))] = spec
            return Output(image_files=[draw(spec)])
        question = recognise(*specs)
        assert question
        wrong = "" if question.images in self._right else os.environ.get("VOILA_WRONG", "")
        return answer_to(question, request.text, wrong)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def answer_to(question: Question, text: str, wrong: str = "") -> str:
    """Answers the last of the questions in a text."""
    if "Apply the identified" in text:
        description = words(falsified(question.answer, wrong))
        return "The answer is number = {}, subject = {}, action = {}".format(*description)
    if "Identify the changed" in text:
        sentences = relations(question).removesuffix(". ").split(". ")
        name = dict(zip(PROPERTIES, NAMES, strict=True)).get(wrong, "none")
        turned = {True: "remains constant", False: "is changed"}
        return ". ".join(
            f"{name} {turned['is changed' in sentence]}" if sentence.lower().startswith(name) else sentence
            for sentence in sentences
        )
    return combined_description(question._replace(images=tuple(falsified(spec, wrong) for spec in question.images)))


def falsified(spec: Spec, wrong: str) -> Spec:
    """Returns a spec with another value of one property."""
    if not wrong:
        return spec
    field = wrong.removesuffix("_type")
    size = {"number": 4, "subject": 14, "action": 13}[field]
    value = getattr(spec, field)
    return spec._replace(**{field: 1 if value == ANY else (value + 1) % size})


def wanted(text: str) -> Spec:
    """Returns what an image is to show; where anything will do, the first there is."""
    match = re.search(r"number = ([\w ]+), subject = ([\w ]+), action = ([\w -]+)\.", text)
    assert match
    number, subject, action = match.groups()
    of_subject = next((index for index, names in enumerate(SUBJECTS) if subject in names), 0)
    return Spec(
        NUMBERS.index(number) if number != "any" else 0, of_subject, ACTIONS.index(action) if action != "any" else 0
    )


def graded(text: str, specs: list[Spec]) -> str:
    """Grades one step by comparing words."""
    if specs:
        listed = dict(re.findall(r"^- (number of subjects|subject type|action): (.*)$", text, re.MULTILINE))
        shown = dict(zip(("number of subjects", "subject type", "action"), words(specs[0]), strict=True))
        return json.dumps(
            {
                prop: int(listed[name] in (shown[name], _plural(shown[name])))
                for prop, name in zip(PROPERTIES, shown, strict=True)
                if name in listed
            }
        )
    match = re.search(r"Truth:\n(.*?)\n\nAnswer:\n<answer>\n(.*?)\n</answer>", text, re.DOTALL)
    assert match
    truth, answer = match.groups()
    if truth.startswith("Image 1"):
        pairs = zip(read_combined(truth) or (), read_combined(answer) or (), strict=True)
        images = [
            {prop: int(a == b) for prop, a, b in zip(PROPERTIES, true, parts, strict=True)} for true, parts in pairs
        ]
        return json.dumps({f"image_{number}": grades for number, grades in enumerate(images, 1)})
    if "remains constant" in truth or "is changed" in truth:
        states = [
            {
                name: "is changed" in sentence
                for sentence in sentences.split(". ")
                for name in NAMES
                if sentence.lower().startswith(name)
            }
            for sentences in (truth, answer)
        ]
        return json.dumps(
            {prop: int(states[0][name] == states[1][name]) for prop, name in zip(PROPERTIES, NAMES, strict=True)}
        )
    parts = re.findall(r"(?:number|subject|action) = ([\w -]+)", answer)
    number, rest = truth.split(" ", 1)
    rights = (parts[0] == number, rest.startswith(f"{parts[1]} "), rest.endswith(f" {parts[2]}"))
    return json.dumps({prop: int(right) for prop, right in zip(PROPERTIES, rights, strict=True)})


def _plural(name: str) -> str:
    return next((plural for plural, singular in SUBJECTS if name == singular), name)


def endpoint() -> None:
    """Serves the same by an OpenAI-compatible API."""
    from helpers import drawing_endpoint

    knowing = Knowing()

    def answer(text: str, files: list[bytes], draws: bool) -> str | bytes:
        modality = model.MODALITY_IMAGE if draws else model.MODALITY_TEXT
        answer: Any = knowing.generate(SimpleNamespace(text=text, image_bytes=files, modality=modality))  # type: ignore[arg-type]
        return answer if isinstance(answer, str) else bytes(answer.image_files[0])

    drawing_endpoint.run(answer)


if __name__ == "__main__":
    endpoint() if "VOILA_ENDPOINT" in os.environ else main(Knowing)
