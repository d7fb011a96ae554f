"""One task of lmms-eval, asked as lmms-eval asks and scored by its code in the scorer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lyncean.harness import HarnessError, lmms_eval, seeded
from lyncean.harness.values import encode
from lyncean.model.v1 import model_pb2 as model
from lyncean.scorer.v1 import scorer_pb2 as scorer
from orchestrator.benchmarks.base import Benchmark, check_parity, setting
from orchestrator.benchmarks.harness.data import FORMS, open_splits
from orchestrator.benchmarks.harness.visuals import NotAskableError, Sources, parts
from orchestrator.data.rows import DataError, Row, RowSource
from orchestrator.errors import ConfigError
from orchestrator.metric import metric
from orchestrator.samples import Answer, BadRowError, Call, Message, Part, Sample, Scoring, Turn, Variant, text_part

RULE = METRIC = "harness_task"
"""The scorer's rule and metric for foreign tasks."""

DEFAULT_TOKENS = 1024
"""Limit of an answer where the task sets none: that of lmms-eval's clients of endpoints."""

_SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")
_ROLES = {"system": model.ROLE_SYSTEM, "user": model.ROLE_USER, "assistant": model.ROLE_ASSISTANT}
_KINDS = {"generate_until": "generate", "multiple_choice": "likelihood", "loglikelihood": "likelihood"}
"""Kind of task -> the method that asks it."""


@dataclass(frozen=True, slots=True)
class LmmsSettings:
    """What `--set` takes."""

    messages: Literal["chat", "simple"] = setting(
        "chat", "ask as lmms-eval's chat models do, or as its simple ones: images, then the whole context; stop strings"
    )


