"""Tasks of lm-evaluation-harness: one user message with the context, images at its placeholders."""

from __future__ import annotations

import itertools
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean_harnesses.benchmark.task import ForeignTask
from lyncean_harnesses.benchmark.visuals import Sources, document, parts
from lyncean_harnesses.library.lm_eval import LIBRARY
from lyncean_harnesses.library.requests import (
    LM_EVAL_TOKENS,
    PLACEHOLDER,
    NotAskableError,
    decoding,
    interleaved,
    shown,
)
from orchestrator.data import Row
from orchestrator.samples import Message

_AUDIO = "<audio>"
"""The placeholder of audio in a context."""


class LmEvalTask(ForeignTask):
    """A task of lm-evaluation-harness."""

    harness = LIBRARY
    scores_images = False
    _docs: Any = None

    def documents(self) -> Any:
        """Returns the documents."""
        if self._docs is None:
            self._docs = self._task.eval_docs
        return self._docs

    def context(self, doc: Any) -> Any:
        """Returns a document's question with description and examples; several texts for multiple inputs."""
        prefix = self._task.doc_to_prefix(doc)
        return self._task.fewshot_context(doc, num_fewshot=self._task.config.num_fewshot, gen_prefix=prefix)

    def stored(self, number: int) -> Any:
        """Returns a document as the data store it."""
        docs = self.documents()
        return docs.with_format("arrow")[number : number + 1].to_pylist()[0] if hasattr(docs, "with_format") else {}

    def messages(self, number: int, context: str, settings: Any, sources: Sources) -> list[Message]:
        """Returns one message; media stand at their placeholders, or in front if the numbers differ."""
        placeholder, read = PLACEHOLDER, self._task.doc_to_image
        if self.config.get("doc_to_audio"):
            if self.config.get("doc_to_image"):
                raise NotAskableError("its questions have images and audio, whose order is not said")
            placeholder, read = _AUDIO, self._task.doc_to_audio
        visuals: list[Any] = []
        if self.config.get("doc_to_image") or self.config.get("doc_to_audio"):
            visuals = list(shown(read(document(self.documents(), number, self.files)), self.files))
        return [Message(model.ROLE_USER, tuple(parts(interleaved(context, visuals, placeholder), sources)))]

    def continuations(self, row: Row) -> list[tuple[str, tuple[str, ...]]]:
        """Returns the contexts of the harness's own requests; neighbours with the same context are grouped."""
        about = (self.name, row["doc_id"], 1)
        requests = self._task.construct_requests(doc=row["doc"], ctx=row["context"], metadata=about)
        pairs = [request.args[:2] for request in (requests if isinstance(requests, list) else [requests])]
        grouped = itertools.groupby(pairs, key=lambda pair: pair[0])
        return [(context, tuple(str(after) for _, after in members)) for context, members in grouped]

    def generation(self, settings: Any) -> model.GenerationConfig:
        """Returns the decoding of the task."""
        return decoding(self._task.config.generation_kwargs or {}, tokens=LM_EVAL_TOKENS, stops=True)
