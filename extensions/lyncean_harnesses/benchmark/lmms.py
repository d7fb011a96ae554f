"""Tasks of lmms-eval: the prompts of its chat models, of its simple models, and of models that score continuations."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from lyncean.model.v1 import model_pb2 as model
from lyncean_harnesses.benchmark.task import ForeignTask, Round
from lyncean_harnesses.benchmark.visuals import Sources, document, parts
from lyncean_harnesses.library import model_names, seeded
from lyncean_harnesses.library.lmms_eval import LIBRARY
from lyncean_harnesses.library.media_read import columns_read
from lyncean_harnesses.library.requests import LMMS_EVAL_TOKENS, ROLES, Clip, NotAskableError, decoding, pieces, shown
from orchestrator import ConfigError
from orchestrator.benchmarks import setting
from orchestrator.data import Row
from orchestrator.samples import (
    Answer,
    BadRowError,
    Call,
    Message,
    NoAnswerError,
    Rounds,
    Turn,
    Variant,
    image_part,
    text_part,
    user,
)


@dataclass(frozen=True, slots=True)
class LmmsSettings:
    """Settings of `--set`."""

    messages: Literal["chat", "simple"] = setting(
        "chat", "ask as lmms-eval's chat models do, or as its simple ones: images, then the whole context; stop strings"
    )
    model_name: str = setting(
        "", "ask with the prompts and decoding that tasks have for a model of lmms-eval (its --model), such as qwen3_vl"
    )
    process_with_media: bool = setting(
        False, "score with the row's images and audio, as lmms-eval does with --process_with_media"
    )


MOST_ROUNDS = 64
"""Rounds of one document."""

_TAGS = [re.compile(rf"\[{tag}\](.*?)\[/{tag}\]", re.DOTALL) for tag in ("GEN_PROMPT", "QUESTION")]
"""Tags around the texts of the two stages of Visual CoT tasks."""


def _tagged(context: str) -> tuple[str, str]:
    """Returns the drawing instruction and the question that follows it, from the context of a Visual CoT task."""
    draw, question = (tag.search(context) for tag in _TAGS)
    if not draw or not question:
        raise NotAskableError("its context does not say what is to be drawn")
    text = question.group(1).strip()
    return draw.group(1).strip().replace("{question}", text), text


def _decoded(clip: Clip) -> dict[str, Any]:
    """Returns audio as datasets decodes it; a video as its path."""
    names = ("path", "array", "sampling_rate") if clip.kind == "audio" else ("path",)
    return {name: clip[name] for name in names}


class _AskedError(Exception):
    """The loop asks a question that has no answer yet."""

    def __init__(self, context: str, visuals: Sequence[Any]) -> None:
        super().__init__(context)
        self.context, self.visuals = context, visuals


class _Script:
    """Stands in for a model of lmms-eval; replays known answers to one document in order."""

    is_simple = True

    def __init__(self, doc: Any, answers: Sequence[str]) -> None:
        self.task_dict = {"": {"": [doc]}}
        self._doc, self._answers = doc, iter(answers)

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Returns the next answer.

        Raises:
            _AskedError: All known answers were returned.
        """
        context, _, visuals, *_ = requests[0].args
        for answer in self._answers:
            return [answer]
        raise _AskedError(context, visuals(self._doc) or ())


