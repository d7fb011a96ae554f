"""Answers of another harness to a task that is bridged, so that the task's own code scores them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean_interop.answers import LETTERS, Answer, ToolAnswers, answer_line, check_keys, write_run
from lyncean_interop.responses import pairs_of, texts_of
from orchestrator.benchmarks import find_tasks
from orchestrator.data import DataError
from orchestrator.run import scorer_arguments, settings_of
from orchestrator.samples import Sample, Scoring, Turn, Variant

_NO_LIST = str.maketrans("", "", "[]()'\" \n\t")
"""Characters of a list's text, as which lmms-eval writes several targets."""
_LOOKED_AT = 8
"""Items by which it is decided whether a task's code sends other texts than its questions."""


@dataclass(frozen=True, slots=True)
class Bridged:
    """Scoring by a task's own code.

    Attributes:
        prefix: Our prefix of the harness's tasks: `lmms`, `lm-eval`, `vlmevalkit`.
        data: The data of the run, as for `--data` of `eval`.
        include: Folders with further tasks.
        trusted: Whether the task's code may run answers as code.
        settings: Settings of `--set`.
    """

    prefix: str
    data: str
    include: tuple[str, ...] = ()
    trusted: bool = False
    settings: tuple[str, ...] = ()

    def arguments(self, task: str) -> list[str]:
        """Returns the arguments of the scorer that runs a task's code."""
        folders = [f"--include-path={Path(folder).absolute()}" for folder in self.include]
        return scorer_arguments(
            [f"--task={self.prefix}:{task}", *folders, *(["--trust-task-code"] if self.trusted else [])]
        )

    def take(self, imported: ToolAnswers, path: Path, run: Path) -> dict[str, tuple[float, str]]:
        """Writes an unscored run folder with the items of one of our runs.

        Args:
            imported: The answers; their keys are the harness's names of documents.
            path: Their file.
            run: Target folder.

        Returns:
            The tool's own score and extracted text, by the item's key.

        Raises:
            DataError: The task is not bridged, its code may not run, or the answers are empty, repeat a key, or belong
                to other data.
            RunLogError: The folder holds a run, or cannot be created.
        """
        check_keys(imported, path)
        word = f"{self.prefix}:{imported.task}"
        try:
            benchmark = find_tasks([word], [str(Path(folder).absolute()) for folder in self.include])[word]
        except (UserError, KeyError) as error:
            raise DataError(
                f"{imported.task} cannot be scored by its own code: {error}; or leave --data out"
            ) from error
        settings = settings_of(self.settings, [benchmark])[benchmark.name]
        variant = Variant(word, settings=settings, method=benchmark.methods[0])
        if (location := benchmark.runs_text(variant)) and not self.trusted:
            raise DataError(
                f"task {word}: its code runs text as Python ({location}): give --trust-task-code to allow that"
            )
        benchmark.needs(variant)
        samples, questions = dict[str, Sample](), dict[str, str]()
        for row in benchmark.rows(word, self.data):
            for sample in benchmark.samples(row, variant):
                samples[sample.key.partition("/")[2]] = sample
                questions[sample.key] = str(row.fields.get("context", ""))
        items = [item for answer in imported.answers for item in _items(answer, samples, path, self.data)]
        if variant.method == "generate":
            items = _as_sent(items, questions)
        write_run(
            run,
            path,
            tool=imported.tool,
            task=word,
            info=model.GetModelInfoResponse(model_name=imported.model, server_version=imported.tool),
            method=variant.method,
            lines=_lines(word, items),
            count=len(items),
            metrics=list(benchmark.metrics(variant)),
            created=imported.created,
        )
        if len(items) > len(imported.answers):
            return {}  # the tool scores the document, not single answers
        return {item.key: (item.answer.score, item.answer.extracted) for item in items if item.answer.score is not None}


class _Item(NamedTuple):
    """An answer to a document, matched to one of our requests.

    Attributes:
        key: The item's key.
        scoring: How it is scored.
        messages: The texts that were sent, if the harness's file has the question that they are made from.
    """

    key: str
    sample: Sample
    turn: Turn
    scoring: Scoring
    answer: Answer
    messages: Sequence[Mapping[str, Any]] = ()


