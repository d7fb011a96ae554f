"""Tasks of lmms-eval: what it asks of its chat models, of its simple ones, and of those that score continuations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lyncean.harness.lmms_eval import LIBRARY
from lyncean.harness.requests import LMMS_EVAL_TOKENS, ROLES, decoding, pieces, shown
from lyncean.model.v1 import model_pb2 as model
from orchestrator.benchmarks.base import setting
from orchestrator.benchmarks.harness.task import ForeignTask
from orchestrator.benchmarks.harness.visuals import Sources, document, parts
from orchestrator.data.rows import Row
from orchestrator.samples import Message


@dataclass(frozen=True, slots=True)
class LmmsSettings:
    """What `--set` takes."""

    messages: Literal["chat", "simple"] = setting(
        "chat", "ask as lmms-eval's chat models do, or as its simple ones: images, then the whole context; stop strings"
    )


class LmmsTask(ForeignTask):
    """A task of lmms-eval."""

    harness = LIBRARY
    settings = LmmsSettings

    def documents(self) -> Any:
        """Returns the documents without images, which is what is scored."""
        return self._task.eval_docs_no_media

    def context(self, doc: Any) -> Any:
        """Returns the text of a document's question with description and examples."""
        return self._task.fewshot_context(doc, self._task.config.num_fewshot)

    def stored(self, number: int) -> Any:
        """Returns a document as the data store it."""
        return self._task.dataset[self.split].with_format("arrow")[number : number + 1].to_pylist()[0]

    def messages(self, number: int, context: str, settings: LmmsSettings | None, sources: Sources) -> list[Message]:
        """Returns what the task's `doc_to_messages` says; for a simple model its images, then the context."""
        doc = document(self._task.dataset[self.split], number)
        if settings and settings.messages == "chat" and self.kind == "generate_until":
            turns = self._task.doc_to_messages(doc)
            return [Message(ROLES[turn["role"]], tuple(parts(pieces(turn["content"]), sources))) for turn in turns]
        return [Message(model.ROLE_USER, tuple(parts([*shown(self._task.doc_to_visual(doc)), context], sources)))]

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

    def generation(self, settings: LmmsSettings) -> model.GenerationConfig:
        """Returns the decoding of the task; lmms-eval's chat models do not know its stop strings."""
        kwargs = self._task.config.generation_kwargs or {}
        return decoding(kwargs, tokens=LMMS_EVAL_TOKENS, stops=settings.messages == "simple")
