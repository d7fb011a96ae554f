"""A model server that knows what VOILA's drawings show: `python voila_server.py --wrong PROPERTY`.

It reads the question from the images it is sent, by their bytes, and nothing else: no key, no target. Of the
property given by VOILA_WRONG ("" for none) it says something false at every step.
"""

from __future__ import annotations

import hashlib
import os
from functools import cached_property

from model_server.kit import Model, Output, Request, main
from orchestrator.synthetic.voila import draw
from orchestrator.voila.rules import ALL, ANY, Question, Spec, recognise
from orchestrator.voila.sampling import draw_balanced
from orchestrator.voila.texts import action_text, combined_description, number_text, relations, subject_text


class Knowing(Model):
    name = "knowing"
    image_output = True

    @cached_property
    def seen(self) -> dict[str, Spec]:
        questions = draw_balanced(ALL.rules, int(os.environ.get("VOILA_SEED", "0")))
        specs = {spec for _ in range(int(os.environ["VOILA_ROWS"])) for spec in next(questions).images}
        return {hashlib.sha256(draw(spec)).hexdigest(): spec for spec in specs}

    def generate(self, request: Request) -> str | Output:
        if not request.image_bytes:
            spec = next(iter(self.seen.values()))
            return Output(image_files=[draw(spec)])
        specs = [self.seen[hashlib.sha256(data).hexdigest()] for data in request.image_bytes]
        question = recognise(*specs)
        assert question
        return said(question, request.text, os.environ.get("VOILA_WRONG", ""))


def said(question: Question, text: str, wrong: str = "") -> str:
    """Answers the last of the questions in a text."""
    shown = question._replace(images=tuple(falsified(spec, wrong) for spec in question.images))
    if "Apply the identified" in text:
        answer = falsified(question.answer, wrong)
        words = (number_text(answer), subject_text(answer), action_text(answer))
        return "The answer is number = {}, subject = {}, action = {}".format(*words)
    if "Identify the changed" in text:
        told = relations(question).replace("Subject type", "subject type").replace("Number", "number")
        name = {"number": "number", "subject_type": "subject type", "action": "action"}.get(wrong)
        sentences = [sentence for sentence in told.replace("Action", "action").split(". ") if sentence]
        turned = {True: " remains constant", False: " is changed"}
        return ". ".join(
            name + turned["is changed" in sentence] if name and sentence.startswith(name) else sentence
            for sentence in sentences
        )
    return combined_description(shown)


def falsified(spec: Spec, wrong: str) -> Spec:
    """Returns a spec with another value of one property."""
    values = {"number": ("number", 4), "subject_type": ("subject", 14), "action": ("action", 13)}
    if not wrong:
        return spec
    field, size = values[wrong]
    value = getattr(spec, field)
    return spec._replace(**{field: 1 if value == ANY else (value + 1) % size})


if __name__ == "__main__":
    main(Knowing)