def _items(answer: Answer, samples: Mapping[str, Sample], path: Path, data: str) -> Iterator[_Item]:
    """Yields the items of the answers to a document, one for each scored turn.

    Raises:
        DataError: The document is missing, or differs in its target or its number of answers.
    """
    sample = samples.get(answer.key)
    if sample is None:
        raise DataError(f"--data {data} has no document {answer.key}, which {path.name} answers")
    turns = [(turn, turn.scoring) for turn in sample.turns if turn.scoring]
    targets, options = turns[0][1].targets, turns[0][1].options
    if targets and answer.targets and not _same(targets, answer.targets, options):
        raise DataError(
            f"--data {data} is not what {path.name} was asked from: the right answer to document {answer.key} is "
            f"{answer.targets[0][:60]!r} there, and {targets[0][:60]!r} in these data"
        )
    parts = [answer] * len(turns) if answer.failed else _divided(answer, [turn for turn, _ in turns])
    if len(parts) != len(turns):
        raise DataError(
            f"--data {data} is not what {path.name} was asked from: document {answer.key} is asked {len(turns)} times "
            "with these data, and has another number of answers there"
        )
    for part, (turn, scoring) in zip(parts, turns, strict=True):
        yield _Item(sample.item_key(turn), sample, turn, scoring, replace(part, labels=scoring.labels))


def _as_sent(items: Sequence[_Item], questions: Mapping[str, str]) -> list[_Item]:
    """Adds the messages that the task's code makes of a question in place of its text, which is what a file has.

    Messages have to be built with their media, so this is done only if some of the first items show that it is needed.
    """
    unchanged = [
        at
        for at, item in enumerate(items)
        if len(item.sample.turns) == 1 and item.answer.prompt.strip() == questions[item.sample.key].strip()
    ]
    sent = list(items)
    others = False
    for count, at in enumerate(unchanged):
        if count >= _LOOKED_AT and not others:
            break
        messages = _texts_sent(items[at].turn)
        text = "".join(part["text"] for message in messages for part in message["parts"])
        if text.strip() != items[at].answer.prompt.strip():
            sent[at], others = items[at]._replace(messages=messages), True
    return sent


def _texts_sent(turn: Turn) -> list[dict[str, Any]]:
    """Returns the messages of a turn without media."""
    return [
        {
            "role": model.Role.Name(message.role),
            "parts": [{"text": part.text} for part in message.parts if not (part.image or part.clip)],
        }
        for message in turn.ask(()).messages
    ]


def _divided(answer: Answer, turns: Sequence[Turn]) -> list[Answer]:
    """Splits the answers to a document, in the order of its turns."""
    pairs = pairs_of(answer.responses) or answer.likelihoods
    if pairs:
        rest = iter(pairs)
        continuations = [turn.ask(()).continuations for turn in turns]
        parts = [
            replace(answer, options=options, likelihoods=tuple(islice(rest, len(options)))) for options in continuations
        ]
        return parts if sum(map(len, continuations)) == len(pairs) and all(continuations) else []
    if answer.responses is None:
        return [answer]
    return [replace(answer, text=text, tokens=0) for text in texts_of(answer.responses)]


def _same(ours: tuple[str, ...], theirs: tuple[str, ...], options: tuple[str, ...]) -> bool:
    """Returns True if two targets are equal; a list may be its text, an option its number, letter or text."""
    if len(ours) == 1 and ours[0].isdecimal() and int(ours[0]) < len(options):
        number = int(ours[0])
        return theirs[0].strip() in (str(number), LETTERS[number : number + 1], options[number].strip())
    return _plain(ours) == _plain(theirs)


def _plain(targets: tuple[str, ...]) -> str:
    """Returns targets without the characters around and between values of a list's text."""
    return ",".join(targets).translate(_NO_LIST)


def _lines(word: str, items: Iterable[_Item]) -> Iterator[dict[str, Any]]:
    for key, sample, turn, scoring, answer, messages in items:
        how = asdict(scoring) | {"targets": list(scoring.targets), "options": list(scoring.options)}
        line = answer_line(key, word, answer, how, sample=sample.key, turn=turn.name)
        if messages:
            line["request"]["messages"] = messages
        yield line
