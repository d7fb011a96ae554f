"""VOILA: visual analogies solved in four steps (Yilmaz et al., ICLR 2025, arXiv 2503.00043).

Images 1 and 2 show a relation in number, subject type and action; applied to image 3 it makes
image 4. A model describes the images, says what changes, applies it, and, where it can, draws
the result. `voila_nd` asks the questions of seven rules; `voila_wd` has twelve more in which a
property changes without a pattern and the answer is "any".

Every step sees the earlier questions and answers. As in the reference's script they form one
growing text beside all three images, without roles; its README, the source of the prompts and
of the decoding here, and that script differ in small words, and its scorer does not run, so
no reference can be followed bug for bug: `--parity` changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import OUTPUT_TOKENS, Benchmark, setting
from orchestrator.benchmarks.voila.generated import generated_rows, pictogram
from orchestrator.benchmarks.voila.images import collage
from orchestrator.benchmarks.voila.prompts import GENERATE, prompts
from orchestrator.benchmarks.voila.rules import ND_RULES, RULES, WD_RULES, Question
from orchestrator.benchmarks.voila.sampling import draw_balanced
from orchestrator.benchmarks.voila.source import FORMS, HUB, Identity, identify, open_voila
from orchestrator.benchmarks.voila.texts import combined_description, describe, relations
from orchestrator.data.images import row_image
from orchestrator.data.rows import Row
from orchestrator.samples import (
    Answer,
    BadRowError,
    Call,
    Message,
    NoAnswerError,
    Part,
    Sample,
    Scoring,
    Turn,
    Variant,
    assistant,
    image_part,
    metric,
    text_part,
    user,
)

PROPERTIES = ("number", "subject_type", "action")


@dataclass(frozen=True, slots=True)
class VoilaSettings:
    """Settings for `--set`."""

    steps: int = setting(3, "how many steps are asked, 1 to 4; the fourth needs a model that makes images, and a judge")
    first_step: int = setting(1, "the step that is asked first: 3 asks step 3 without those before it")
    true_steps: bool = setting(False, "the data's own answers to earlier steps in place of the model's")
    chat_turns: bool = setting(False, "earlier questions and answers as turns of a conversation")
    collage: bool = setting(False, "the three images as one picture")
    judge: bool = setting(False, "score steps 1 to 3 by judge_voila, not by voila_properties")
    max_output_tokens: int = setting(2048, "bound on an answer's tokens", OUTPUT_TOKENS)

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= 4:
            raise ValueError("steps is 1 to 4")
        if not 1 <= self.first_step <= min(self.steps, 3):
            raise ValueError(f"first_step is {self.first_step}: give 1 to {min(self.steps, 3)}, a step that is asked")

    @property
    def asked(self) -> range:
        """The steps that are asked."""
        return range(self.first_step, self.steps + 1)


def shown(row: Row, settings: VoilaSettings) -> list[Part]:
    """Returns the images as they are sent: the files' own bytes, or one collage of them."""
    images = [row_image(row, name) for name in HUB.images]
    if not settings.collage:
        return [image_part(image) for image in images]
    try:
        return [image_part(row.image("collage") or collage(images))]
    except OSError as error:
        raise BadRowError("bad_image", f"no collage can be made: {error}") from error


def conversation(
    row: Row, questions: Sequence[str], answers: Sequence[Answer], settings: VoilaSettings
) -> tuple[Message, ...]:
    """Returns the messages of a step: `answers` are those to all of `questions` but the last."""
    images = shown(row, settings)
    if not settings.chat_turns:
        earlier = "".join(f"{question} {answer.text} " for question, answer in zip(questions, answers, strict=False))
        return (user(*images, text_part(f"{earlier}{questions[-1]} ")),)
    messages = [user(*images, text_part(questions[0]))]
    for answer, question in zip(answers, questions[1:], strict=True):
        messages += [assistant(answer.text), user(text_part(question))]
    return tuple(messages)


