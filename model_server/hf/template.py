"""A checkpoint's chat template: what it renders, and which messages and variables it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jinja2
from jinja2 import meta
from transformers.utils.chat_template_utils import _compile_jinja_template

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import InvalidRequest, Unsupported
from model_server.backend import LoadError
from model_server.decoding import THINKING_SWITCHES
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.reasoning import marks_of

_GIVEN = {"messages", "add_generation_prompt", "continue_final_message", "tools", "documents"}
"""Variables of a chat template that the library sets."""
_REFUSALS = (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError)
"""What a template raises: by its own will, or where it cannot do with this kind of message."""
_QUESTION = model.Message(role=model.ROLE_USER, parts=[model.Part(text="x")])
_ROLES = {model.ROLE_SYSTEM: "system", model.ROLE_USER: "user", model.ROLE_ASSISTANT: "assistant"}


class Template:
    """Renders conversations. Safe to use from several threads.

    Args:
        checkpoint: The model with its processor.
        processor: Returns the processor of the calling thread.

    Raises:
        LoadError: If the chat template is none.
    """

    def __init__(self, checkpoint: Checkpoint, processor: Callable[[], Any]) -> None:
        self._checkpoint = checkpoint
        self._processor = processor
        _ = self.gap  # a template that cannot be compiled is found now

    @cached_property
    def arguments(self) -> frozenset[str]:
        """The names of the chat template's variables, but those that every template gets."""
        if not self._checkpoint.template:
            return frozenset()
        environment = _compile_jinja_template(self._checkpoint.template).environment
        names = meta.find_undeclared_variables(environment.parse(self._checkpoint.template))
        return frozenset(names - environment.globals.keys() - _GIVEN - _token_names(self._checkpoint.tokenizer))

    def render(self, messages: Sequence[model.Message], arguments: Mapping[str, Any] | None = None) -> str:
        """Applies the chat template, with the generation prefix or the beginning of the answer at the end."""
        if not self._checkpoint.template:
            return self._checkpoint.family.plain(messages, self._checkpoint)
        if messages[-1].role == model.ROLE_ASSISTANT:
            return self._continued(messages, arguments)
        return self._templated(messages, prefix=True, arguments=arguments)

    @cached_property
    def can_continue(self) -> bool:
        """Whether the chat template can leave an assistant's message open."""
        return bool(self._checkpoint.template) and self._begun("x").endswith("x")

    @cached_property
    def takes_system_messages(self) -> bool:
        """Whether the chat template shows the words of a system message; some refuse one, some drop it."""
        if not self._checkpoint.template:
            return True  # all texts are joined
        system = model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text="Be brief, zq7.")])
        try:
            return "Be brief, zq7." in self._templated([system, _QUESTION], prefix=True)
        except InvalidRequest:
            return False

    @cached_property
    def _keeps_reasoning(self) -> bool:
        """Whether the chat template shows the reasoning of an assistant's last message; those of many leave it out."""
        return "I see." in self._begun("x", "I see.")

    def _begun(self, text: str, reasoning: str = "") -> str:
        """Returns a made-up conversation with its answer begun, "" where the template refuses it."""
        answer = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text=text)], reasoning=reasoning)
        try:
            return self._templated([_QUESTION, answer], continues=True, arguments=self._thinking)
        except InvalidRequest:
            return ""

    @cached_property
    def _thinking(self) -> dict[str, Any]:
        """The chat template's variables that turn reasoning on."""
        return dict.fromkeys(self.arguments.intersection(THINKING_SWITCHES), True)

    def _continued(self, messages: Sequence[model.Message], arguments: Mapping[str, Any] | None) -> str:
        """Returns the conversation with the assistant's last message left open."""
        *before, last = messages
        if not last.reasoning:
            return self._templated(messages, continues=True, arguments=arguments)
        switched = {**self._thinking, **(arguments or {})}
        if self._keeps_reasoning:
            return self._templated(messages, continues=True, arguments=switched)
        marks = marks_of(self._checkpoint.tokenizer, self._checkpoint.template)
        if marks is None:
            raise Unsupported("no_reasoning", "the chat template leaves out the reasoning of an answer's beginning")
        opens = marks.opens + marks.label
        prompt = self._templated(before, prefix=True, arguments=switched)
        if prompt.rstrip().endswith(opens):
            prompt, opens = prompt.rstrip(), ""
        text = "".join(part.text for part in last.parts)
        return f"{prompt}{opens}\n{last.reasoning}\n{marks.closes}\n\n{text}"

    def _templated(
        self,
        messages: Sequence[model.Message],
        *,
        prefix: bool = False,
        continues: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        chat: list[dict[str, Any]] = []
        for message in messages:
            parts: list[dict[str, str]] = []
            for part in message.parts:
                kind = str(part.WhichOneof("kind"))
                parts.append({"type": kind} | ({"text": part.text} if kind == "text" else {}))
            if self._checkpoint.takes_media:
                chat.append({"role": _ROLES[message.role], "content": parts})
            else:
                chat.append({"role": _ROLES[message.role], "content": "".join(p.get("text", "") for p in parts)})
            if message.reasoning:
                chat[-1]["reasoning_content"] = message.reasoning
        try:
            return str(
                self._processor().apply_chat_template(
                    chat,
                    tokenize=False,
                    add_generation_prompt=prefix,
                    continue_final_message=continues,
                    chat_template=self._checkpoint.template,
                    **(arguments or {}),
                )
            )
        except _REFUSALS as error:
            raise InvalidRequest(
                "template_refused", f"the model's chat template refuses this conversation: {error}"
            ) from error

    @cached_property
    def gap(self) -> str:
        """The white space that the template puts between its generation prefix and an assistant's words.

        After "ASSISTANT:" a model says " green", which is another token than "green".
        """
        if not self._checkpoint.template:
            return ""
        assistant = model.Message(role=model.ROLE_ASSISTANT, parts=[model.Part(text="x")])
        try:
            prompt = self._templated([_QUESTION], prefix=True)
            conversation = self._templated([_QUESTION, assistant])
        except InvalidRequest as error:
            if isinstance(error.__cause__, jinja2.TemplateSyntaxError):
                line = error.__cause__.lineno
                raise LoadError(f"the chat template cannot be used, line {line}: {error.__cause__}") from error
            return ""
        rest = conversation.removeprefix(prompt)
        words = rest.lstrip()
        return rest.removesuffix(words) if rest != conversation and words.startswith("x") else ""


def _token_names(tokenizer: Any) -> frozenset[str]:
    """Names of special tokens, which a template has as variables."""
    return frozenset(tokenizer.special_tokens_map) | {f"{name}_token" for name in ("bos", "eos", "pad", "unk")}
