"""ReForm-Eval: 61 datasets in four formulations, two inference methods and several dialogue modes (arXiv 2310.02569).

Choices are answered by generation or by log-likelihood; text in images, key information and captions always by
generation. Next to this file are the datasets (datasets), their files and records (files, families), their questions
(questions, dialogs), and the reference's prompt layouts (layouts). `--parity` keeps to the reference's scoring and to
its in-context turns; docs/reform.md lists the other differences and their reasons.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark
from orchestrator.benchmarks.reform import dialogs, files
from orchestrator.benchmarks.reform.datasets import DATASETS, DIMENSIONS, HUB, KIE, OCR, SINGLE_CHOICE, Dataset, groups
from orchestrator.benchmarks.reform.families import FAMILIES, Item
from orchestrator.benchmarks.reform.images import shown
from orchestrator.benchmarks.reform.instructions import wording
from orchestrator.benchmarks.reform.metrics import INSTRUCTION, metrics as metrics_of
from orchestrator.benchmarks.reform.questions import Question, candidates, messages, question_of
from orchestrator.benchmarks.reform.settings import ReformSettings, Switches, formulation, switches
from orchestrator.data.images import row_image
from orchestrator.data.rows import DataError, Row
from orchestrator.samples import Answer, BadRowError, Call, Sample, Scoring, Turn, Variant, single

_Variant = Variant[ReformSettings]
_RULES = {OCR: ("contains_word", "reform_ocr"), KIE: ("key_information", "reform_kie")}


def samples(row: Row, variant: _Variant) -> Iterator[Sample]:
    """Returns the sample of a row, or those of a dialogue's rounds.

    Online, a dialogue is one sample whose turns are its rounds and, within a round, its repeats: the next round shows
    the most frequent answer. A row that cannot be read is rejected, and the run goes on.
    """
    dataset = DATASETS[variant.task]
    chosen = switches(variant, dataset)
    try:
        if dataset.family == "dialog":
            yield from _dialog(row, dataset, chosen, variant)
            return
        item = FAMILIES[dataset.family].read(row.fields, row[files.NUMBER], dataset)
        identifier = _identifier(item.sample_id, row)
        texts = wording(dataset, variant.settings.instructions, row)
        question = question_of(item, identifier, row[files.NUMBER], dataset, texts, chosen, variant)
    except (DataError, KeyError, TypeError, ValueError, AttributeError) as error:
        yield _rejected(row, dataset, variant, error)
        return
    yield single(
        variant.key(identifier),
        lambda: _call(question, row, dataset, chosen, variant),
        _scoring(question, dataset, chosen, variant, identifier),
    )


def _dialog(row: Row, dataset: Dataset, chosen: Switches, variant: _Variant) -> Iterator[Sample]:
    subsample = variant.settings.subsample
    if subsample and row[files.NUMBER] >= subsample:
        return
    dialog = dialogs.dialog_of(row, capitalize=chosen.capitalize)
    texts = wording(dataset, variant.settings.instructions, row)

    def ask(item: Item, identifier: str, number: int, test: _Variant) -> Question:
        return question_of(item, identifier, row[files.FIRST_ROUND] + number, dataset, texts, chosen, test)

    if not chosen.online:
        for number in range(len(dialog.rounds)):
            item = dialog.item(number)
            sample_id = str(item.sample_id)
            question = ask(item, sample_id, number, variant)
            turns = dialogs.history(dialog, [None] * number, chosen, variant)
            complete = dataclasses.replace(question, history=(*question.history, *turns))
            yield single(
                variant.key(_identifier(sample_id, row)),
                functools.partial(_call, complete, row, dataset, chosen, variant),
                _scoring(complete, dataset, chosen, variant, sample_id),
            )
    elif variant.repeat == 0 and dialog.rounds:
        yield Sample(
            variant.key(_identifier(dialog.image_id, row)), tuple(_rounds(dialog, ask, row, dataset, chosen, variant))
        )


def _rounds(
    dialog: dialogs.Dialog,
    ask: dialogs.Ask,
    row: Row,
    dataset: Dataset,
    chosen: Switches,
    variant: _Variant,
) -> Iterator[Turn]:
    reduction = variant.settings.likelihood_reduction
    tests = [dataclasses.replace(variant, repeat=repeat) for repeat in range(variant.repeats)]
    items = [dialog.item(one_round.number) for one_round in dialog.rounds]
    questions_by_round = [[ask(item, str(item.sample_id), at, test) for test in tests] for at, item in enumerate(items)]

    def call(at: int, test: _Variant, answers: Sequence[Answer]) -> Call:
        earlier_answers = [
            [
                dialogs.answer_text(answer, question.options, reduction)
                for answer, question in zip(answers[earlier * len(tests) :], questions_by_round[earlier], strict=False)
            ]
            for earlier in range(at)
        ]
        question = questions_by_round[at][test.repeat]
        turns = dialogs.history(dialog, earlier_answers, chosen, variant)
        complete = dataclasses.replace(question, history=(*question.history, *turns))
        return _call(complete, row, dataset, chosen, test)

    for at, questions in enumerate(questions_by_round):
        for test, question in zip(tests, questions, strict=True):
            yield Turn(
                functools.partial(call, at, test),
                f"{at}" + (f"#{test.repeat}" if test.repeat else ""),
                _scoring(question, dataset, chosen, test, str(items[at].sample_id)),
            )


def _call(question: Question, row: Row, dataset: Dataset, chosen: Switches, variant: _Variant) -> Call:
    settings = variant.settings
    image = shown(row_image(row), dataset.boxes, question.box)
    config = model.GenerationConfig(
        max_output_tokens=settings.max_new_tokens or dataset.max_new_tokens, temperature=settings.temperature
    )
    if settings.temperature:
        config.seed = variant.rng(question.sample_id, "decoding").getrandbits(32)
    try:
        conversation = messages(question, image, chosen)
    except IndexError:
        raise BadRowError(
            "too_many_options", f"{len(question.options)} options have no marks in {question.marks}"
        ) from None
    return Call(conversation, config, candidates(question, chosen))


def _scoring(question: Question, dataset: Dataset, chosen: Switches, variant: _Variant, group: str | int) -> Scoring:
    form = formulation(variant, dataset)
    # The reference's instability is over a sample's tests; otherwise rounds of one dialogue depend on each other.
    cluster = group if variant.parity or dataset.family != "dialog" else str(group).rpartition("_")[0]
    make = functools.partial(Scoring, labels=_labels(question, dataset), group=str(cluster))
    if form != SINGLE_CHOICE:
        rule = _RULES[form][variant.parity] if form in _RULES else "caption"
        return make(rule, targets=question.targets)
    options = question.options
    reduction = variant.settings.likelihood_reduction
    if variant.parity:
        params: dict[str, Any] = {"reduction": reduction} if chosen.likelihood else {}
        return make("reform_choice", targets=(str(question.right),), options=options, params=params)
    if chosen.likelihood:
        right = (options[question.right],)
        return make("likelihood", targets=right, options=options, params={"reduction": reduction})
    marks = tuple(question.marks[: len(options)])
    targets = tuple(f"({marks[index]})" for index in question.doubles if index < len(marks))
    return make("choice", targets=targets, options=options, params={"labels": list(marks)})


def _labels(question: Question, dataset: Dataset) -> dict[str, str]:
    labels = {"dimension": dataset.dimension, INSTRUCTION: str(question.instruction + 1)}
    if question.round is not None:
        labels["round"] = str(question.round)
    return labels


def _rejected(row: Row, dataset: Dataset, variant: _Variant, error: Exception) -> Sample:
    number = row.fields.get(files.NUMBER)
    detail = f"row {number}: {error if isinstance(error, DataError) else f'{type(error).__name__} {error}'}"

    def ask() -> Call:
        raise BadRowError("bad_row", detail)

    rule = "caption" if dataset.formulations[0] != SINGLE_CHOICE else "choice"
    return single(variant.key(f"row{number}"), ask, Scoring(rule, labels={"dimension": dataset.dimension}))


def _identifier(sample_id: str | int, row: Row) -> str:
    """Returns what a key ends in: the id without what keys are made with, told apart from an earlier row's."""
    plain = re.sub(r"[#:\s]", "_", str(sample_id))
    return f"{plain}~{row[files.TWIN]}" if row.fields.get(files.TWIN) else plain


