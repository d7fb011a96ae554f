"""From a record of the upstream files to one form: a question, its options and the right answer.

One small function for each family of datasets. Nothing here draws at random; what the reference draws at access time
(distractors, shuffles) is drawn in `orchestrator.benchmarks.reform.questions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.benchmarks.reform.datasets import Dataset
from orchestrator.data.rows import DataError

Record = Mapping[str, Any]

VERDICT_QUESTION = "What is the truthfulness of this claim?"
COUNT_OPTIONS = 3


@dataclass(frozen=True, slots=True)
class Item:
    """The content of a record.

    Attributes:
        sample_id: The reference's sample id.
        question: The question, or several wordings of it; None where the instruction is the question.
        options: The options as stored; empty for open questions, and where `pool` is.
        answer: The right answer: an index into `options`, the text, or the references.
        slot: The text in place of an instruction's `{}`.
        pool: The answers that distractors are drawn from.
        rebuilt: Whether the reference rebuilds the option list when it shuffles, dropping doubles of the answer.
        box: Boxes on the image, as the record holds them; None without any.
        round: The number of a dialogue's round; None outside of dialogues.
    """

    sample_id: str | int
    question: str | tuple[str, ...] | None
    options: tuple[str, ...] = ()
    answer: int | str | tuple[str, ...] = 0
    slot: str | None = None
    pool: tuple[Any, ...] = ()
    rebuilt: bool = False
    box: Any = None
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """Format of the records of one family.

    Attributes:
        image: Names under which a record may hold its image.
        required: Keys that every record has beside the image.
        read: Reads a record; its second argument is the row's number from 0.
        array: Whether the file is an array of records; else an object that holds them under "data".
        header: Required values of the file's header; None stands for any value.
    """

    image: tuple[str, ...]
    required: tuple[str, ...]
    read: Callable[[Record, int, Dataset], Item]
    array: bool = False
    header: Mapping[str, Any] = field(default_factory=lambda: {"version": None, "split": None})


def index_of(record: Record, key: str, options: Sequence[str]) -> int:
    """Returns the place of a record's answer, given as an index or, where a family has that, as the option's text.

    Raises:
        DataError: It is none of the options.
    """
    answer = record[key]
    if isinstance(answer, str):
        answer = int(answer) if answer.isdecimal() else _place(answer, options)
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(options):
        return answer
    raise DataError(f"{key} {record[key]!r} is not an index of the {len(options)} options")


def _place(answer: Any, options: Sequence[str]) -> int:
    if str(answer) not in options:
        raise DataError(f"the answer {answer!r} is none of the {len(options)} options")
    return options.index(str(answer))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value))


def _wordings(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value
    if not value:
        raise DataError("the list of question wordings is empty")
    return _texts(value)


def _stored(record: Record, question: str | tuple[str, ...]) -> Item:
    options = _texts(record["answer_options"])
    return Item(record["question_id"], question, options, index_of(record, "answer", options), rebuilt=True)


def _worded(
    record: Record,
    question: str,
    options: str = "answer_options",
    answer: str = "answer",
    sample_id: str = "question_id",
) -> Item:
    """Reads a record whose answer is the right option's text, even if that is a number."""
    texts = _texts(record[options])
    return Item(record[sample_id], question, texts, _place(record[answer], texts), rebuilt=True)


def _vqar(record: Record, number: int, dataset: Dataset) -> Item:
    question = f"{record['question']} Answer: {record['answer']}"
    return _worded(record, question, "rationale_options", "rationale")


def _classification(record: Record, number: int, dataset: Dataset) -> Item:
    options = _texts(record["options"])
    return Item(record["id"], record["question"], options, index_of(record, "answer", options))


def _tdiuc(record: Record, number: int, dataset: Dataset) -> Item:
    answer = str(record["answers"][0]["answer"])
    if answer in ("yes", "no"):
        return Item(str(record["question_id"]), record["question"], ("yes", "no"), ("yes", "no").index(answer))
    return Item(str(record["question_id"]), record["question"], answer=answer, pool=tuple(record["choice"]))


def _counting(record: Record, number: int, dataset: Dataset) -> Item:
    return Item(str(number + 1), record["Question"], answer=str(record["Answer"]), pool=tuple(record["choice"]))


def _selection(options: str) -> Callable[[Record, int, Dataset], Item]:
    """Returns the reader of records that hold options under a key and the right one's index as `gt`."""

    def read(record: Record, number: int, dataset: Dataset) -> Item:
        texts = _texts(record[options])
        return Item(number, None, texts, index_of(record, "gt", texts))

    return read


def _wikihow(record: Record, number: int, dataset: Dataset) -> Item:
    return replace(_selection("options")(record, number, dataset), slot=str(record["method"]))


def _refcoco(record: Record, number: int, dataset: Dataset) -> Item:
    return replace(_selection("options")(record, record["id"], dataset), box=record["region"])


def _constant(options: tuple[str, ...]) -> Callable[[Record, int, Dataset], Item]:
    def read(record: Record, number: int, dataset: Dataset) -> Item:
        index = int(record["gt"])
        if not 0 <= index < len(options):
            raise DataError(f"gt {index} is none of {', '.join(options)}")
        return Item(number, None, options, index, slot=str(record["anno"]))

    return read


