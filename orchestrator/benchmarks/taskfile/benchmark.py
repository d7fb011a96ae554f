"""Makes a task file a `Benchmark`, like any other from there on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark, check_parity
from orchestrator.benchmarks.taskfile.options import Answers
from orchestrator.benchmarks.taskfile.reading import TaskFile
from orchestrator.benchmarks.taskfile.template import Piece, fill, parse
from orchestrator.data.images import row_image
from orchestrator.data.opening import check_unique, open_rows
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.data.table import Table
from orchestrator.errors import ConfigError
from orchestrator.samples import (
    Call,
    Message,
    Part,
    Sample,
    Scoring,
    Variant,
    audio_part,
    image_part,
    metric,
    single,
    system,
    text_part,
    user,
    video_part,
)

_NUMBER = "row number"
"""The field that holds a row's number; no column of a table can be taken for it by a template."""

_CHOICE_PROMPT = "{question}\n{options}\nAnswer with the option's letter from the given choices directly."
_LETTER_PROMPT = "{question}\n{options}\nAnswer:"


def load(word: str | Path) -> Benchmark:
    """Returns the benchmark that a task file describes.

    Raises:
        TaskFileError: The file is wrong; the message names it and the line.
    """
    return FileTask(TaskFile.read(Path(word))).benchmark()