class LmmsTask:
    """A task of lmms-eval.

    Args:
        name: lmms-eval's name of it.
        include: Further folders with configurations.
    """

    def __init__(self, name: str, include: tuple[str, ...]) -> None:
        self.name = name
        self.word = f"lmms:{name}"
        self.include = include
        self.config = lmms_eval.config(name, include)
        self.kind = self.config.get("output_type", "generate_until")
        if "class" in self.config:
            raise HarnessError(f"task {self.word} is a class of its own, which is not supported")
        if self.kind not in _KINDS:
            raise HarnessError(f"task {self.word} is of the kind {self.kind}, which is not supported")
        self._task: Any = None
        self._state = ""
        self._images = 0

    def benchmark(self) -> Benchmark:
        """Returns the benchmark."""
        path = self.config.get("dataset_path", "")
        return Benchmark(
            name=self.word,
            tasks={self.word: f"{self.name} of lmms-eval {lmms_eval.version()}, {self.kind}"},
            data=f"{path}\n{FORMS}",
            rows=self.rows,
            samples=self.samples,
            metrics=self.metrics,
            synthetic=self.synthetic,
            settings=LmmsSettings,
            methods=(_KINDS[self.kind],),
            needs=self.needs,
        )

    def rows(self, _: str, data: str | None) -> RowSource:
        """Opens the data, lmms-eval's own source without `data`, and applies the task's `process_docs`."""
        splits = [split for key in _SPLITS if (split := self.config.get(key))]
        source = str(self.config.get("dataset_path"))
        digest = ""
        given = None
        if data is not None:
            given, source, digest = open_splits(data, splits, self.config.get("dataset_name"))
        with seeded(lmms_eval.SEEDS):
            self._task = lmms_eval.load(self.name, self.include, given)
        self._state = json.dumps(lmms_eval.state(self._task))
        count = len(self._task.eval_docs_no_media)
        how = self._look() if count else ""
        digest = digest or str(self._task.eval_docs._fingerprint)
        words = f"{digest}\n{lmms_eval.code(self.name, self.include)}"
        origin = f"{source} ({self._split}) by lmms-eval {lmms_eval.version()}{how}"
        return RowSource(origin, hashlib.sha256(words.encode()).hexdigest(), count, self._rows)

    @property
    def _split(self) -> str:
        config = self._task.config
        return str(config.test_split if self._task.has_test_docs() else config.validation_split)

    def _rows(self) -> Iterator[Row]:
        """Yields the documents with their contexts, which depend on those before them where examples are drawn."""
        task = self._task
        task.set_fewshot_seed(1234)
        for number in range(len(task.eval_docs_no_media)):
            with seeded(f"{self.word} {number}"):
                doc = task.eval_docs_no_media[number]
                context = task.fewshot_context(doc, task.config.num_fewshot)
            yield Row({"doc_id": number, "doc": doc, "context": context}, lambda _: None)

    def _look(self) -> str:
        """Builds the first request, so that what cannot be asked is found now; says how its images are sent."""
        sources = self._sources(0)
        row = next(self._rows())
        try:
            messages = self._messages(0, row["context"], LmmsSettings(), sources)
        except NotAskableError as error:
            raise HarnessError(f"task {self.word} cannot be asked: {error}") from error
        except Exception as error:
            raise DataError(
                f"task {self.word}: its code fails on the first row ({type(error).__name__}: {error}): "
                "is that data of this task?"
            ) from error
        self._images = sum(part.image is not None for message in messages for part in message.parts)
        if not self._images:
            return ""
        return (
            f", {sources.encoded} of {self._images} images of the first row encoded anew"
            if sources.encoded
            else (", images as in the data")
        )

    def needs(self, variant: Variant) -> Sequence[str]:
        """Returns the capabilities a model needs, by the first row."""
        check_parity(variant, reference=False)
        if variant.shuffle_options:
            raise ConfigError(f"{self.word} makes its own options: drop --shuffle-options")
        return ("IMAGE_INPUT", "MULTI_IMAGE")[: min(2, self._images)]

    def synthetic(self, _: str, seed: int) -> Iterator[Row]:
        """Refuses: there is no way to draw rows of any schema."""
        raise ConfigError(f"{self.word} has no synthetic rows: drop --synthetic, and give --data")

    # Asking -----------------------------------------------------------------------------------------------------------

    def samples(self, row: Row, variant: Variant) -> Iterator[Sample]:
        """Returns the sample of one document, `lmms:<task>/<its number>`."""
        number = row["doc_id"]
        turns = self._likelihood(row) if variant.method == "likelihood" else self._generate(row, variant)
        yield Sample(variant.key(number), tuple(turns))

    def _generate(self, row: Row, variant: Variant) -> Iterator[Turn]:
        settings = variant.settings or LmmsSettings()
        config = decoding(self._task.config.generation_kwargs or {}, stops=settings.messages == "simple")
        repeats = self._task.config.repeats or 1

        def ask(_: Sequence[Answer]) -> Call:
            number = row["doc_id"]
            return Call(tuple(self._asked(number, row["context"], settings, self._sources(number))), config)

        for repeat in range(repeats):
            yield Turn(ask, f"repeat{repeat + 1}" if repeats > 1 else "", self._scoring(row, 0, repeat, 1, repeats))

    def _likelihood(self, row: Row) -> Iterator[Turn]:
        """Yields a turn for each context: usually one, whose continuations are all options."""
        number, context, doc = row["doc_id"], row["context"], row["doc"]
        task = self._task
        choices: tuple[str, ...] = ()
        calls: list[tuple[str, tuple[str, ...]]]
        if self.kind == "loglikelihood":
            calls = [(context, (str(task.doc_to_target(doc)),))]
        else:
            choices = tuple(map(str, task.doc_to_choice(doc)))
            delimiter = task.config.target_delimiter
            if task.multiple_input:
                calls = [(choice, (f"{delimiter}{task.doc_to_target(doc)}",)) for choice in choices]
            else:
                calls = [(context, tuple(f"{delimiter}{choice}" for choice in choices))]
            if "acc_mutual_info" in task._metric_fn_list:
                calls.append(("", choices))
        for place, (text, continuations) in enumerate(calls):

            def ask(_: Sequence[Answer], text: str = text, continuations: tuple[str, ...] = continuations) -> Call:
                messages = self._asked(number, text, LmmsSettings(messages="simple"), self._sources(number))
                return Call(tuple(messages), continuations=continuations)

            scoring = self._scoring(row, place, 0, len(calls), 1, choices)
            yield Turn(ask, f"context{place + 1}" if len(calls) > 1 else "", scoring)

    def _asked(self, number: int, context: str, settings: LmmsSettings, sources: Sources) -> list[Message]:
        try:
            with seeded(f"{self.word} {number}"):
                return self._messages(number, context, settings, sources)
        except NotAskableError as error:
            raise BadRowError("not_askable", str(error)) from error
        except Exception as error:
            raise BadRowError("task_failed", f"the task's code: {type(error).__name__}: {error}") from error

    def _messages(self, number: int, context: str, settings: LmmsSettings, sources: Sources) -> list[Message]:
        doc = self._task.dataset[self._split][number]
        if settings.messages == "chat" and self.kind == "generate_until":
            return [_message(each, sources) for each in self._task.doc_to_messages(doc)]
        shown = list(parts(self._task.doc_to_visual(doc), sources))
        return [Message(model.ROLE_USER, (*shown, text_part(context)))]

    def _sources(self, number: int) -> Sources:
        stored = self._task.dataset[self._split].with_format("arrow")[number : number + 1]
        return Sources(stored.to_pylist()[0])

    # Scoring ----------------------------------------------------------------------------------------------------------

    def _about(self) -> dict[str, Any]:
        return {"task": self.word, "include": list(self.include), "learned": self._state}

    def _scoring(
        self, row: Row, request: int, repeat: int, requests: int, repeats: int, choices: tuple[str, ...] = ()
    ) -> Scoring:
        doc = row["doc"]
        params = {
            **self._about(),
            "doc": encode(_without_media(doc)),
            "index": row["doc_id"],
            "request": request,
            "repeat": repeat,
            "requests": requests,
            "repeats": repeats,
        }
        return Scoring(RULE, self._targets(doc), choices, params)

    def _targets(self, doc: Any) -> tuple[str, ...]:
        """Returns the correct answers for people; the task's code alone decides what is right."""
        try:
            target = self._task.doc_to_target(doc)
        except Exception:
            return ()
        targets = target if isinstance(target, (list, tuple)) else [target]
        return tuple(str(each) for each in targets if isinstance(each, (str, int, float)))

    def metrics(self, _: Variant) -> list[scorer.MetricSpec]:
        """Returns lmms-eval's metrics of the task, one for each filter, in its order."""
        names = list(self._task.aggregation())
        filters = [ensemble.name for ensemble in self._task._filters]
        return [
            metric(
                name if key == "none" else f"{name},{key}",
                METRIC,
                params={**self._about(), "metric": name, "filter": key},
            )
            for key in dict.fromkeys(filters)
            for name in names
        ]