def metrics(variant: _Variant) -> list[scorer.MetricSpec]:
    """Returns the paper's metrics: accuracy, format hit rate, instability, the course of dialogues, captions'."""
    dataset = DATASETS[variant.task]
    form = formulation(variant, dataset)
    several = form == SINGLE_CHOICE and variant.repeats > 1
    return metrics_of(form, parity=variant.parity, instability=several, rounds=dataset.family == "dialog")


def needs(variant: _Variant) -> Sequence[str]:
    """Returns the capabilities a model needs; open questions are always generated."""
    open_ended = formulation(variant, DATASETS[variant.task]) != SINGLE_CHOICE
    sampled = variant.settings.temperature > 0
    return ("IMAGE_INPUT", *["GENERATE"] * open_ended, *["SEED"] * sampled)


def synthetic(task: str, seed: int) -> Iterator[Row]:
    """Draws records of the dataset's upstream schema."""
    from orchestrator.benchmarks.reform.synthetic import rows

    return rows(task, seed)


def _described(dataset: Dataset) -> str:
    return f"{dataset.label}: {DIMENSIONS[dataset.dimension]}, {dataset.formulations[0]}"


BENCHMARK = Benchmark(
    name="reform",
    tasks={task: _described(dataset) for task, dataset in DATASETS.items()},
    groups=groups(),
    data=f"{HUB}\n{files.FORMS}",
    rows=files.open_reform,
    samples=samples,
    metrics=metrics,
    synthetic=synthetic,
    settings=ReformSettings,
    needs=needs,
    synthetic_rows=20,
)