class LmmsTask(ForeignTask):
    """A task of lmms-eval."""

    harness = LIBRARY
    settings = LmmsSettings

    @property
    def model_name(self) -> str:
        """lmms-eval's name of the model whose prompts are used."""
        return str(self._settings.model_name)

    def documents(self) -> Any:
        """Returns the documents as they are scored: without images."""
        return self._task.eval_docs_no_media

    def context(self, doc: Any) -> Any:
        """Returns the text of a document's question with description and examples."""
        return self._task.fewshot_context(doc, self._task.config.num_fewshot)

    def stored(self, number: int) -> Any:
        """Returns a document as the data store it."""
        return self._task.dataset[self.split].with_format("arrow")[number : number + 1].to_pylist()[0]

    def scored_document(self, row: Row) -> Mapping[str, Any]:
        """Returns a row's document, with its media if the run asks for them; audio is decoded."""
        if not self._settings.process_with_media:
            return super().scored_document(row)
        doc = document(self._task.dataset[self.split], row["doc_id"], self.files)
        return {name: _decoded(value) if isinstance(value, Clip) else value for name, value in doc.items()}

    def messages(self, number: int, context: str, settings: LmmsSettings, sources: Sources) -> list[Message]:
        """Returns the messages of the task's `doc_to_messages`; for a simple model its images, then the context."""
        doc = document(self._task.dataset[self.split], number, self.files)
        if settings.messages == "chat" and self.kind == "generate_until":
            turns = self._task.doc_to_messages(doc)
            return [
                Message(ROLES[turn["role"]], tuple(parts(pieces(turn["content"], self.files), sources)))
                for turn in turns
            ]
        if self.kind == "generate_visual_cot":
            context = _tagged(context)[0]
        return [
            Message(
                model.ROLE_USER, tuple(parts([*shown(self._task.doc_to_visual(doc), self.files), context], sources))
            )
        ]

    def continuations(self, row: Row) -> list[tuple[str, tuple[str, ...]]]:
        """Returns the context with all options after it; for multiple inputs each option with the target after it."""
        task, context, doc = self._task, row["context"], row["doc"]
        if self.kind == "loglikelihood":
            return [(context, (str(task.doc_to_target(doc)),))]
        choices, delimiter = self.choices(doc), task.config.target_delimiter
        calls = [(context, tuple(f"{delimiter}{choice}" for choice in choices))]
        if task.multiple_input:
            calls = [(choice, (f"{delimiter}{task.doc_to_target(doc)}",)) for choice in choices]
        if "acc_mutual_info" in task._metric_fn_list:
            calls.append(("", choices))
        return calls

    def rounds(self, row: Row, settings: LmmsSettings) -> Sequence[Round]:
        """Returns the rounds of a document: one, one more after a drawing, or as many as its code asks for."""
        if self.kind == "generate_visual_cot":
            return [partial(self._with_drawing, row)]
        if self.kind != "generate_until_multi_round":
            return super().rounds(row, settings)
        count = 1
        while not self._round(row, [""] * count)[2]:
            count += 1
            if count > MOST_ROUNDS:
                raise NotAskableError(f"its code asks more than {MOST_ROUNDS} rounds")
        return [partial(self._messages_of_round, row, settings, index) for index in range(count)]

    def _messages_of_round(
        self, row: Row, settings: LmmsSettings, index: int, sources: Sources, answers: Sequence[Answer]
    ) -> list[Message]:
        """Returns a round's question alone, as lmms-eval's models ask it: its text includes the earlier rounds."""
        if not index:
            return self.messages(row["doc_id"], row["context"], settings, sources)
        visuals, context, ends = self._round(row, [answer.text.strip() for answer in answers[:index]])
        if ends:
            raise NotAskableError("the number of its rounds depends on the answers")
        return [Message(model.ROLE_USER, tuple(parts([*shown(visuals, self.files), context], sources)))]

    def _round(self, row: Row, answers: Sequence[str]) -> tuple[Any, str, bool]:
        """Returns the visuals and the text of the round after some answers, and whether the task's code ends there."""
        doc = document(self._task.dataset[self.split], row["doc_id"], self.files)
        settings, info, before = self._task.lmms_eval_specific_kwargs, None, list[str]()
        step: tuple[Any, str, bool] = (None, "", False)
        for number, answer in enumerate(answers, 1):
            *request, before, info = self._task.config.doc_to_text(
                doc,
                lmms_eval_specific_kwargs=settings,
                previous_output=[*before, answer],
                round_idx=number,
                previous_round_info=info,
            )
            step = (request[0], request[1], bool(request[2]))
            before = list(before)
        return step

    def play(self, row: Row) -> Rounds | None:
        """Returns the rounds of an agentic task, by lmms-eval's own loop."""
        if self.kind != "generate_until_agentic":
            return None
        most = int((self._task.config.generation_kwargs or {}).get("max_agentic_steps", 12))
        if not 0 < most <= MOST_ROUNDS:
            raise NotAskableError(f"its code asks {most} rounds; from 1 to {MOST_ROUNDS} are asked")
        return Rounds(partial(self._followed, row), most)

    def _followed(self, row: Row, answers: Sequence[Answer]) -> list[Message] | Answer:
        """Returns the next question of the task's code after some answers, or the record that it scores."""
        task = self._task
        script = _Script(
            document(task.dataset[self.split], row["doc_id"], self.files), [answer.text.strip() for answer in answers]
        )
        ask = partial(task.config.doc_to_text, lmms_eval_specific_kwargs=task.lmms_eval_specific_kwargs)
        arguments = row["context"], task.config.generation_kwargs or {}, task.doc_to_visual, ask, 0, "", ""
        try:
            with self._failing(), seeded(f"{self.word} {row['doc_id']}"):
                try:
                    final = LIBRARY.agentic(script, arguments)
                except _AskedError as pending:
                    if pending.visuals:  # a run without images hides those of the first round alone
                        raise NotAskableError("its code shows images after the first round") from None
                    return [user(text_part(pending.context))]
        except BadRowError as error:  # the row was asked already, so the code fails on the answer
            raise NoAnswerError(error.reason, str(error)) from error
        return replace(answers[-1], text=final, reasoning="")

    def drawing(self, row: Row) -> Turn | None:
        """Returns the first stage of Visual CoT: the task's images and the drawing instruction."""
        if self.kind != "generate_visual_cot":
            return None

        ask_first = self._asking(row, self._first_round(row["doc_id"], row["context"]), model.GenerationConfig(), ())

        def ask(answers: Sequence[Answer]) -> Call:
            # The server chooses the decoding: many image generators ignore settings made for text.
            return replace(ask_first(answers), modality=model.MODALITY_IMAGE, stage="generate")

        return Turn(ask, "drawing")

    def needs(self, variant: Variant) -> Sequence[str]:
        """Returns the capabilities a model needs; Visual CoT shows one more image.

        Raises:
            ConfigError: The setting `model_name` names no model of lmms-eval.
        """
        needs = super().needs(variant)
        variants = model_names.variants(self.config)
        if self.model_name and self.model_name not in variants and self.model_name not in model_names.models():
            close = difflib.get_close_matches(self.model_name, {*variants, *model_names.models()}, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else "give what its option --model takes"
            raise ConfigError(f"--set model_name={self.model_name}: {self.title} has no such model: {hint}")
        more = ("IMAGE_INPUT", "MULTI_IMAGE")[: min(2, 1 + self._images)]
        return tuple(dict.fromkeys([*more, *needs])) if self.kind == "generate_visual_cot" else needs

    def advice(self, variant: Variant, info: model.GetModelInfoResponse) -> Sequence[str]:
        """Returns sentences about the model's own prompts, and about media that the task's code reads to score."""
        sentences = []
        variants = model_names.variants(self.config)
        if self.model_name and self.model_name not in variants:
            sentences.append(f"lmms-eval has no prompts or decoding for {self.model_name} here: its default is used")
        known = {*variants, *model_names.models()} if variants and not self.model_name else set()
        if (like := model_names.named_by(info.model_name, known)) in variants:
            sentences.append(
                f"lmms-eval asks {like} with prompts or decoding of its own, and {info.model_name} looks like it: "
                f"--set model_name={like} asks so"
            )
        if read := [] if variant.settings.process_with_media else self._media_read():
            sentences.append(
                f"the scoring code reads {', '.join(read)}, which lmms-eval hands over with --process_with_media "
                "alone: --set process_with_media=true scores so"
            )
        return sentences

    def _media_read(self) -> list[str]:
        """Returns the columns that the task's scoring function reads and does not get, since they hold media."""
        process = self.config.get("process_results")
        kept = set(self._task.features) - set(getattr(self.documents(), "features", self._task.features))
        return sorted(kept & columns_read(process)) if kept and callable(process) else []

    def stage_needs(self, _: Variant) -> Mapping[str, Sequence[str]]:
        """Returns the capabilities that drawing needs."""
        needs = ("GENERATE", *("IMAGE_INPUT",)[: self._images], "IMAGE_OUTPUT")
        return {"generate": needs} if self.kind == "generate_visual_cot" else {}

    def _with_drawing(self, row: Row, sources: Sources, answers: Sequence[Answer]) -> list[Message]:
        drawn = next((image for answer in answers for image in answer.images), None)
        if drawn is None:
            raise NoAnswerError("no_image", "the first stage drew nothing")
        doc = document(self._task.dataset[self.split], row["doc_id"], self.files)
        visuals = shown(self._task.doc_to_visual(doc), self.files)
        question = text_part(_tagged(row["context"])[1])
        return [Message(model.ROLE_USER, (*parts(visuals, sources), image_part(drawn.data), question))]

    def generation(self, settings: LmmsSettings) -> model.GenerationConfig:
        """Returns the decoding of the task; lmms-eval's chat models do not know its stop strings."""
        kwargs = self._task.config.generation_kwargs or {}
        return decoding(kwargs, tokens=LMMS_EVAL_TOKENS, stops=settings.messages == "simple")
