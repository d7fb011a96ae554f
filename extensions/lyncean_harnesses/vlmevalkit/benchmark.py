"""Tasks `vlmevalkit:NAME` over a local TSV of VLMEvalKit, with the prompts of its image data sets.

Prompts: `ImageMCQDataset` for rows with options, `ImageVQADataset` for open questions, the bare question where the
answer is yes or no. This project's rules read the answers, not VLMEvalKit's matching.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Literal

from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean_harnesses.library.vlmevalkit import PREDICTION, evaluate, unclosed
from lyncean_harnesses.vlmevalkit.saved_images import saved
from orchestrator import ConfigError
from orchestrator.benchmarks import Benchmark, TaskGroup, check_parity, setting, shuffled
from orchestrator.data import DataError, Row, RowSource, Table, open_vlmevalkit, unreadable
from orchestrator.samples import (
    BadRowError,
    Call,
    Part,
    Sample,
    Scoring,
    Variant,
    image_part,
    metric,
    single,
    text_part,
    user,
)

PREFIX = "vlmevalkit:"

RULE = "vlmevalkit"
"""The scorer's rule and metric for its own evaluation."""

LABELS = ("category", "l2-category", "split")
"""Columns by which metrics are sliced, if a table has them."""

CIRCLE = 1_000_000
"""Distance of the indices of a question and its copies with rotated options (MMBench, CCBench)."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SELECT = "Please select the correct answer from the options above. \n"
_SHORT = "\nAnswer the question using a single word or phrase."
_MARKER = re.compile(r"<image (\d+)>")


class Tables:
    """Tasks `vlmevalkit:NAME`: any name, since the user provides the table."""

    name = "vlmevalkit"

    def find(self, name: str, include: Sequence[str]) -> dict[str, Benchmark]:
        """Returns the benchmark of a table.

        Raises:
            ConfigError: The name has characters that VLMEvalKit's names do not have.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(f"task {PREFIX + name!r}: give vlmevalkit:NAME, for example vlmevalkit:MMBench_DEV_EN")
        return {PREFIX + name: TableTask(name).benchmark()}

    def groups(self, name: str, include: Sequence[str]) -> dict[str, TaskGroup]:
        """Returns nothing: tables have no groups."""
        return {}

    def scored_by_code(self, settings: Mapping[str, str]) -> bool:
        """Returns True if VLMEvalKit's own evaluation scores."""
        return settings.get("metrics") == RULE

    def runs_text(self, name: str, include: Sequence[str]) -> str:
        """Returns the location at which VLMEvalKit's code runs text as Python, "" for none."""
        return unclosed()

    def why_absent(self) -> str:
        """Returns "": prompts and tables need no package."""
        return ""


