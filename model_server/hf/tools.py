"""Tools in a checkpoint's own form: a made-up conversation shows what its template makes of tools, calls and results.

No list of names decides. A template that drops tools, calls or results, or prints them as Python objects, has no form;
the mark-up of its calls is the one by which the made-up calls are read back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from lyncean.model.v1 import model_pb2 as model
from lyncean.rpc import Unsupported
from model_server.hf.checkpoint import Checkpoint
from model_server.hf.response_template import ResponseTemplate, of_tokenizer
from model_server.tool_calls import FORMS, Form, Written, types_of

Chat = list[dict[str, Any]]
Render = Callable[[Chat, list[dict[str, Any]]], str | None]
"""Renders a conversation with some tools; None where the template refuses it."""
_ROLES = {model.ROLE_SYSTEM: "system", model.ROLE_USER: "user", model.ROLE_ASSISTANT: "assistant"}
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


@dataclass(frozen=True)
class Style:
    """How a template takes calls and results.

    Attributes:
        listed: Whether their content is a list of parts; else it is a text.
        text_arguments: Whether arguments are given as the text that the model wrote; else as what they mean.
        nine: Whether ids of calls have nine letters and digits.
        alone: Whether calls stand without a text beside them: the template would drop or displace it.
        images: Where the images of results stand.
    """

    listed: bool = False
    text_arguments: bool = False
    nine: bool = False
    alone: bool = False
    images: model.ToolImages.ValueType = model.TOOL_IMAGES_REFUSED


@dataclass(frozen=True)
class ToolForm:
    """What a template makes of tools.

    Attributes:
        style: How it takes calls and results.
        form: How calls are written.
        several: Whether it takes several calls in a message.
        reasoning_kept: Whether it shows the reasoning beside a call.
    """

    style: Style
    form: Form | ResponseTemplate
    several: bool
    reasoning_kept: bool

    @property
    def rendering(self) -> model.ToolRendering:
        """It in the contract's form."""
        return model.ToolRendering(images=self.style.images, reasoning_kept=self.reasoning_kept)


def described(tools: Sequence[model.Tool]) -> list[dict[str, Any]]:
    """Returns tools as templates take them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(tool.input_schema or '{"type": "object", "properties": {}}'),
            },
        }
        for tool in tools
    ]


def as_chat(messages: Sequence[model.Message], takes_media: bool, style: Style) -> Chat:
    """Returns a conversation as templates take it.

    Args:
        messages: The conversation.
        takes_media: Whether the content of messages is a list of parts; else it is a text.
        style: How the template takes calls and results.

    Raises:
        Unsupported: There is a text beside calls, which the template would drop or displace.
    """
    chat: Chat = []
    names: dict[str, tuple[str, str]] = {}  # of calls: their ids as the template takes them, and their tools
    for message in messages:
        if message.role == model.ROLE_TOOL:
            chat += _results(message, names, style)
            continue
        calls = [part.tool_call for part in message.parts if part.HasField("tool_call")]
        parts = [part for part in message.parts if not part.HasField("tool_call")]
        if calls and style.alone and any(part.text.strip() for part in parts):
            words = "the chat template takes no text beside tool calls: send the calls alone"
            raise Unsupported("no_text_beside_calls", words)
        listed = takes_media and (style.listed or not calls)
        entry: dict[str, Any] = {"role": _ROLES[message.role], "content": _content(parts, listed)}
        for call in calls:
            id_ = f"call{len(names):05}" if style.nine and not _NINE.fullmatch(call.id) else call.id
            names[call.id] = (id_, call.name)
            function = {"name": call.name, "arguments": _arguments(call.arguments, style)}
            entry.setdefault("tool_calls", []).append({"type": "function", "id": id_, "function": function})
        if message.reasoning:
            entry["reasoning_content"] = message.reasoning
        chat.append(entry)
    return chat


def _results(message: model.Message, names: dict[str, tuple[str, str]], style: Style) -> Iterator[dict[str, Any]]:
    apart = style.images == model.TOOL_IMAGES_IN_USER_MESSAGE
    images: list[model.Part] = []
    for part in message.parts:
        content = list(part.tool_result.content)
        if apart:
            images += [each for each in content if each.HasField("image")]
            content = [each for each in content if not each.HasField("image")]
        id_, name = names[part.tool_result.tool_call_id]
        yield {"role": "tool", "content": _content(content, style.listed), "tool_call_id": id_, "name": name}
    if images:
        yield {"role": "user", "content": _content(images, True)}


def _content(parts: Sequence[model.Part], listed: bool) -> Any:
    if not listed or not parts:
        return "".join(part.text for part in parts)
    kinds = [(str(part.WhichOneof("kind")), part.text) for part in parts]
    return [{"type": kind, "text": text} if kind == "text" else {"type": kind} for kind, text in kinds]


def _arguments(text: str, style: Style) -> Any:
    """Returns the arguments of a call: their text, or what they mean where they are an object."""
    if style.text_arguments:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


# The made-up conversation. Each word stands in no template; arguments are no compact JSON, so that it shows whether
# their text is kept.
_TOOL = model.Tool(
    name="zq_look",
    description="Looks at zq7place.",
    input_schema='{"type": "object", "properties": {"zqword": {"type": "string"}, "zqbox": {"type": "array"}}}',
)
_TYPES = types_of([_TOOL])
_CALLS = ('{"zqword":"zq3 a",  "zqbox":[1, 2]}', '{"zqword":"zq4 b",  "zqbox":[3, 4]}')
_ASKED, _SAID, _THOUGHT = "Where is zq0thing?", "I look zq1.", "A plan zq2."
_RESULTS = ("zq5 seen", "zq6 seen")
_PRINTED = re.compile(r"""["']text["']: ?["'][^"']*zq""")
"""A list of parts that a template has printed as it is."""


