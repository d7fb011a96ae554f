"""Tools in a checkpoint's own form: a synthetic conversation shows how its template renders tools, calls and results.

Model names play no part. A template that drops tools, calls or results, or prints them as Python objects, has no
form; the mark-up of its calls is the known one that reads the synthetic calls back.
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
"""Renders a conversation with some tools; None if the template refuses it."""
_ROLES = {model.ROLE_SYSTEM: "system", model.ROLE_USER: "user", model.ROLE_ASSISTANT: "assistant"}
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


@dataclass(frozen=True)
class Style:
    """The form in which a template takes calls and results.

    Attributes:
        listed: Whether their content is a list of parts; else it is a text.
        text_arguments: Whether arguments are passed as the model's text; else as the parsed object.
        nine: Whether ids of calls have nine letters and digits.
        alone: Whether calls stand without a text beside them: the template would drop or displace it.
        images: The position of the images of results.
    """

    listed: bool = False
    text_arguments: bool = False
    nine: bool = False
    alone: bool = False
    images: model.ToolImages.ValueType = model.TOOL_IMAGES_REFUSED


@dataclass(frozen=True)
class ToolForm:
    """A template's rendering of tools.

    Attributes:
        style: The form in which it takes calls and results.
        form: The mark-up of calls.
        several: Whether it takes several calls in a message.
        reasoning_kept: Whether it shows the reasoning beside a call.
    """

    style: Style
    form: Form | ResponseTemplate
    several: bool
    reasoning_kept: bool

    @property
    def rendering(self) -> model.ToolRendering:
        """Its description in the contract's form."""
        return model.ToolRendering(images=self.style.images, reasoning_kept=self.reasoning_kept)


def described(tools: Sequence[model.Tool]) -> list[dict[str, Any]]:
    """Returns tools in the form that templates take."""
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
    """Returns a conversation in the form that templates take.

    Args:
        messages: The conversation.
        takes_media: Whether the content of messages is a list of parts; else it is a text.
        style: The form in which the template takes calls and results.

    Raises:
        Unsupported: There is a text beside calls, which the template would drop or displace.
    """
    chat: Chat = []
    names: dict[str, tuple[str, str]] = {}  # by call id: the id that the template takes, and the tool
    for message in messages:
        if message.role == model.ROLE_TOOL:
            chat += _results(message, names, style)
            continue
        calls = [part.tool_call for part in message.parts if part.HasField("tool_call")]
        parts = [part for part in message.parts if not part.HasField("tool_call")]
        if calls and style.alone and any(part.text.strip() for part in parts):
            problem = "the chat template takes no text beside tool calls: send the calls alone"
            raise Unsupported("no_text_beside_calls", problem)
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
            images += [piece for piece in content if piece.HasField("image")]
            content = [piece for piece in content if not piece.HasField("image")]
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
    """Returns the arguments of a call: their text, or the object that they describe."""
    if style.text_arguments:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


# The synthetic conversation. No template contains its words; its arguments are not compact JSON, which shows whether
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
"""Matches a list of parts that a template has printed as a Python object."""


def _made_up(count: int, alone: bool, *, image: bool = False, reasoning: str = "") -> list[model.Message]:
    user = model.Message(role=model.ROLE_USER, parts=[model.Part(text=_ASKED)])
    assistant = model.Message(role=model.ROLE_ASSISTANT, reasoning=reasoning)
    if not alone:
        assistant.parts.add(text=_SAID)
    tools = model.Message(role=model.ROLE_TOOL)
    for index in range(count):
        assistant.parts.add(tool_call=model.ToolCall(id=f"call_{index}", name=_TOOL.name, arguments=_CALLS[index]))
        result = tools.parts.add(tool_result=model.ToolResult(tool_call_id=f"call_{index}")).tool_result
        result.content.add(text=_RESULTS[index])
        if image:
            result.content.add(image=model.Image())
    return [user, assistant, tools]