class FileTask:
    """One task file, valid by itself; its data is checked in `rows`.

    Raises:
        TaskFileError: Its keys do not fit together.
    """

    def __init__(self, file: TaskFile) -> None:
        self.file = file
        values = file.values
        self.name: str = values.get("task", file.path.stem)
        self.media: dict[str, list[str]] = {}
        for kind in ("image", "video", "audio"):
            for name in file.names(kind):
                self.media.setdefault(name, []).append(kind)
        self.labels = file.names("labels")
        self.answers = Answers.of(file)
        self.generate, self.likelihood = self._prompts()
        self._names = {name for name, _ in self._wanted()}.difference(self.media)
        named = {piece.column for piece in (*self.generate, *self.likelihood)} - {"options"}
        self._shown = {values.get("question", name) if name == "question" else name for name in named}
        by_default = "choice" if self.answers.columns else "yes_no" if self.answers.words else "contains_word"
        self.rule: str = values.get("rule", by_default)

    def benchmark(self) -> Benchmark:
        """Returns the benchmark."""
        values = self.file.values
        return Benchmark(
            name=self.name,
            tasks={self.name: values.get("about", f"From {self.file.path.name}")},
            data=f"{values['data']}\nwhat the task file names, or another table with its columns",
            rows=self.rows,
            samples=self.samples,
            metrics=self.metrics,
            synthetic=self.synthetic,
            methods=("generate", "likelihood") if self.answers.columns or self.answers.words else ("generate",),
            needs=self.needs,
        )

    def rows(self, _: str, data: str | None) -> RowSource:
        """Opens the data that the file names, relative to the file, or another."""
        values = self.file.values
        where = data or self.where()
        table = Table(
            hub=values["data"],
            split=values.get("split", "test"),
            columns={},
            images=list(self.media),
            config=values.get("config"),
        )
        try:
            source = open_rows(where, table)
        except DataError as error:
            raise self.file.error(str(error), "image" if "no column" in str(error) else "data") from error
        first = next(iter(source), None)
        if first is None:
            raise self.file.error(f"{where} has no rows", "data")
        self._check_columns(first, where)

        def numbered() -> Iterator[Row]:
            for number, row in enumerate(source, 1):
                yield Row({**row.fields, _NUMBER: number}, row.load)

        def checked(row: Row) -> str:
            self._check_row(row, where)
            return self._identifier(row)

        # What the file asks decides the samples as much as the rows do.
        digest = hashlib.sha256(f"{source.digest}\n{self.file.sha256}\n".encode()).hexdigest()
        return check_unique(replace(source, digest=digest, iterate=numbered), self.name, checked)

    def where(self) -> str:
        """Returns the data that the file names: a path relative to the file, or a hub id."""
        named = self.file.path.parent / self.file.values["data"]
        return str(named) if named.exists() else str(self.file.values["data"])

    def samples(self, row: Row, variant: Variant) -> Iterator[Sample]:
        """Returns the question of one row, `<task>/<id>`, the row's number where no column is the id."""
        identifier = self._identifier(row)
        answers = self.answers.read(row, f"{self.name}/{identifier}")
        if variant.shuffle_options and answers.options:
            answers = answers.shuffled(variant.rng(identifier, "options"))
        likelihood = variant.method == "likelihood"
        pieces = self.likelihood if likelihood else self.generate
        fields = {**row.fields, "options": answers.listed()}
        if "question" in self.file.values:
            fields["question"] = row[self.file.values["question"]]
        order = fill(pieces, fields, list(self.media))
        scoring = Scoring(
            rule="likelihood" if likelihood else self.rule,
            targets=answers.targets(likelihood),
            options=answers.continuations if likelihood else answers.options,
            params={} if likelihood else self.file.values.get("params", {}),
            labels={name: _text(row[name]) for name in self.labels},
            group=_text(row[self.file.values["group"]]) if "group" in self.file.values else "",
        )
        continuations = answers.continuations if likelihood else ()

        def ask() -> Call:
            media = list(self.media.items())
            parts: list[Part] = []
            for part in order:
                if isinstance(part, str):
                    parts.append(text_part(part))
                else:
                    column, kinds = media[part]
                    parts.extend(self._medium(row, column, kind) for kind in kinds)
            return Call((*self._system(), user(*parts)), self._config(), continuations)

        yield single(variant.key(identifier), ask, scoring)

    def metrics(self, variant: Variant) -> list[scorer.MetricSpec]:
        """Returns the results that the file names; accuracy and the bias of choices where it names none."""
        by = [[name] for name in self.labels]
        named = self.file.values.get("metrics")
        if named is None:
            name = "ANLS" if self.rule == "anls" else "accuracy"
            metrics = [metric(name, "accuracy", by=by, params={"unit": "percent"})]
            if self.answers.columns and (self.rule == "choice" or variant.method == "likelihood"):
                metrics.append(metric("choice bias", "choice_bias"))
            return metrics
        return [
            metric(spec.replace("_", " "), spec, by=by) if isinstance(spec, str) else self._metric(index, spec)
            for index, spec in enumerate(named)
        ]

    def needs(self, variant: Variant) -> Sequence[str]:
        """Returns the capabilities a model needs."""
        check_parity(variant, reference=False)
        kinds = [kind for kinds in self.media.values() for kind in kinds]
        several = ("MULTI_IMAGE",) if kinds.count("image") > 1 else ()
        return (*(f"{kind.upper()}_INPUT" for kind in dict.fromkeys(kinds)), *several)

    def synthetic(self, _: str, seed: int) -> Iterator[Row]:
        """Refuses: what is in a task file is the data."""
        raise ConfigError(f"{self.file.path} describes data that exists: drop --synthetic")

    def _medium(self, row: Row, column: str, kind: str) -> Part:
        data = row_image(row, column, kind)
        if kind == "image":
            return image_part(data)
        if kind == "audio":
            return audio_part(data)
        sampling = self.file.values.get("frames")
        return video_part(data, sampling=model.FrameSampling(**sampling) if sampling else None)

    def _prompts(self) -> tuple[list[Piece], list[Piece]]:
        """Returns the templates of generation and of log-likelihood scoring."""
        values = self.file.values
        options, yes_no = bool(self.answers.columns), self.answers.words
        frames = values.get("frames")
        if frames is not None and ("count" in frames) is ("per_second" in frames):
            raise self.file.error("frames needs either count or per_second", "frames")
        if frames and "count" in frames and "max_count" in frames:
            raise self.file.error("frames.max_count bounds per_second: leave it out beside count", "frames")
        if frames and "video" not in values:
            raise self.file.error("frames says what is seen of a video: name its column under video", "frames")
        if "prompt" not in values and "question" not in values:
            raise self.file.error("give question or prompt", "data")
        scored = values.get("likelihood", {})
        bare = _LETTER_PROMPT if self.answers.letters else "{question}"
        if "likelihood" in values and not (options or yes_no):
            raise self.file.error("likelihood needs options: they are what is scored", "likelihood")
        if "prompt" in values and "question" not in values:
            bare = values["prompt"]
        plain = f"{{question}}\nAnswer {' or '.join(yes_no)}." if yes_no else "{question}"
        generate = self._parse(values.get("prompt", _CHOICE_PROMPT if options else plain), "prompt")
        return generate, self._parse(scored.get("prompt", bare), "likelihood", "prompt")

    def _parse(self, template: str, *keys: str) -> list[Piece]:
        try:
            pieces = parse(template)
        except ValueError as error:
            raise self.file.error(f"{'.'.join(keys)}: {error}", *keys) from error
        if any(piece.column == "options" for piece in pieces) and not self.answers.columns:
            raise self.file.error(f"{'.'.join(keys)} shows {{options}} and options names no columns", *keys)
        return pieces

    def _check_columns(self, row: Row, where: str) -> None:
        present = [*row.fields, *self.media]
        for name, keys in self._wanted():
            if name not in present:
                raise self.file.error(
                    f"{'.'.join(map(str, keys))}: {where} has no column {name!r}; it has {', '.join(present)}", *keys
                )

    def _check_row(self, row: Row, where: str) -> None:
        """Looks at columns and answer before anything is asked: to mend the data makes it another run's."""
        for name in self._names:
            if name not in row.fields:
                raise self.file.error(f"{where}, row {row[_NUMBER]}, has no column {name!r}; every row needs it")
            value = row[name]
            if name in self._shown and (value is None or isinstance(value, list | dict)):
                kind = "null" if value is None else "a list" if isinstance(value, list) else "an object"
                raise self.file.error(
                    f"{where}, row {row[_NUMBER]}: column {name!r} is {kind}, and it is shown to the model: "
                    "give it a text, or take the row out"
                )
        if not self._identifier(row).strip():
            raise self.file.error(
                f"{where}, row {row[_NUMBER]}: column {self.file.values['id']!r} is empty: every row needs an id; "
                "leave id out of the task file, and the row's number is it",
                "id",
            )
        try:
            self.answers.read(row, f"{self.name}/{self._identifier(row)}")
        except DataError as error:
            raise self.file.error(f"{where}, row {row[_NUMBER]}: {error}", "answer") from error

    def _wanted(self) -> list[tuple[str, tuple[str, ...]]]:
        """Returns the columns that the file names, images among them, each with its place in the file."""
        values = self.file.values
        wanted: list[tuple[str, tuple[str, ...]]] = [
            (values[key], (key,)) for key in ("id", "question", "answer", "group") if key in values
        ]
        wanted += [(name, ("options",)) for name in self.answers.columns]
        wanted += [(name, ("labels",)) for name in self.labels]
        shown = {"question"} if "question" in values else set()
        templates: list[tuple[Sequence[Piece], tuple[str, ...]]] = [
            (self.generate, ("prompt",)),
            (self.likelihood, ("likelihood", "prompt")),
        ]
        for pieces, keys in templates:
            names = {piece.column for piece in pieces if piece.column} - {"options"} - shown
            wanted += [(name, keys) for name in sorted(names)]
        return wanted

    def _identifier(self, row: Row) -> str:
        return _text(row[self.file.values.get("id", _NUMBER)])

    def _system(self) -> tuple[Message, ...]:
        text = self.file.values.get("system")
        return (system(text),) if text else ()

    def _config(self) -> model.GenerationConfig:
        short = 16 if self.answers.columns else 256
        return model.GenerationConfig(
            **{"max_output_tokens": short, "temperature": 0.0, **self.file.values.get("decoding", {})}
        )

    def _metric(self, index: int, spec: Mapping[str, Any]) -> scorer.MetricSpec:
        by = spec.get("by", [])
        by = [by] if isinstance(by, str) else by
        where = {name: [one] if isinstance(one, str) else one for name, one in spec.get("where", {}).items()}
        for name in (*by, *where):
            if name not in self.labels:
                raise self.file.error(f"metrics: {name!r} is none of the labels", "metrics", index)
        return metric(
            spec.get("name", spec["metric"].replace("_", " ")),
            spec["metric"],
            where=where,
            by=[[name] for name in by],
            params=spec.get("params"),
        )


def _text(value: Any) -> str:
    return "" if value is None else str(value)