def _made_up(count: int, alone: bool, *, image: bool = False, reasoning: str = "") -> list[model.Message]:
    user = model.Message(role=model.ROLE_USER, parts=[model.Part(text=_ASKED)])
    assistant = model.Message(role=model.ROLE_ASSISTANT, reasoning=reasoning)
    if not alone:
        assistant.parts.add(text=_SAID)
    tools = model.Message(role=model.ROLE_TOOL)
    for place in range(count):
        assistant.parts.add(tool_call=model.ToolCall(id=f"call_{place}", name=_TOOL.name, arguments=_CALLS[place]))
        result = tools.parts.add(tool_result=model.ToolResult(tool_call_id=f"call_{place}")).tool_result
        result.content.add(text=_RESULTS[place])
        if image:
            result.content.add(image=model.Image())
    return [user, assistant, tools]


def find(checkpoint: Checkpoint, render: Render) -> ToolForm | None:
    """Returns what a checkpoint's template makes of tools, None where it does not show the model all of them.

    Args:
        checkpoint: The model with its processor.
        render: The template.
    """
    if not checkpoint.template:
        return None
    lists = (True, False) if checkpoint.takes_media else (False,)
    for count, alone, listed, text_arguments, nine in product(
        (2, 1), (False, True), lists, (True, False), (False, True)
    ):
        style = Style(listed, text_arguments, nine, alone)
        text = render(as_chat(_made_up(count, alone), checkpoint.takes_media, style), described([_TOOL]))
        kept = text and (not text_arguments or all(each in text for each in _CALLS[:count]))
        if text and kept and _is_shown(text, count) and (form := _form(checkpoint, text, count, style)):
            style = replace(style, images=_images(checkpoint, render, style))
            thought = as_chat(_made_up(1, alone, reasoning=_THOUGHT), checkpoint.takes_media, style)
            reasoning_kept = _THOUGHT in (render(thought, described([_TOOL])) or "")
            return ToolForm(style, form, count == 2, reasoning_kept)
    return None


def _is_shown(text: str, count: int) -> bool:
    """Whether a rendered conversation has the tools, and the results behind the question."""
    words = (_TOOL.name, "zq7place", "zqbox", _ASKED, *_RESULTS[:count])
    places = [text.find(word) for word in words]
    return min(places) >= 0 and places[3:] == sorted(places[3:]) and not _PRINTED.search(text)