VLMEVALKIT = Tables()


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Settings of `--set`."""

    metrics: Literal["accuracy", "vlmevalkit"] = setting(
        "accuracy", "accuracy by this project's rules, or the numbers of VLMEvalKit's own evaluation, by its package"
    )
    images: Literal["data", "saved"] = setting(
        "data", "send the table's own images, or what VLMEvalKit saves of base64 and shows: mostly JPEG anew"
    )


class TableTask:
    """One of VLMEvalKit's tables.

    As in VLMEvalKit, the name decides: MMBench and CCBench count a question as right if all its copies are right, MMMU
    has its images within the text.
    """

    def __init__(self, name: str) -> None:
        self.task, self.name = PREFIX + name, name
        self.circular = any(kind in name.lower() for kind in ("mmbench", "ccbench"))
        self.placed = "MMMU" in name
        self._numbers: dict[str, int] = {}
        self._rows: list[Mapping[str, str]] = []
        self._names: list[str] = []
        self._coded = False

    def benchmark(self) -> Benchmark:
        """Returns the benchmark."""
        return Benchmark(
            name=self.task,
            tasks={self.task: "A TSV of VLMEvalKit"},
            data="none\na TSV of VLMEvalKit: index, image or image_path, question, answer, options in A, B, ...",
            rows=self.rows,
            samples=self.samples,
            metrics=self.metrics,
            synthetic=self.synthetic,
            settings=TableSettings,
            methods=("generate",),
            needs=self.needs,
            runs_text=lambda variant: unclosed() if _by_vlmevalkit(variant) else "",
        )

    def rows(self, _: str, data: str | None) -> RowSource:
        """Opens the table and checks each row's answer."""
        if data is None or not Path(data).is_file():
            missing = f"no file {data}" if data else "it has no data of its own"
            raise DataError(f"{self.task}: {missing}; give --data FILE.tsv, a table of VLMEvalKit")
        columns: dict[str, type] = dict.fromkeys(("index", "question", "answer"), str)
        source = open_vlmevalkit(Path(data), Table(hub=data, split="", columns=columns, images=()))
        with Path(data).open(encoding="utf-8-sig") as file:
            # Without this column images are files, which VLMEvalKit shows unchanged.
            self._coded = "image" in file.readline().strip().split("\t")
        self._rows, self._numbers = [], {}
        for index, row in enumerate(source):
            self._scoring(row, self._options(row))
            self._numbers[row["index"]] = index
            self._rows.append(_cells(row))
        return source

    def samples(self, row: Row, variant: Variant[TableSettings]) -> Iterator[Sample]:
        """Returns the question of one row, `vlmevalkit:NAME/<index>`."""
        options = self._options(row)
        scoring = self._scoring(row, options)
        if variant.shuffle_options and options:
            options, target = shuffled(options, scoring.targets[0], variant, row["index"])
            scoring = self._scoring(row, options, target)
        read = self._kept(row, scoring) if _by_vlmevalkit(variant) else scoring
        prompt = _prompt(row, options, scoring)

        def ask() -> Call:
            config = model.GenerationConfig(max_output_tokens=256, temperature=0.0)
            return Call((user(*self._parts(prompt, self._shown(row, variant.settings))),), config)

        yield single(variant.key(row["index"]), ask, read)

    def metrics(self, variant: Variant[TableSettings]) -> list[scorer.MetricSpec]:
        """Returns accuracy, sliced by the table's labels; for MMBench and CCBench also circular accuracy.

        With `metrics=vlmevalkit` returns the metrics of VLMEvalKit's evaluation, named by a trial on the right answers.
        """
        if _by_vlmevalkit(variant):
            if not self._names:
                right = [{**row, PREDICTION: row["answer"]} for row in self._rows]
                self._names = list(evaluate(self.name, right).metrics)
            return [metric(name, RULE, params={"dataset": self.name, "metric": name}) for name in self._names]
        by = [[name] for name in LABELS]
        specs = [metric("accuracy", "accuracy", by=by, params={"unit": "percent"})]
        if self.circular:
            specs.append(metric("circular accuracy", "group_all", by=by, params={"unit": "percent"}))
        return specs

    def needs(self, variant: Variant[TableSettings]) -> Sequence[str]:
        """Returns the capabilities a model needs."""
        check_parity(variant, reference=False)
        if variant.shuffle_options and _by_vlmevalkit(variant):
            raise ConfigError(f"{self.task}: VLMEvalKit's evaluation knows the table's options: drop --shuffle-options")
        return ("IMAGE_INPUT",)

    def synthetic(self, _: str, seed: int) -> Iterator[Row]:
        """Refuses: only the user's table has rows."""
        raise ConfigError(f"{self.task} has no synthetic rows: give --data FILE.tsv")

    def _options(self, row: Row) -> list[str]:
        texts = [str(row.fields.get(letter) or "").strip() for letter in ascii_uppercase]
        while texts and not texts[-1]:
            texts.pop()
        if "" in texts or len(texts) == 1:
            where = f"{self.task}, index {row['index']}"
            raise DataError(f"{where}: the options are {texts}; two or more are needed, with no gap")
        return texts

    def _scoring(self, row: Row, options: list[str], target: str = "") -> Scoring:
        index, answer = row["index"], row["answer"].strip()
        labels = {name: row[name] for name in LABELS if row.fields.get(name)}
        group = str(int(index) % CIRCLE) if self.circular and index.isdecimal() else ""
        if not answer:
            raise DataError(f"{self.task}, index {index}: it has no answer; a test split without them cannot be scored")
        if options:
            target = target or answer.strip("().").upper()
            if target not in ascii_uppercase[: len(options)] or len(target) != 1:
                raise DataError(f"{self.task}, index {index}: the answer {answer!r} is none of its options")
            return Scoring("choice", (target,), tuple(options), labels=labels, group=group)
        if answer.lower() in ("yes", "no"):
            return Scoring("two_way", (answer.lower(),), ("yes", "no"), labels=labels, group=group)
        return Scoring("contains_word", (answer,), labels=labels, group=group)

    def _kept(self, row: Row, scoring: Scoring) -> Scoring:
        """Returns scoring that keeps the full answer for VLMEvalKit's evaluation."""
        params = {"rule": scoring.rule, "row": _cells(row), "place": self._numbers[row["index"]]}
        return replace(scoring, rule=RULE, params=params)

    def _shown(self, row: Row, settings: TableSettings) -> list[bytes]:
        """Returns the images of a row as they are sent."""
        images = _images(row)
        return saved(images, row.fields.get("image_path")) if settings.images == "saved" and self._coded else images

    def _parts(self, prompt: str, images: list[bytes]) -> list[Part]:
        """Returns the images and the prompt, in front of it or at the positions that it names."""
        if not self.placed or not _MARKER.search(prompt):
            return [*map(image_part, images), text_part(prompt)]
        parts: list[Part] = []
        for at, piece in enumerate(_MARKER.split(prompt)):
            if at % 2 == 0:
                parts += [text_part(piece)] if piece else []
            elif 1 <= int(piece) <= len(images):
                parts.append(image_part(images[int(piece) - 1]))
            else:
                raise BadRowError("no_image", f"its text names image {piece}, it has {len(images)}")
        return parts


def _by_vlmevalkit(variant: Variant[TableSettings]) -> bool:
    return variant.settings.metrics == RULE


def _cells(row: Row) -> dict[str, str]:
    return {name: str(value) for name, value in row.fields.items() if value is not None}


def _prompt(row: Row, options: list[str], scoring: Scoring) -> str:
    if scoring.rule == "contains_word":
        return f"{row['question']}{_SHORT}"
    if not options:
        return str(row["question"])
    hint = f"Hint: {row['hint']}\n" if row.fields.get("hint") else ""
    listed = "".join(f"{letter}. {option}\n" for letter, option in zip(ascii_uppercase, options, strict=False))
    return f"{hint}Question: {row['question']}\nOptions:\n{listed}{_SELECT}"


def _images(row: Row) -> list[bytes]:
    images: list[bytes] = []
    try:
        while (data := row.image(f"image:{len(images)}")) is not None:
            images.append(data)
    except DataError as error:
        raise unreadable(error) from error
    return images
