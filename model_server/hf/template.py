"""A checkpoint's chat template: renders conversations, and probes the messages and variables that it takes."""

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
from model_server.hf.tools import Chat, Style, ToolForm, as_chat, described, find

_GIVEN = {"messages", "add_generation_prompt", "continue_final_message", "tools", "documents"}
"""Variables of a chat template that the library sets."""
_REFUSALS = (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError)
"""Exceptions of a template: raised on purpose, or by a message of a kind that it does not handle."""
_QUESTION = model.Message(role=model.ROLE_USER, parts=[model.Part(text="x")])
_PLAIN = Style()


class Template:
    """Renders conversations. Safe to use from several threads.

    Args:
        checkpoint: The model with its processor.
        processor: Returns the processor of the calling thread.

    Raises:
        LoadError: If the chat template is invalid.
    """

    def __init__(self, checkpoint: Checkpoint, processor: Callable[[], Any]) -> None:
        self._checkpoint = checkpoint
        self._processor = processor
        _ = self.gap  # compiles the template, so that an invalid one fails at load

    @cached_property
    def arguments(self) -> frozenset[str]:
        """The names of the chat template's own variables, without those that the library sets."""
        if not self._checkpoint.template:
            return frozenset()
        environment = _compile_jinja_template(self._checkpoint.template).environment
        names = meta.find_undeclared_variables(environment.parse(self._checkpoint.template))
        return frozenset(names - environment.globals.keys() - _GIVEN - _token_names(self._checkpoint.tokenizer))

    @cached_property
    def tools(self) -> ToolForm | None:
        """The template's rendering of tools; None if it drops them, their calls or their results."""

        def render(chat: Chat, offered: list[dict[str, Any]]) -> str | None:
            try:
                return self._applied(chat, prefix=True, tools=offered)
            except InvalidRequest:
                return None

        return find(self._checkpoint, render)

    def render(
        self,
        messages: Sequence[model.Message],
        arguments: Mapping[str, Any] | None = None,
        offered: Sequence[model.Tool] = (),
    ) -> str:
        """Applies the chat template, with the generation prefix or the beginning of the answer at the end.

        Args:
            messages: The conversation.
            arguments: Variables of the template.
            offered: Tools that the model may call.
        """
        if not self._checkpoint.template:
            return self._checkpoint.family.plain(messages, self._checkpoint)
        if messages[-1].role == model.ROLE_ASSISTANT:
            return self._continued(messages, arguments)
        return self._templated(messages, prefix=True, arguments=arguments, offered=offered)

    @cached_property
    def can_continue(self) -> bool:
        """True if the chat template can leave an assistant's message open."""
        return bool(self._checkpoint.template) and self._begun("x").endswith("x")

    @cached_property
    def takes_system_messages(self) -> bool:
        """True if the chat template shows the text of a system message; some refuse one, some drop it."""
        if not self._checkpoint.template:
            return True  # all texts are joined
        system = model.Message(role=model.ROLE_SYSTEM, parts=[model.Part(text="Be brief, zq7.")])
        try:
            return "Be brief, zq7." in self._templated([system, _QUESTION], prefix=True)
        except InvalidRequest:
            return False

    @cached_property
    def _keeps_reasoning(self) -> bool:
        """True if the chat template shows the reasoning of an assistant's last message; many leave it out."""
        return "I see." in self._begun("x", "I see.")

    def _begun(self, text: str, reasoning: str = "") -> str:
        """Returns a synthetic conversation with its answer begun, "" if the template refuses it."""
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
        offered: Sequence[model.Tool] = (),
    ) -> str:
        # The style is searched only for conversations with calls: the search itself renders conversations.
        called = any(message.role == model.ROLE_TOOL for message in messages)
        style = self.tools.style if called and self.tools else _PLAIN
        chat = as_chat(messages, self._checkpoint.takes_media, style)
        described_tools = described(offered) if offered else None
        return self._applied(chat, prefix=prefix, continues=continues, arguments=arguments, tools=described_tools)

    def _applied(
        self,
        chat: Chat,
        *,
        prefix: bool = False,
        continues: bool = False,
        arguments: Mapping[str, Any] | None = None,
        tools: list[dict[str, Any]] | None = None,
    ) -> str:
        more = {**(arguments or {}), **({"tools": tools} if tools else {})}
        try:
            return str(
                self._processor().apply_chat_template(
                    chat,
                    tokenize=False,
                    add_generation_prompt=prefix,
                    continue_final_message=continues,
                    chat_template=self._checkpoint.template,
                    **more,
                )
            )
        except _REFUSALS as error:
            raise InvalidRequest(
                "template_refused", f"the model's chat template refuses this conversation: {error}"
            ) from error

    @cached_property
    def gap(self) -> str:
        """The white space that the template puts between its generation prefix and an assistant's text.

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
        answer = rest.lstrip()
        return rest.removesuffix(answer) if rest != conversation and answer.startswith("x") else ""


def _token_names(tokenizer: Any) -> frozenset[str]:
    """Names of special tokens, which a template has as variables."""
    return frozenset(tokenizer.special_tokens_map) | {f"{name}_token" for name in ("bos", "eos", "pad", "unk")}