def find(checkpoint: Checkpoint, render: Render) -> ToolForm | None:
    """Returns the rendering of tools by a checkpoint's template; None if it does not show the model all their parts.

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
        kept = text and (not text_arguments or all(arguments in text for arguments in _CALLS[:count]))
        if text and kept and _is_shown(text, count) and (form := _form(checkpoint, text, count, style)):
            style = replace(style, images=_images(checkpoint, render, style))
            thought = as_chat(_made_up(1, alone, reasoning=_THOUGHT), checkpoint.takes_media, style)
            reasoning_kept = _THOUGHT in (render(thought, described([_TOOL])) or "")
            return ToolForm(style, form, count == 2, reasoning_kept)
    return None


def _is_shown(text: str, count: int) -> bool:
    """Returns True if a rendered conversation has the tools, and the results after the question."""
    markers = (_TOOL.name, "zq7place", "zqbox", _ASKED, *_RESULTS[:count])
    positions = [text.find(marker) for marker in markers]
    return min(positions) >= 0 and positions[3:] == sorted(positions[3:]) and not _PRINTED.search(text)


def _form(checkpoint: Checkpoint, text: str, count: int, style: Style) -> Form | ResponseTemplate | None:
    """Returns the mark-up that reads the calls of a rendered conversation back; None if no known one does."""
    after = text[text.rindex(_ASKED) + len(_ASKED) :]
    turn = after[: after.index(_RESULTS[0])]
    specials = [re.escape(token) for token in special_tokens(checkpoint.tokenizer)]
    from_text = turn[max(0, turn.find(_SAID)) :]
    forms: list[Form | ResponseTemplate] = [*of_tokenizer(checkpoint.tokenizer), *FORMS]
    for form in forms:
        turns = [from_text] if form.opens else re.split("|".join(specials), turn) if specials else [turn]
        for output in turns:
            pieces = form.pieces(output, _TYPES)
            calls = [piece for piece in pieces if isinstance(piece, Written)]
            has_text = style.alone or any(_SAID in piece for piece in pieces if isinstance(piece, str))
            if has_text and _as_made_up(calls, count, exact=style.text_arguments):
                return form
    return None


def _as_made_up(calls: Sequence[Written], count: int, *, exact: bool) -> bool:
    if [call.name for call in calls] != [_TOOL.name] * count:
        return False
    if exact:
        return [call.arguments for call in calls] == list(_CALLS[:count])
    try:
        return [json.loads(call.arguments) for call in calls] == [json.loads(arguments) for arguments in _CALLS[:count]]
    except ValueError:
        return False


def _images(checkpoint: Checkpoint, render: Render, style: Style) -> model.ToolImages.ValueType:
    """Returns the position at which the template puts the image of a result."""
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


def check_choice(request: model.GenerateRequest, tool_form: ToolForm, vocabulary: dict[str, int]) -> int | None:
    """Returns the token to ban from the output of a request that forbids calls; None for others.

    Args:
        request: The request.
        tool_form: The template's rendering of tools.
        vocabulary: Added tokens.

    Raises:
        Unsupported: The model cannot be kept to the request's choice of tools.
    """
    choice = request.tool_choice
    if choice.HasField("name") or choice.mode == model.TOOL_CHOICE_MODE_REQUIRED:
        raise Unsupported("no_tool_choice", "this model cannot be made to call a tool: leave tool_choice unset")
    if request.parallel_tool_calls and not tool_form.several:
        raise Unsupported("no_parallel_tool_calls", "the chat template takes one call at a time: leave it unset")
    if choice.mode != model.TOOL_CHOICE_MODE_NONE:
        return None
    token = next(
        (number for text, number in vocabulary.items() if text and tool_form.form.opens.startswith(text)), None
    )
    if token is None:
        raise Unsupported("no_tool_choice", "this model cannot be kept from calling tools: leave tool_choice unset")
    return token


def read(
    text: str, tool_form: ToolForm, request: model.GenerateRequest, specials: Sequence[str] = ()
) -> list[model.Part] | None:
    """Returns the parts of an answer with calls; None without calls.

    Args:
        text: The answer, with special tokens if the mark-up has some.
        tool_form: The template's rendering of tools.
        request: The request; if it wants a single call, the output ends after that call.
        specials: Special tokens to remove from texts.
    """
    pieces = tool_form.form.pieces(text, types_of(request.tools))
    places = [index for index, piece in enumerate(pieces) if isinstance(piece, Written)]
    if not places:
        return None
    single = request.HasField("parallel_tool_calls") and not request.parallel_tool_calls
    if single or not tool_form.several:
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