def samples(row: Row, variant: Variant[VoilaSettings]) -> Iterator[Sample]:
    """Returns the episode of a question, `voila_wd/<N>`, with the turns step1 to step4."""
    settings = variant.settings
    identity = identify(row.fields)
    true = [Answer(text) for text in truths(identity.question)] if settings.true_steps and identity.question else []
    begin = 0 if settings.true_steps else settings.first_step - 1
    questions = prompts(variant.task)[begin:]
    config = model.GenerationConfig(max_output_tokens=settings.max_output_tokens, temperature=0.0)

    def ask(step: int, answers: Sequence[Answer]) -> Call:
        if identity.problem:
            raise BadRowError("inconsistent_row", f"question {identity.number}: {identity.problem}")
        answers = true[: step - 1] or answers
        if step < 4:
            return Call(conversation(row, questions[: step - begin], answers, settings), config)
        if not answers[-1].text.strip():
            raise NoAnswerError("no_answer", "step 3 gave no description to generate from")
        wanted = GENERATE.replace("{output}", answers[-1].text)
        return Call((user(text_part(wanted)),), modality=model.MODALITY_IMAGE)

    def turn(step: int) -> Turn:
        return Turn(lambda answers: ask(step, answers), f"step{step}", scoring(identity, step, settings, row["id"]))

    yield Sample(variant.key(row["id"]), tuple(turn(step) for step in settings.asked))


def truths(question: Question) -> tuple[str, str, str]:
    """Returns the right answers to steps 1 to 3."""
    return combined_description(question), relations(question), describe(question.answer)


def scoring(identity: Identity, step: int, settings: VoilaSettings, group: str) -> Scoring:
    """Returns how a step is judged: against the data's own words, which its descriptions determine."""
    rule = "judge_voila_image" if step == 4 else "judge_voila" if settings.judge else "voila_properties"
    question = identity.question
    labels = {"step": str(step)}
    targets: tuple[str, ...] = ()
    if question:
        kinds = RULES[question.rule].kinds
        labels |= {
            "rule": str(question.rule),
            "distractions": str(RULES[question.rule].distractions),
            "number_rule": kinds["number"],
            "subject_type_rule": kinds["subject"],
            "action_rule": kinds["action"],
        }
        targets = (truths(question)[min(step, 3) - 1],)
    return Scoring(rule, targets, params={} if step == 4 else {"step": step}, labels=labels, group=group)


def metrics(variant: Variant[VoilaSettings]) -> list[scorer.MetricSpec]:
    """Returns the paper's results, in percent: each step's properties, and all three together.

    Step 1 counts images, steps 2 and 3 questions. Step 4's results are ours.
    """
    settings = variant.settings
    results = []
    for step in settings.asked:
        of_step = {"step": (str(step),)}
        by: tuple[tuple[str, ...], ...] = (("rule",), ("distractions",))
        results.append(metric(f"step {step}: all three", "mean", where=of_step, by=by, params={"unit": "percent"}))
        for prop in PROPERTIES:
            # An image is not graded by a property that may be anything.
            graded = {f"{prop}_rule": ("S", "C", "A", "A'")} if step == 4 else {}
            results.append(
                metric(
                    f"step {step}: {prop.replace('_', ' ')}",
                    "mean",
                    where={**of_step, **graded},
                    by=(*by, (f"{prop}_rule",)),
                    params={"part": prop, "unit": "percent"},
                )
            )
        if settings.judge and step < 4:
            params = {"part": "agrees_with_rules", "unit": "percent"}
            results.append(metric(f"step {step}: judge agrees with rules", "mean", where=of_step, params=params))
    return results


def needs(variant: Variant[VoilaSettings]) -> Sequence[str]:
    """Returns the capabilities a model needs."""
    settings = variant.settings
    several = () if settings.collage else ("MULTI_IMAGE",)
    return ("IMAGE_INPUT", *several, *(("IMAGE_OUTPUT",) if settings.steps == 4 else ()))


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Draws questions of the task's rules in turn, with pictograms for images."""
    return generated_rows(draw_balanced(ND_RULES if task == "voila_nd" else WD_RULES, seed), pictogram)


BENCHMARK = Benchmark(
    name="voila",
    tasks={
        "voila_wd": "Visual analogies in steps, all 19 rules: a property without a pattern is to be answered 'any'",
        "voila_nd": "Visual analogies in steps, the 7 rules without distraction",
    },
    groups={"voila": ("voila_wd", "voila_nd")},
    data=f"{HUB.hub}\n{FORMS}",
    rows=open_voila,
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=VoilaSettings,
    methods=("generate",),
    needs=needs,
    synthetic_rows=38,
)