def decoding(settings: Mapping[str, Any], *, stops: bool) -> model.GenerationConfig:
    """Returns the decoding that `generation_kwargs` of a task ask for.

    Args:
        settings: Its `generation_kwargs`.
        stops: Whether its stop strings count; lmms-eval's chat models do not know them.
    """
    config = model.GenerationConfig(
        max_output_tokens=int(settings.get("max_new_tokens") or settings.get("max_gen_toks") or DEFAULT_TOKENS)
    )
    temperature = float(settings.get("temperature") or 0)
    if temperature > 0 and settings.get("do_sample") is not False:
        config.temperature = temperature
        if settings.get("top_p"):
            config.top_p = float(settings["top_p"])
        if settings.get("top_k"):
            config.top_k = int(settings["top_k"])
    if stops:
        until = settings.get("until") or []
        config.stop.extend(word for word in ([until] if isinstance(until, str) else until) if word)
    return config


def _message(message: Mapping[str, Any], sources: Sources) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return Message(_ROLES[message["role"]], (text_part(content),))
    found: list[Part] = []
    for each in content:
        if each["type"] == "text":
            found.append(text_part(each["text"]))
        elif each["type"] == "image":
            found.extend(parts(each.get("url", each.get("image")), sources))
        else:
            raise NotAskableError(f"its questions have {each['type']}, and requests hold text and images")
    return Message(_ROLES[message["role"]], tuple(found))


def _without_media(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a document's fields that can be sent; a decoder of video or sound is none."""
    kept = {}
    for name, value in doc.items():
        try:
            encode(value)
        except TypeError:
            continue
        kept[name] = value
    return kept