def _objects(record: Record, number: int, dataset: Dataset) -> Item:
    item = _stored(record, _wordings(record.get("question") or record["questions"]))
    return replace(item, box=record["bbox"] if dataset.boxes else None)


def _vsr(record: Record, number: int, dataset: Dataset) -> Item:
    # A statement without its full stop is given one, so that options differ in what they say alone.
    options = _texts(option if str(option).endswith(".") else f"{option}." for option in record["answer_options"])
    answer = record["answer"]
    if isinstance(answer, str) and not answer.isdigit() and not answer.endswith("."):
        answer = f"{answer}."
    question = _wordings(record.get("question") or record["questions"])
    return Item(record["question_id"], question, options, index_of({"answer": answer}, "answer", options), rebuilt=True)


def _mocheg(record: Record, number: int, dataset: Dataset) -> Item:
    claim, evidence = record["claim"].strip(), record["text_evidence"].strip()
    question = f"{VERDICT_QUESTION} Claim: {claim} Text Evidence: {evidence}"
    return _worded(record, question, sample_id="instance_id")


def _open(answer: str) -> Callable[[Record, int, Dataset], Item]:
    """Returns the reader of open questions with their answer, or a list of answers, under a key."""

    def read(record: Record, number: int, dataset: Dataset) -> Item:
        right = record[answer]
        return Item(
            record["question_id"],
            _wordings(record["question"]),
            answer=_texts(right) if isinstance(right, list) else str(right),
            box=record["bbox"] if dataset.boxes else None,
        )

    return read


def _caption(record: Record, number: int, dataset: Dataset) -> Item:
    if not record["annos"]:
        raise DataError("there are no references in annos")
    return Item(number, None, answer=_texts(record["annos"]))


def _dialog(record: Record, number: int, dataset: Dataset) -> Item:
    raise DataError("a dialogue is not a single question")


def _named(name: str) -> Mapping[str, Any]:
    return {"dataset_name": name}


_VQA_KEYS = ("question_id", "question", "answer", "answer_options")
_OBJECT_KEYS = ("question_id", "answer", "answer_options")

FAMILIES: Mapping[str, Family] = {
    "classification": Family(("image",), ("id", "question", "answer", "options"), _classification, array=True),
    "tdiuc": Family(("image_id", "image"), ("question_id", "question"), _tdiuc, array=True),
    "counting": Family(("Image_ID", "image"), ("Question", "Answer"), _counting, array=True),
    "medic": Family(("img",), ("gt", "options"), _selection("options"), header=_named("MEDIC")),
    "refcoco": Family(("img",), ("id", "region", "options", "gt"), _refcoco, header=_named("RefCOCO")),
    "itm": Family(("img",), ("gt", "anno"), _constant(("no", "yes")), header=_named("MSCOCO")),
    "its": Family(("img",), ("gt", "anno"), _selection("anno"), header=_named("MSCOCO")),
    "wikihow": Family(("img",), ("gt", "method", "title", "options"), _wikihow, header=_named("WikiHow")),
    "snli_ve": Family(
        ("img",),
        ("gt", "anno"),
        _constant(("yes", "not sure", "no")),
        header={"gt_info": {"0": "entailment", "1": "neutral", "2": "contradiction"}},
    ),
    "captions": Family(("img",), ("annos",), _caption, header={"dataset_name": None}),
    "vqa": Family(("image_id",), _VQA_KEYS, lambda record, *_: _worded(record, record["question"])),
    "kvqa": Family(
        ("image_id",),
        (*_VQA_KEYS, "context"),
        lambda record, *_: _worded(record, f"{record['question']} Context: {record['context'].strip()}"),
    ),
    "vqra": Family(
        ("image_id",),
        (*_VQA_KEYS, "rationale"),
        lambda record, *_: _worded(record, f"{record['question']} Rationale: {record['rationale']}"),
    ),
    "vqar": Family(
        ("image_id",),
        ("question_id", "question", "answer", "rationale", "rationale_options"),
        _vqar,
    ),
    "winoground": Family(("image_id",), _VQA_KEYS, lambda record, *_: _worded(record, record["question"])),
    "mocheg": Family(("image_id",), ("instance_id", "claim", "text_evidence", "answer", "answer_options"), _mocheg),
    "objects": Family(("image",), (*_OBJECT_KEYS, "question"), _objects),
    "clevr": Family(("image", "img"), (*_OBJECT_KEYS, "question"), _objects),
    "vsr": Family(("image",), _OBJECT_KEYS, _vsr),
    "wordings": Family(("image",), _OBJECT_KEYS, _objects),
    "words": Family(("image",), ("question_id", "question", "answer_txt"), _open("answer_txt")),
    "key_information": Family(("image",), ("question_id", "question", "answer_txt"), _open("answer_txt")),
    "text_questions": Family(("image_id",), ("question_id", "question", "answer"), _open("answer")),
    "dialog": Family(("image_base64", "image"), ("image_id", "dialog"), _dialog),
}
"""Family -> how it is read."""
