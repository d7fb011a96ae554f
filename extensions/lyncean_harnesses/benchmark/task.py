"""One task of another harness, with the harness's requests, scored by its code in the scorer."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.plugins import OwnFiles
from lyncean.scorer.v1 import scorer_pb2 as scorer
from lyncean_harnesses.benchmark.data import FORMS, open_splits, uncached, with_images
from lyncean_harnesses.benchmark.visuals import Sources
from lyncean_harnesses.library import HarnessError, seeded
from lyncean_harnesses.library.dice import watched
from lyncean_harnesses.library.library import Library
from lyncean_harnesses.library.requests import NotAskableError, OutsideDataError
from lyncean_harnesses.library.scored import state
from lyncean_harnesses.library.values import encode
from orchestrator import ConfigError
from orchestrator.benchmarks import Benchmark, NoSettings, check_parity
from orchestrator.data import DataError, Row, RowSource
from orchestrator.samples import (
    Answer,
    BadRowError,
    Call,
    Message,
    NoAnswerError,
    Rounds,
    Sample,
    Scoring,
    Turn,
    Variant,
    metric,
)

RULE = METRIC = "harness_task"
"""The scorer's rule and metric for foreign tasks."""

DREW = "drew"
"""The metric's parameter: the step before scoring that draws random numbers."""

_SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")
_KINDS = {
    "generate_until": "generate",
    "generate_until_multi_round": "generate",
    "generate_until_agentic": "generate",
    "generate_visual_cot": "generate",
    "multiple_choice": "likelihood",
    "loglikelihood": "likelihood",
}
"""Kind of task -> inference method."""


Round = Callable[[Sources, Sequence[Answer]], list[Message]]
"""Builds the conversation of one round of a document from the row's images and the answers to earlier rounds."""


