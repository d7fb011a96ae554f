"""A loaded checkpoint with its prompter, tools and verdicts of the self-check, and its description."""

from __future__ import annotations

import functools
import importlib.metadata
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from google.protobuf.json_format import MessageToJson

from lyncean.media.types import Kind
from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest
from model_server.backend import describe, seconds
from model_server.decoding import THINKING_SWITCHES, struct_json
from model_server.hf import checkpoint as checkpoints, memory, selfcheck
from model_server.hf.batch import Replace
from model_server.hf.constraint import Formats
from model_server.hf.draw import drawer_of
from model_server.hf.files import text_hash
from model_server.hf.identity import processor_hash
from model_server.hf.inputs import Prompt
from model_server.hf.prompt import Prompter
from model_server.hf.reasoning import mark_ids, marks_of
from model_server.hf.settings import Settings
from model_server.hf.tools import ToolForm
from model_server.hf.vision import VisionCache
from model_server.metrics import Metrics

log = logging.getLogger(__name__)


class Loaded:
    """Loads a checkpoint and checks the methods by which it may run.

    Args:
        settings: Settings to load and run it.
        metrics: The server's counters.

    Attributes:
        checkpoint: The model.
        prompter: Builds prompts.
        drawer: Draws images; None if the model does not.
        marks: Its marks around reasoning; None without any.
        formats: Compiles the formats of answers.
        verdict: The self-check's verdict on texts and images.
        clips: Its verdict on each kind of clips.
        token_budget: Tokens that a batch may have.

    Raises:
        LoadError: With the cause and the fix in one line.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self.checkpoint = checkpoints.load(settings)
        self._processor_sha256 = processor_hash(self.checkpoint)
        self.drawer = drawer_of(self.checkpoint)
        self.prompter = Prompter(self.checkpoint, settings.max_image_pixels)
        self.marks = marks_of(self.checkpoint.tokenizer, self.checkpoint.template)
        self._mark_ids = mark_ids(self.checkpoint.tokenizer, self.marks) if self.marks else []
        self.formats = Formats(self.checkpoint.tokenizer, self.checkpoint.ends, self._mark_ids)
        self._vision = VisionCache(self.checkpoint, settings.image_cache_bytes, metrics)
        self.verdict = selfcheck.Verdict("none")  # no vision features are cached until they are checked
        parts = (self.checkpoint, self.prompter, self._vision)
        self.verdict = selfcheck.check(*parts)
        if self.verdict.method == "none" and self.checkpoint.has_vision:
            selfcheck.check_images(self.checkpoint, self.prompter)
        self.clips = {kind: selfcheck.check(*parts, kind) for kind in sorted(self.checkpoint.clips)}
        for kind, verdict in self.clips.items():
            log.info("%s: likelihood %s%s", kind, verdict.method, f" ({verdict.reason})" if verdict.reason else "")
        selfcheck.find_limits(self.checkpoint, self.prompter, self.taken)
        self.token_budget = memory.token_budget(self.checkpoint, self.prompter)
        log.info("likelihood: %s%s", self.verdict.method, f" ({self.verdict.reason})" if self.verdict.reason else "")

    def info(self) -> model.GetModelInfoResponse:
        """Describes it."""
        keeps_formats = bool(self.checkpoint.ends) and find_spec("llguidance") is not None
        claims = {
            model.CAPABILITY_GENERATE: True,
            model.CAPABILITY_LIKELIHOOD: self.scores,
            model.CAPABILITY_IMAGE_INPUT: self.checkpoint.has_vision,
            model.CAPABILITY_MULTI_IMAGE: self.checkpoint.has_vision and self.checkpoint.family.multi_image,
            model.CAPABILITY_IMAGE_OUTPUT: self.drawer is not None,
            model.CAPABILITY_AUDIO_INPUT: "audio" in self.taken,
            model.CAPABILITY_VIDEO_INPUT: "video" in self.taken,
            model.CAPABILITY_OUTPUT_LOGPROBS: True,
            model.CAPABILITY_SEED: True,
            model.CAPABILITY_REASONING: self.marks is not None,
            model.CAPABILITY_THINKING: bool(self.switch),
            model.CAPABILITY_THINKING_BUDGET: bool(self._mark_ids),
            model.CAPABILITY_CHAT_TEMPLATE_ARGUMENTS: bool(self.prompter.template.arguments),
            model.CAPABILITY_ANSWER_PREFIX: self.prompter.template.can_continue,
            model.CAPABILITY_RENDERED_PROMPT: True,
            model.CAPABILITY_RAW_PROMPT: self.scores and not self.checkpoint.family.needs_image,
            model.CAPABILITY_SAMPLES: bool(self.max_samples),
            model.CAPABILITY_ANSWER_CHOICES: keeps_formats,
            model.CAPABILITY_ANSWER_REGEX: keeps_formats,
            model.CAPABILITY_ANSWER_JSON_SCHEMA: keeps_formats,
            model.CAPABILITY_TOOLS: self.tools is not None,
        }
        verdict = self.verdict
        properties = {
            "device": str(self.checkpoint.device),
            "model_type": self.checkpoint.kind,
            "attention": str(getattr(self.checkpoint.model.config, "_attn_implementation", "")),
            "transformers": importlib.metadata.version("transformers"),
            "torch": torch.__version__,
            "max_batch": str(self._settings.max_batch),
            "adapter": self._settings.adapter,
            "processor": self._settings.processor_text,
            "quantization": self.checkpoint.quantization,
            "chat_template": "model" if self.checkpoint.template else "none",
            "likelihood_method": verdict.method,
            "likelihood_self_check": f"difference {verdict.difference:.2g}, sensitivity {verdict.sensitivity:.2g}",
            "likelihood_fallback": verdict.reason,
            "batches": " ".join(
                name for name, on in (("generate", verdict.generates), ("likelihood", verdict.batches)) if on
            ),
            "generate_batching": "continuous" if verdict.continuous else "static" if verdict.generates else "none",
            "vision_cache": "on" if verdict.vision else "off",
        }
        for kind, one in self.clips.items():
            properties[f"{kind}_likelihood_method"] = one.method
            properties[f"{kind}_likelihood_fallback"] = one.reason
        if "video" in self.taken:
            properties["frame_sampling"] = MessageToJson(self.prompter.clips.sampling, indent=None)
        return describe(
            claims,
            model_name=self._settings.name or self._own_name(),
            model_revision=self.checkpoint.revision,
            max_concurrency=2 * self._settings.max_batch,
            max_context_tokens=self.checkpoint.context,
            chat_template_sha256=text_hash(self.checkpoint.template),
            processor_sha256=self._processor_sha256,
            compute_dtype=str(self.checkpoint.model.dtype).removeprefix("torch."),
            properties={name: value for name, value in properties.items() if value},
            chat_template_arguments=sorted(self.prompter.template.arguments),
            max_samples=self.max_samples,
            system_messages=model.SYSTEM_MESSAGES_TAKEN
            if self.prompter.template.takes_system_messages
            else model.SYSTEM_MESSAGES_REFUSED,
            tool_rendering=self.tools.rendering if self.tools else None,
            media_limits=model.MediaLimits(
                max_image_pixels=self._settings.max_image_pixels if self.checkpoint.has_vision else 0,
                max_audio_duration=seconds(longest) if (longest := self.prompter.clips.longest) else None,
            ),
        )

    def _own_name(self) -> str:
        folder, adapter = Path(self._settings.model), Path(self._settings.adapter)
        name = folder.resolve().name if folder.is_dir() else self._settings.model
        trained = adapter.resolve().name if adapter.is_dir() else self._settings.adapter
        return f"{name}+{trained}" if self._settings.adapter else name

    @property
    def tools(self) -> ToolForm | None:
        """The template's rendering of tools; None if the model is not shown all of their parts."""
        return self.prompter.template.tools

    @property
    def taken(self) -> frozenset[Kind]:
        """The kinds of clips that are understood."""
        return frozenset(kind for kind, verdict in self.clips.items() if verdict.method != "none")

    def verdicts(self, prompt: Prompt) -> list[selfcheck.Verdict]:
        """Returns the self-check's verdicts for a prompt with such media."""
        return [self.verdict, *(self.clips[kind] for kind in sorted(prompt.clips))]

    @property
    def max_samples(self) -> int:
        """Maximum outputs of one prompt in a batch; 0 if they would not share its prefill."""
        most = self._settings.max_batch
        return most if most > 1 and self.verdict.samples else 0

    @property
    def scores(self) -> bool:
        """True if it scores continuations."""
        return self.prompter.can_join and self.verdict.method != "none"

    @property
    def switch(self) -> str:
        """The template's variable that turns reasoning on and off, "" if it has none."""
        return next((name for name in THINKING_SWITCHES if name in self.prompter.template.arguments), "")

    def arguments(self, config: model.GenerationConfig) -> dict[str, Any]:
        """Returns the chat template's arguments of a request.

        Raises:
            InvalidRequest: `thinking` and an argument contradict each other.
        """
        arguments = struct_json(config.chat_template_arguments)
        if self.switch and (config.HasField("thinking") or config.HasField("thinking_budget")):
            on = config.thinking or config.HasField("thinking_budget")
            if arguments.setdefault(self.switch, on) is not on:
                raise InvalidRequest(
                    "thinking_conflict", f"thinking and the argument {self.switch} contradict each other"
                )
        return arguments

    def features(self, prompts: Sequence[Prompt]) -> Replace | None:
        """Returns the replacement of some prompts' image inputs; None if vision features are not cached."""
        return functools.partial(self._vision.apply, prompts) if self.verdict.vision else None
