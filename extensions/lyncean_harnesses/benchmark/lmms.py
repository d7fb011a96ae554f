"""Tasks of lmms-eval: what it asks of its chat models, of its simple ones, and of those that score continuations."""

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
    """What `--set` takes."""

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
"""What Visual CoT tasks put around the two stages' texts."""


def _tagged(context: str) -> tuple[str, str]:
    """Returns what is to be drawn, and the question that follows, of the context of a Visual CoT task."""
    draw, question = (tag.search(context) for tag in _TAGS)
    if not draw or not question:
        raise NotAskableError("its context does not say what is to be drawn")
    asked = question.group(1).strip()
    return draw.group(1).strip().replace("{question}", asked), asked


def _decoded(clip: Clip) -> dict[str, Any]:
    """Returns audio as datasets decodes it; of a video its path."""
    names = ("path", "array", "sampling_rate") if clip.kind == "audio" else ("path",)
    return {name: clip[name] for name in names}


class _AskedError(Exception):
    """The loop asks what has no answer yet."""

    def __init__(self, context: str, visuals: Sequence[Any]) -> None:
        super().__init__(context)
        self.context, self.visuals = context, visuals


class _Script:
    """Stands for a model of lmms-eval that gives known answers to one document, one after the other."""

    is_simple = True

    def __init__(self, doc: Any, answers: Sequence[str]) -> None:
        self.task_dict = {"": {"": [doc]}}
        self._doc, self._answers = doc, iter(answers)

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Returns the next answer.

        Raises:
            _AskedError: If there is none.
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
        """lmms-eval's name of the model whose prompts are asked."""
        return str(self._settings.model_name)

    def documents(self) -> Any:
        """Returns the documents without images, which is what is scored."""
        return self._task.eval_docs_no_media

    def context(self, doc: Any) -> Any:
        """Returns the text of a document's question with description and examples."""
        return self._task.fewshot_context(doc, self._task.config.num_fewshot)

    def stored(self, number: int) -> Any:
        """Returns a document as the data store it."""
        return self._task.dataset[self.split].with_format("arrow")[number : number + 1].to_pylist()[0]

    def scored_document(self, row: Row) -> Mapping[str, Any]:
        """Returns a row's document, with its media where the run asks for that; audio is decoded."""
        if not self._settings.process_with_media:
            return super().scored_document(row)
        doc = document(self._task.dataset[self.split], row["doc_id"], self.files)
        return {name: _decoded(value) if isinstance(value, Clip) else value for name, value in doc.items()}

    def messages(self, number: int, context: str, settings: LmmsSettings, sources: Sources) -> list[Message]:
        """Returns what the task's `doc_to_messages` says; for a simple model its images, then the context."""
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
        """Returns what a document is asked: once, once more after a drawing, or in as many rounds as its code wants."""
        if self.kind == "generate_visual_cot":
            return [partial(self._with_drawing, row)]
        if self.kind != "generate_until_multi_round":
            return super().rounds(row, settings)
        count = 1
        while not self._round(row, [""] * count)[2]:
            count += 1
            if count > MOST_ROUNDS:
                raise NotAskableError(f"its code asks more than {MOST_ROUNDS} rounds")
        return [partial(self._messages_of_round, row, settings, place) for place in range(count)]

    def _messages_of_round(
        self, row: Row, settings: LmmsSettings, place: int, sources: Sources, answers: Sequence[Answer]
    ) -> list[Message]:
        """Returns a round's question alone, as lmms-eval's models ask it: what was said before is in its text."""
        if not place:
            return self.messages(row["doc_id"], row["context"], settings, sources)
        visuals, context, ends = self._round(row, [answer.text.strip() for answer in answers[:place]])
        if ends:
            raise NotAskableError("the number of its rounds depends on the answers")
        return [Message(model.ROLE_USER, tuple(parts([*shown(visuals, self.files), context], sources)))]

    def _round(self, row: Row, answers: Sequence[str]) -> tuple[Any, str, bool]:
        """Returns what the task's code shows and asks after some answers, and whether it ends there instead."""
        doc = document(self._task.dataset[self.split], row["doc_id"], self.files)
        settings, info, before = self._task.lmms_eval_specific_kwargs, None, list[str]()
        found: tuple[Any, str, bool] = (None, "", False)
        for place, answer in enumerate(answers, 1):
            *asked, before, info = self._task.config.doc_to_text(
                doc,
                lmms_eval_specific_kwargs=settings,
                previous_output=[*before, answer],
                round_idx=place,
                previous_round_info=info,
            )
            found = (asked[0], asked[1], bool(asked[2]))
            before = list(before)
        return found

    def play(self, row: Row) -> Rounds | None:
        """Returns the rounds of an agentic task, by lmms-eval's own loop."""
        if self.kind != "generate_until_agentic":
            return None
        most = int((self._task.config.generation_kwargs or {}).get("max_agentic_steps", 12))
        if not 0 < most <= MOST_ROUNDS:
            raise NotAskableError(f"its code asks {most} rounds; from 1 to {MOST_ROUNDS} are asked")
        return Rounds(partial(self._followed, row), most)

    def _followed(self, row: Row, answers: Sequence[Answer]) -> list[Message] | Answer:
        """Returns what the task's code asks after some answers, or the record of them that it judges."""
        task = self._task
        script = _Script(
            document(task.dataset[self.split], row["doc_id"], self.files), [answer.text.strip() for answer in answers]
        )
        ask = partial(task.config.doc_to_text, lmms_eval_specific_kwargs=task.lmms_eval_specific_kwargs)
        given = row["context"], task.config.generation_kwargs or {}, task.doc_to_visual, ask, 0, "", ""
        try:
            with self._failing(), seeded(f"{self.word} {row['doc_id']}"):
                try:
                    final = LIBRARY.agentic(script, given)
                except _AskedError as asked:
                    if asked.visuals:  # the engine would not hide them where it hides the first ones
                        raise NotAskableError("its code shows images after the first round") from None
                    return [user(text_part(asked.context))]
        except BadRowError as error:  # the row was asked already: it is the answer on which the code fails
            raise NoAnswerError(error.reason, str(error)) from error
        return replace(answers[-1], text=final, reasoning="")

    def drawing(self, row: Row) -> Turn | None:
        """Returns the first stage of Visual CoT: the task's images, and what is to be drawn of them."""
        if self.kind != "generate_visual_cot":
            return None

        ask_first = self._asking(row, self._first_round(row["doc_id"], row["context"]), model.GenerationConfig(), ())

        def ask(answers: Sequence[Answer]) -> Call:
            # Decoding is left to the server: settings for words mean nothing to many makers of images.
            return replace(ask_first(answers), modality=model.MODALITY_IMAGE, stage="generate")

        return Turn(ask, "drawing")

    def needs(self, variant: Variant) -> Sequence[str]:
        """Returns the capabilities a model needs: Visual CoT shows one image more.

        Raises:
            ConfigError: The setting `model_name` is of no model of lmms-eval.
        """
        needs = super().needs(variant)
        own = model_names.variants(self.config)
        if self.model_name and self.model_name not in own and self.model_name not in model_names.models():
            close = difflib.get_close_matches(self.model_name, {*own, *model_names.models()}, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else "give what its option --model takes"
            raise ConfigError(f"--set model_name={self.model_name}: {self.title} has no such model: {hint}")
        more = ("IMAGE_INPUT", "MULTI_IMAGE")[: min(2, 1 + self._images)]
        return tuple(dict.fromkeys([*more, *needs])) if self.kind == "generate_visual_cot" else needs

    def advice(self, variant: Variant, info: model.GetModelInfoResponse) -> Sequence[str]:
        """Returns sentences about the model's own prompts, and about media that the task's code reads to score."""
        found = []
        own = model_names.variants(self.config)
        if self.model_name and self.model_name not in own:
            found.append(f"lmms-eval has no prompts or decoding for {self.model_name} here: its default is used")
        known = {*own, *model_names.models()} if own and not self.model_name else set()
        if (like := model_names.named_by(info.model_name, known)) in own:
            found.append(
                f"lmms-eval asks {like} with prompts or decoding of its own, and {info.model_name} looks like it: "
                f"--set model_name={like} asks so"
            )
        if read := [] if variant.settings.process_with_media else self._media_read():
            found.append(
                f"the scoring code reads {', '.join(read)}, which lmms-eval hands over with --process_with_media "
                "alone: --set process_with_media=true scores so"
            )
        return found

    def _media_read(self) -> list[str]:
        """Returns the columns that the task's scoring function reads and that are kept from it, as they hold media."""
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