def _form(checkpoint: Checkpoint, text: str, count: int, style: Style) -> Form | ResponseTemplate | None:
    """Returns the mark-up by which the calls of a rendered conversation are read back."""
    behind = text[text.rindex(_ASKED) + len(_ASKED) :]
    turn = behind[: behind.index(_RESULTS[0])]
    specials = [re.escape(token) for token in special_tokens(checkpoint.tokenizer)]
    said = turn[max(0, turn.find(_SAID)) :]
    forms: list[Form | ResponseTemplate] = [*of_tokenizer(checkpoint.tokenizer), *FORMS]
    for form in forms:
        turns = [said] if form.opens else re.split("|".join(specials), turn) if specials else [turn]
        for each in turns:
            pieces = form.pieces(each, _TYPES)
            calls = [piece for piece in pieces if isinstance(piece, Written)]
            whole = style.alone or any(_SAID in piece for piece in pieces if isinstance(piece, str))
            if whole and _as_made_up(calls, count, exact=style.text_arguments):
                return form
    return None


def _as_made_up(calls: Sequence[Written], count: int, *, exact: bool) -> bool:
    if [call.name for call in calls] != [_TOOL.name] * count:
        return False
    if exact:
        return [call.arguments for call in calls] == list(_CALLS[:count])
    try:
        return [json.loads(call.arguments) for call in calls] == [json.loads(each) for each in _CALLS[:count]]
    except ValueError:
        return False


def _images(checkpoint: Checkpoint, render: Render, style: Style) -> model.ToolImages.ValueType:
    """Returns where the template puts the image of a result."""
    if not checkpoint.has_vision:
        return model.TOOL_IMAGES_REFUSED
    marks = checkpoint.family.placeholders(checkpoint)

    def shown(image: bool, where: model.ToolImages.ValueType) -> int:
        chat = as_chat(_made_up(1, style.alone, image=image), True, replace(style, images=where))
        text = render(chat, described([_TOOL]))
        return -1 if text is None else sum(text.count(mark) for mark in marks)

    ways = [model.TOOL_IMAGES_IN_RESULT] * style.listed + [model.TOOL_IMAGES_IN_USER_MESSAGE]
    for where in ways:
        if shown(True, where) > shown(False, where) >= 0:
            return where
    return model.TOOL_IMAGES_REFUSED


def special_tokens(tokenizer: Any) -> list[str]:
    """Returns the texts of a tokenizer's special tokens."""
    return [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special and str(token)]


def check_choice(request: model.GenerateRequest, found: ToolForm, vocabulary: dict[str, int]) -> int | None:
    """Returns the token that the output may not have, for a request that forbids calls; None for others.

    Args:
        request: The request.
        found: What the template makes of tools.
        vocabulary: Added tokens.

    Raises:
        Unsupported: The model cannot be kept to the request's choice of tools.
    """
    choice = request.tool_choice
    if choice.HasField("name") or choice.mode == model.TOOL_CHOICE_MODE_REQUIRED:
        raise Unsupported("no_tool_choice", "this model cannot be made to call a tool: leave tool_choice unset")
    if request.parallel_tool_calls and not found.several:
        raise Unsupported("no_parallel_tool_calls", "the chat template takes one call at a time: leave it unset")
    if choice.mode != model.TOOL_CHOICE_MODE_NONE:
        return None
    token = next((number for text, number in vocabulary.items() if text and found.form.opens.startswith(text)), None)
    if token is None:
        raise Unsupported("no_tool_choice", "this model cannot be kept from calling tools: leave tool_choice unset")
    return token


def read(
    text: str, found: ToolForm, request: model.GenerateRequest, specials: Sequence[str] = ()
) -> list[model.Part] | None:
    """Returns the parts of an answer with calls; None where there is no call.

    Args:
        text: The answer, special tokens included where the mark-up has some.
        found: What the template makes of tools.
        request: The request; the output of one that wants a single call ends behind it.
        specials: Special tokens, which are left out of texts.
    """
    pieces = found.form.pieces(text, types_of(request.tools))
    places = [place for place, piece in enumerate(pieces) if isinstance(piece, Written)]
    if not places:
        return None
    single = request.HasField("parallel_tool_calls") and not request.parallel_tool_calls
    if single or not found.several:
        del pieces[places[0] + 1 :]
    parts: list[model.Part] = []
    for piece in pieces:
        if isinstance(piece, Written):
            call = model.ToolCall(id=piece.id, name=piece.name, arguments=piece.arguments)
            parts.append(model.Part(tool_call=call))
            continue
        for special in specials:
            piece = piece.replace(special, "")
        if piece:
            parts.append(model.Part(text=piece))
    return parts