class ForeignTask:
    """A task of another harness.

    Args:
        name: The harness's name of it.
        include: Further folders with configurations.

    Attributes:
        harness: The harness's library.
        settings: Settings of `--set`.
        files: Files that it may show.
        seed: Seed of the examples in prompts.
        scores_images: Whether documents are scored with the images that `documents` leaves in them.
    """

    harness: Library
    settings: type = NoSettings
    seed = 1234
    scores_images = True

    def __init__(self, name: str, include: tuple[str, ...]) -> None:
        self.name = name
        self.title = f"{self.harness.title} {self.harness.version()}"
        self.word = f"{self.harness.prefix}:{name}"
        self.include = include
        self.config = self.harness.config(name, include)
        self.kind = self.config.get("output_type", "generate_until")
        if "class" in self.config:
            raise HarnessError(f"task {self.word} is a class of its own, which is not supported")
        if self.kind not in _KINDS:
            raise HarnessError(f"task {self.word} is of the kind {self.kind}, which is not supported")
        self.files = OwnFiles((self.harness.folder(), *include))
        self._task: Any = None
        self._settings: Any = self.settings()
        self._state = self._drew = ""
        self._images = 0
        self._clips: tuple[str, ...] = ()

    def benchmark(self) -> Benchmark:
        """Returns the benchmark."""
        return Benchmark(
            name=self.word,
            tasks={self.word: f"{self.name} of {self.title}, {self.kind}"},
            data=f"{self.config.get('dataset_path', '')}\n{FORMS}",
            rows=self.rows,
            samples=self.samples,
            metrics=self.metrics,
            synthetic=self.synthetic,
            settings=self.settings,
            methods=(_KINDS[self.kind],),
            needs=self.needs,
            advice=self.advice,
            stage_needs=self.stage_needs,
            runs_text=lambda _: self.harness.unclosed(self.name, self.include),
        )

    def rows(self, _: str, data: str | None) -> RowSource:
        """Opens `data`, or the harness's own source if None, and applies the task's `process_docs`."""
        splits = [split for split in (self.config.get(key) for key in _SPLITS) if split]
        splits += [split for split in [(self.config.get("fewshot_config") or {}).get("split")] if split]
        source = str(self.config.get("dataset_path"))
        digest, opened = "", None
        if data is not None:
            opened, source, digest = open_splits(data, splits, self.config.get("dataset_name"))
            self.files = OwnFiles((self.harness.folder(), *self.include, data))
        with uncached(data):
            try:
                docs, how = self._open(opened)
            except (DataError, HarnessError):
                # Some tasks' code opens the bytes of {bytes, path} itself, so images are tried second.
                if opened is None or (images := with_images(opened)) is None:
                    raise
                docs, how = self._open(images)
        identity = f"{digest or docs._fingerprint}\n{self.harness.code(self.name, self.include)}"
        origin = f"{source} ({self.split}) by {self.title}{how}"
        return RowSource(origin, hashlib.sha256(identity.encode()).hexdigest(), len(docs), self._rows)

    def _open(self, splits: Any | None) -> tuple[Any, str]:
        """Loads the task with some splits; returns its documents and how their images are sent."""
        with seeded(self.harness.seeds):
            self._task = self.harness.load(self.name, self.include, splits, self.model_name)
            docs = self.documents()
        self._drew = "data" if self._task.drew else ""
        self._state = json.dumps(state(self._task))
        return docs, self._look() if len(docs) else ""

    @property
    def model_name(self) -> str:
        """The harness's name of the model whose prompts are used; "" for an unknown model."""
        return ""

    @property
    def split(self) -> str:
        """The split that is evaluated."""
        config = self._task.config
        return str(config.test_split if self._task.has_test_docs() else config.validation_split)

    def documents(self) -> Any:
        """Returns the documents as they are scored."""
        raise NotImplementedError

    def context(self, doc: Any) -> Any:
        """Returns the text of a document's question, or several, with description and examples."""
        raise NotImplementedError

    def messages(self, number: int, context: str, settings: Any, sources: Sources) -> list[Message]:
        """Returns the conversation that asks a document's question."""
        raise NotImplementedError

    def continuations(self, row: Row) -> list[tuple[str, tuple[str, ...]]]:
        """Returns the contexts of a document, each with the continuations to be scored after it."""
        raise NotImplementedError

    def generation(self, settings: Any) -> model.GenerationConfig:
        """Returns the decoding of the task."""
        raise NotImplementedError

    def stored(self, number: int) -> Any:
        """Returns a document as it is stored."""
        raise NotImplementedError

    def scored_document(self, row: Row) -> Mapping[str, Any]:
        """Returns a row's document as the task's code gets it to score."""
        doc: Mapping[str, Any] = row["doc"]
        return doc

    def choices(self, doc: Any) -> tuple[str, ...]:
        """Returns the options of a document, for people."""
        return tuple(map(str, self._task.doc_to_choice(doc))) if self.kind == "multiple_choice" else ()

    def _rows(self) -> Iterator[Row]:
        """Yields the documents with their contexts, which depend on earlier documents if examples are drawn."""
        task, docs = self._task, self.documents()
        task.set_fewshot_seed(self.seed)
        for number in range(len(docs)):
            with seeded(f"{self.word} {number}"), watched() as drew:
                doc = docs[number]
                context = self.context(doc)
                self._drew = self._drew or "questions" * drew()
            yield Row({"doc_id": number, "doc": doc, "context": context}, lambda _: None)

    def _look(self) -> str:
        """Builds the first request, so that a task that cannot be asked fails now; returns how its images are sent."""
        sources = Sources(self.stored(0), self.files)
        try:
            row = next(self._rows())
            context = row["context"]
            first = context if isinstance(context, str) else context[0]
            messages = self.messages(0, first, self.settings(), sources)
        except NotAskableError as error:
            raise HarnessError(f"task {self.word} cannot be asked: {error}") from error
        except (Exception, SystemExit) as error:
            raise DataError(
                f"task {self.word}: its code fails on the first row ({_raised(error)}): is that data of this task?"
            ) from error
        shown = [part for message in messages for part in message.parts]
        self._images = sum(part.image is not None for part in shown)
        self._clips = tuple(dict.fromkeys(f"{part.clip.kind.upper()}_INPUT" for part in shown if part.clip))
        files = self._images + sum(part.clip is not None for part in shown)
        if not files:
            return ""
        if sources.encoded:
            return f", {sources.encoded} of {files} images and clips of the first row encoded anew"
        return ", images and clips as in the data" if self._clips else ", images as in the data"

    def needs(self, variant: Variant) -> Sequence[str]:
        """Returns the capabilities a model needs, by the first row; called before `rows`, which needs the settings."""
        self._settings = variant.settings
        check_parity(variant, reference=False)
        if variant.shuffle_options:
            raise ConfigError(f"{self.word} makes its own options: drop --shuffle-options")
        return (*("IMAGE_INPUT", "MULTI_IMAGE")[: min(2, self._images)], *self._clips)

    def advice(self, variant: Variant, info: model.GetModelInfoResponse) -> Sequence[str]:
        """Returns advice on settings that the task or the model calls for."""
        return ()

    def stage_needs(self, _: Variant) -> Mapping[str, Sequence[str]]:
        """Returns the capabilities that further stages need."""
        return {}

    def synthetic(self, _: str, seed: int) -> Iterator[Row]:
        """Refuses: rows of an arbitrary schema cannot be generated."""
        raise ConfigError(f"{self.word} has no synthetic rows: drop --synthetic, and give --data")

    def samples(self, row: Row, variant: Variant) -> Iterator[Sample]:
        """Returns the sample of one document, `<prefix>:<task>/<its number>`."""
        likelihood = variant.method == "likelihood"
        turns = self._likelihood(row) if likelihood else self._generate(row, variant.settings)
        yield Sample(variant.key(row["doc_id"]), tuple(turns))

    def rounds(self, row: Row, settings: Any) -> Sequence[Round]:
        """Returns the rounds of a document in order; usually one, its context."""
        number, context = row["doc_id"], row["context"]
        return [lambda sources, _: self.messages(number, context, settings, sources)]

    def drawing(self, row: Row) -> Turn | None:
        """Returns the turn in which the model draws the image that the rounds show; None without one."""
        return None

    def play(self, row: Row) -> Rounds | None:
        """Returns rounds whose number depends on the answers; None without such rounds."""
        return None

    def _generate(self, row: Row, settings: Any) -> Iterator[Turn]:
        repeats = self._task.config.repeats or 1
        config = self.generation(settings)
        if drawing := self.drawing(row):
            yield drawing
        try:
            with self._failing(), seeded(f"{self.word} {row['doc_id']}"):
                rounds, play = self.rounds(row, settings), self.play(row)
        except BadRowError as error:
            rounds, play = [_rejected(error)], None
        for repeat in range(repeats):
            for index, build in enumerate(rounds):
                name = f"repeat{repeat + 1}" * (repeats > 1) + f"round{index + 1}" * (len(rounds) > 1)
                several = self.kind == "generate_until_multi_round"
                numbers = {"round": index, "rounds": len(rounds)} if several else {}
                scoring = self._scoring(row, (), request=0, repeat=repeat, requests=1, repeats=repeats, **numbers)
                before = 0 if drawing else repeat * len(rounds)
                ask = self._asking(row, build, config, (), before)
                yield Turn(ask, name or "answer" * bool(drawing), scoring, play=play)

    def _likelihood(self, row: Row) -> Iterator[Turn]:
        """Yields a turn for each context: usually one, whose continuations are all options."""
        calls = self.continuations(row)
        options = self.choices(row["doc"])
        for index, (context, continuations) in enumerate(calls):
            ask = self._asking(row, self._first_round(row["doc_id"], context), model.GenerationConfig(), continuations)
            shown = options if len(options) == len(continuations) else ()
            scoring = self._scoring(row, shown, request=index, repeat=0, requests=len(calls), repeats=1)
            yield Turn(ask, f"context{index + 1}" if len(calls) > 1 else "", scoring)

    def _first_round(self, number: int, context: str) -> Round:
        return lambda sources, _: self.messages(number, context, self.settings(), sources)

    def _asking(
        self,
        row: Row,
        build: Round,
        config: model.GenerationConfig,
        continuations: tuple[str, ...],
        before: int = 0,
    ) -> Callable[[Sequence[Answer]], Call]:
        """Returns a function that builds a call; the first `before` turns of the sample belong to other rounds."""
        number = row["doc_id"]

        def ask(answers: Sequence[Answer]) -> Call:
            with self._failing(), seeded(f"{self.word} {number}"):
                messages = build(Sources(self.stored(number), self.files), answers[before:])
            return Call(tuple(messages), config, continuations)

        return ask

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Rejects a row on which the task's code fails."""
        try:
            yield
        except (BadRowError, NoAnswerError):
            raise
        except NotAskableError as error:
            outside = isinstance(error, OutsideDataError)
            raise BadRowError("outside_data" if outside else "not_askable", str(error)) from error
        except (Exception, SystemExit) as error:
            raise BadRowError("task_failed", f"the task's code: {_raised(error)}") from error

    def _about(self) -> dict[str, Any]:
        return {"task": self.word, "learned": self._state}

    def _scoring(self, row: Row, options: tuple[str, ...], **position: int) -> Scoring:
        """Returns how an answer is judged; `position` has the parameters that tell a document's answers apart."""
        scored = self.scored_document(row)
        doc = encode(_kept(scored, images=self.scores_images))
        params = {**self._about(), "doc": doc, "index": row["doc_id"]}
        return Scoring(RULE, self._targets(scored), options, params | position)

    def _targets(self, doc: Any) -> tuple[str, ...]:
        """Returns the correct answers for people; the task's code alone decides correctness."""
        try:
            target = self._task.doc_to_target(doc)
        except Exception:
            return ()
        targets = target if isinstance(target, (list, tuple)) else [target]
        return tuple(str(value) for value in targets if isinstance(value, (str, int, float)))

    def metrics(self, _: Variant) -> list[scorer.MetricSpec]:
        """Returns the harness's metrics of the task, one for each filter, in its order."""
        names = list(self._task.aggregation())
        filters = [ensemble.name for ensemble in self._task._filters]
        return [
            metric(
                name if key == "none" else f"{name},{key}",
                METRIC,
                params={**self._about(), "metric": name, "filter": key, **({DREW: self._drew} if self._drew else {})},
            )
            for key in dict.fromkeys(filters)
            for name in names
        ]


def _rejected(error: BadRowError) -> Round:
    def fail(*_: Any) -> list[Message]:
        raise error

    return fail


def _raised(error: BaseException) -> str:
    """Returns an error of foreign code in one line; some code ends the process if a file is missing."""
    return str(error) if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"


def _kept(doc: Mapping[str, Any], *, images: bool) -> dict[str, Any]:
    """Returns the fields of a document that can be sent; decoders of video or sound cannot."""
    kept = {}
    for name, value in doc.items():
        first = value[0] if isinstance(value, list) and value else value
        if hasattr(first, "convert") and not images:
            continue
        try:
            encode(value)
        except (TypeError, OSError):  # OSError: PNG does not support the image's mode
            continue
        kept[name] = value
    return kept
