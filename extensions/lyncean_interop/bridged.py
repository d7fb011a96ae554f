"""Answers of another harness to a task that is bridged, so that the task's own code scores them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lyncean.errors import UserError
from lyncean.model.v1 import model_pb2 as model
from lyncean_interop.answers import Answer, ToolAnswers, answer_line, write_run
from orchestrator.benchmarks import find_tasks
from orchestrator.data import DataError
from orchestrator.run import scorer_arguments
from orchestrator.samples import Sample, Scoring, Variant


@dataclass(frozen=True, slots=True)
class Bridged:
    """Scoring by a task's own code.

    Attributes:
        prefix: Ours of the harness's tasks: `lmms`, `lm-eval`, `vlmevalkit`.
        data: The data that were asked, as `--data` of `eval` takes them.
        include: Folders with further tasks.
        trusted: Whether the task's code may run answers as code.
    """

    prefix: str
    data: str
    include: tuple[str, ...] = ()
    trusted: bool = False

    def arguments(self, task: str) -> list[str]:
        """Returns the arguments of the scorer that runs a task's code."""
        folders = [f"--include-path={Path(folder).absolute()}" for folder in self.include]
        return scorer_arguments(
            [f"--task={self.prefix}:{task}", *folders, *(["--trust-task-code"] if self.trusted else [])]
        )

    def take(self, imported: ToolAnswers, path: Path, run: Path) -> dict[str, tuple[float, str]]:
        """Writes a run folder, not scored yet, with the items of a run of ours.

        Args:
            imported: The answers; their keys are the harness's names of documents.
            path: The file that they are from.
            run: Target folder.

        Returns:
            The tool's own score and what it read, by the item's key.

        Raises:
            DataError: The task is not bridged, its code may not run, or the answers are not to these data.
            RunLogError: The folder holds a run, or cannot be made.
        """
        word = f"{self.prefix}:{imported.task}"
        try:
            benchmark = find_tasks([word], [str(Path(folder).absolute()) for folder in self.include])[word]
        except (UserError, KeyError) as error:
            raise DataError(
                f"{imported.task} cannot be scored by its own code: {error}; or leave --data out"
            ) from error
        variant = Variant(word, settings=benchmark.settings(), method=benchmark.methods[0])
        if (place := benchmark.runs_text(variant)) and not self.trusted:
            raise DataError(
                f"task {word}: its code runs text as Python ({place}): give --trust-task-code to allow that"
            )
        benchmark.needs(variant)
        rows = benchmark.rows(word, self.data)
        samples = {sample.key.partition("/")[2]: sample for row in rows for sample in benchmark.samples(row, variant)}
        items = {answer.key: _item(answer, samples, path, self.data) for answer in imported.answers}
        write_run(
            run,
            path,
            tool=imported.tool,
            task=word,
            info=model.GetModelInfoResponse(model_name=imported.model, server_version=imported.tool),
            method=variant.method,
            lines=_lines(word, imported, items),
            count=len(imported.answers),
            metrics=list(benchmark.metrics(variant)),
            created=imported.created,
        )
        return {
            items[answer.key][0]: (answer.score, answer.extracted)
            for answer in imported.answers
            if answer.score is not None
        }


def _item(answer: Answer, samples: Mapping[str, Sample], path: Path, data: str) -> tuple[str, Sample, Scoring]:
    """Returns the item that an answer is of: its key, its sample, and how it is scored.

    Raises:
        DataError: There is none, its target is another one, or it has several answers.
    """
    sample = samples.get(answer.key)
    if sample is None:
        raise DataError(f"--data {data} has no document {answer.key}, which {path.name} answers")
    turn, scoring = sample.turns[0], sample.turns[0].scoring
    if len(sample.turns) > 1 or scoring is None:
        raise DataError(
            f"{path.name}: a document is asked {len(sample.turns)} times, which is not imported: leave --data out"
        )
    if scoring.targets and answer.targets and not _same(scoring.targets, answer.targets):
        raise DataError(
            f"--data {data} is not what {path.name} was asked from: the right answer to document {answer.key} is "
            f"{answer.targets[0][:60]!r} there, and {scoring.targets[0][:60]!r} in these data"
        )
    return sample.item_key(turn), sample, scoring


def _same(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    """Returns whether two targets are one; lmms-eval writes a list as its text."""
    return [each.strip() for each in ours] == [each.strip() for each in theirs] or theirs[0] == str(list(ours))


def _lines(
    word: str, imported: ToolAnswers, items: Mapping[str, tuple[str, Sample, Scoring]]
) -> Iterator[dict[str, Any]]:
    for answer in imported.answers:
        key, sample, scoring = items[answer.key]
        how = asdict(scoring) | {"targets": list(scoring.targets), "options": list(scoring.options)}
        labelled = replace(answer, labels=scoring.labels)
        yield answer_line(key, word, labelled, how, sample=sample.key, turn="")
